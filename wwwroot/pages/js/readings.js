// The readings of one sensor: those of `sensordatas`, where all are kept; where there are none, what the history of the
// sensor's item has.
import { instant } from './format.js'
import { Series } from './series.js'
import { pathOf, server } from './server.js'

const PAGE = 10_000
const EVENTS = 500
/** So many are held of one sensor, the latest. */
const MOST = 1_000_000

/**
 * Numbers that a reading holds.
 * @param {any} item
 * @returns {Record<string, unknown>}
 */
export function measured({ id: _id, mac: _mac, data, timestamp: _timestamp, ...rest }) {
  return typeof data === 'object' && data !== null && !Array.isArray(data) ? data : rest
}

/**
 * @param {{ mac: string, key: string, from: number, at: number | undefined, onMore: () => void, signal: AbortSignal }} wanted from: the earliest
 *   time, in milliseconds; 0 for all; at: as they were after the event there, and not what comes
 * @returns {{ series: Series, loaded: Promise<void>, stop: () => void }}
 */
export function readings({ mac, key, from, at, onMore, signal }) {
  const series = new Series()
  /** @type {Record<string, string>} */
  const asOf = at === undefined ? {} : { asOf: String(at) }
  /** @type {{ close(): void } | undefined} */
  let list
  const loaded = load()
  return {
    series,
    loaded,
    stop: () => list?.close(),
  }

  async function load() {
    const names = await server.client.collections(at === undefined ? {} : { asOf: at })
    const isKept = names.includes('sensordatas') && (await hasReadings())
    if (signal.aborted) return
    if (isKept) await loadReadings()
    else await loadHistory()
  }

  async function hasReadings() {
    const query = new URLSearchParams({ mac, pageSize: '1', fields: server.idField, ...asOf })
    const { total } = await server.ask(`${pathOf('sensordatas')}?${query}`, { method: 'HEAD' })
    return total > 0
  }

  /** The latest come first: page by page down to the earliest, whatever is written meanwhile. */
  async function loadReadings() {
    const since = from > 0 ? new Date(from).toISOString() : ''
    const fields = { sort: '-timestamp', fields: 'id,timestamp,data', pageSize: String(PAGE) }
    /** @type {any[]} */
    let before = []
    let newest = new Date(from).toISOString()
    let upTo = ''
    for (let read = 0; read < MOST; ) {
      const query = new URLSearchParams({ mac, ...fields, ...asOf })
      if (since !== '') query.set('timestamp_gte', since)
      if (upTo !== '') query.set('timestamp_lte', upTo)
      const { body } = await server.ask(`${pathOf('sensordatas')}?${query}`)
      if (signal.aborted) return
      // Those of the very time at which the page before ended come again.
      const known = new Set(before.filter((one) => one.timestamp === upTo).map((one) => one.id))
      const page = body.filter((/** @type {any} */ one) => !known.has(one.id))
      const ascending = page.map((/** @type {any} */ one) => pointOf(one)).reverse()
      series.prepend(ascending.filter((/** @type {any} */ one) => one !== undefined))
      onMore()
      if (read === 0 && page.length > 0) newest = page[0].timestamp
      read += page.length
      before = body
      upTo = body.at(-1)?.timestamp
      if (body.length < PAGE || page.length === 0 || typeof upTo !== 'string') break
    }
    if (at !== undefined) return
    // What came since then, and what comes.
    const live = server.client.collection('sensordatas').where({ mac, timestamp_gt: newest }).live()
    if (signal.aborted) return live.close()
    list = live
    live.onChange((change) => {
      for (const item of change.wasReset ? [] : change.entered) add(item)
      if (change.entered.length > 0) onMore()
    })
    live.ready.catch(() => {})
  }

  async function loadHistory() {
    /** @type {any[]} */
    const found = []
    let next = /** @type {string | undefined} */ (
      `?${new URLSearchParams({ collection: 'sensors', id: key, order: 'desc', limit: String(EVENTS), ...(at !== undefined && { from: String(at) }) })}`
    )
    while (next && found.length < MOST) {
      const answer = await server.ask(`/events${next}`)
      if (signal.aborted) return
      found.push(...answer.body)
      const last = found.at(-1)
      next = last && Date.parse(last.time) < from ? undefined : answer.next
    }
    for (const { item, time } of found.reverse()) if (item) add(item, Date.parse(time))
    onMore()
    if (at !== undefined) return
    const live = server.client
      .collection('sensors')
      .where({ [server.idField]: key })
      .live()
    if (signal.aborted) return live.close()
    list = live
    let isFirst = true
    live.onChange(({ entered, updated }) => {
      if (!isFirst) for (const item of [...entered, ...updated.map((one) => one.item)]) add(item, Date.now())
      isFirst = false
      onMore()
    })
    live.ready.catch(() => {})
  }

  /**
   * @param {any} item
   * @param {number} [otherwise] its time, where it has none of its own
   */
  function add(item, otherwise) {
    const point = pointOf(item, otherwise)
    if (point) series.add(point.time, point.values)
  }
}

/**
 * @param {any} item
 * @param {number} [otherwise]
 */
function pointOf(item, otherwise) {
  const time = instant(item.timestamp) ?? otherwise
  return time === undefined ? undefined : { time, values: measured(item) }
}
