// The readings of one sensor over time: those of `sensordatas`, few as they are, many as averages of windows of time. Where
// there are none, what the history of the sensor's item has. However many there are, a bounded number is read.
import {
  eventTimeField,
  macOf,
  measured,
  numbersOf,
  READINGS,
  SENSORS,
  timeField,
  timeLike,
  timeOfReading,
} from './measures.js'
import { pointOf } from './series.js'
import { server } from './server.js'

/** Up to so many readings are read one by one. */
const FEW = 500
/** Events of a history that are read. */
const EVENTS = 1000
const EVENTS_PAGE = 500
const WINDOWS = 300
const DAY = 24 * 3_600_000
/** Aggregates of one request: three a field, and the count. */
const FIELDS = 10
const MOST_FIELDS = 30
/** @type {readonly (readonly [text: string, ms: number])[]} */
const WIDTHS = [
  ...[1, 5, 10, 30].map((count) => /** @type {const} */ ([`${count}s`, count * 1000])),
  ...[1, 2, 5, 10, 15, 30].map((count) => /** @type {const} */ ([`${count}m`, count * 60_000])),
  ...[1, 2, 3, 6, 12].map((count) => /** @type {const} */ ([`${count}h`, count * 3_600_000])),
  ...[1, 2, 7, 28, 91, 364, 3640].map((count) => /** @type {const} */ ([`${count}d`, count * DAY])),
]

/**
 * isWhole: nothing was left out
 * @typedef {import('./series.js').Point} Point
 * @typedef {{ points: Point[], total: number, isWhole: boolean, kind: 'readings' | 'windows' | 'history' }} Series
 * @typedef {{ item: any, at: number | undefined, signal: AbortSignal }} Asked
 */

/**
 * @param {Asked} asked
 * @returns {any}
 */
function query({ item, at }) {
  const readings = server.client.collection(READINGS).where({ mac: macOf(item) })
  return at === undefined ? readings : readings.asOf(at)
}

/**
 * Reads the measurements of a sensor in a range of time.
 * @param {Asked & { key: string, from: number | undefined, to: number }} asked from: undefined for all
 * @returns {Promise<Series>}
 */
export async function seriesOf(asked) {
  const { item, signal, from } = asked
  if (!(await hasCollection(asked.at))) return history(asked)
  const all = query(asked)
  const since = from === undefined ? all : all.where({ [`${timeField()}_gte`]: timeLike(from, item) })
  const newest = since.sort(`-${timeField()}`)
  const { total } = await since.page(1, 1).fields(server.idField).get({ signal })
  if (total === 0) {
    const isNone = from === undefined || (await all.page(1, 1).fields(server.idField).get({ signal })).total === 0
    return isNone ? history(asked) : { points: [], total, isWhole: true, kind: 'readings' }
  }
  if (total > FEW && eventTimeField() !== undefined) {
    const begin = from ?? (await firstTime(all, signal))
    const points = await windows(since, numbersOf(item).slice(0, MOST_FIELDS), widthFor(asked.to - begin), signal)
    return { points, total, isWhole: true, kind: 'windows' }
  }
  const { items } = await newest.page(1, FEW).get({ signal })
  return { points: pointsOf(items), total, isWhole: total <= FEW, kind: 'readings' }
}

/**
 * The day before a sensor's latest reading, of one field.
 * @param {Asked & { field: { name: string, path: string } }} asked
 * @returns {Promise<Point[]>}
 */
export async function dayOf(asked) {
  const { item, field, signal } = asked
  const latest = timeOfReading(item)
  if (latest === undefined || !(await hasCollection(asked.at))) return []
  const since = query(asked).where({ [`${timeField()}_gte`]: timeLike(latest - DAY, item) })
  if (eventTimeField() !== undefined) return windows(since, [field], ['30m', 1_800_000], signal)
  const newest = since.sort(`-${timeField()}`).page(1, FEW)
  return pointsOf((await newest.fields(timeField(), field.path).get({ signal })).items)
}

/** @param {number} ms */
function widthFor(ms) {
  return WIDTHS.find(([, width]) => ms / width <= WINDOWS) ?? /** @type {const} */ (['36400d', 36_400 * DAY])
}

/**
 * @param {any} of
 * @param {readonly { name: string, path: string }[]} fields
 * @param {readonly [text: string, ms: number]} width
 * @param {AbortSignal} signal
 * @returns {Promise<Point[]>}
 */
async function windows(of, fields, [window, ms], signal) {
  /** @type {Map<number, Point>} */
  const points = new Map()
  // Days begin at midnight where the reader is.
  const tz = ms < DAY ? undefined : Intl.DateTimeFormat().resolvedOptions().timeZone
  for (let first = 0; first < fields.length; first += FIELDS) {
    const part = fields.slice(first, first + FIELDS)
    const columns = part.flatMap(({ path }) => ['avg', 'min', 'max'].map((name) => `${name}(${path})`))
    const { items } = await of.aggregate(['count', ...columns], { window, ...(tz && { tz }), signal })
    for (const row of items) {
      const from = Date.parse(row.window)
      const point = points.get(from) ?? { from, to: from + ms, count: row.count, values: new Map() }
      for (const { name, path } of part) {
        const values = ['avg', 'min', 'max'].map((one) => row[`${one}(${path})`])
        // Text has a least and a greatest, but no average.
        if (typeof values[0] === 'number') point.values.set(name, /** @type {any} */ (values))
      }
      points.set(from, point)
    }
  }
  return [...points.values()].sort(byTime)
}

/**
 * @param {any} of
 * @param {AbortSignal} signal
 */
async function firstTime(of, signal) {
  const { items } = await of.sort(timeField()).page(1, 1).get({ signal })
  return timeOfReading(items[0]) ?? 0
}

/**
 * Reads the states of a sensor's item, from its events.
 * @param {Asked & { key: string, from: number | undefined }} asked
 * @returns {Promise<Series>}
 */
async function history({ key, from, at, signal }) {
  /** @type {Point[]} */
  const found = []
  const wanted = {
    collection: SENSORS,
    id: key,
    order: 'desc',
    limit: String(EVENTS_PAGE),
    ...(at !== undefined && { from: String(at) }),
  }
  let next = /** @type {string | undefined} */ (`?${new URLSearchParams(wanted)}`)
  while (next && found.length < EVENTS) {
    const answer = await server.ask(`/events${next}`)
    signal.throwIfAborted()
    for (const { item, time } of answer.body) {
      if (item) found.push(pointOf(timeOfReading(item) ?? Date.parse(time), measured(item)))
    }
    const last = answer.body.at(-1)
    next = last && Date.parse(last.time) < (from ?? 0) ? undefined : answer.next
  }
  const points = found.filter((point) => point.from >= (from ?? Number.NEGATIVE_INFINITY)).sort(byTime)
  return { points, total: points.length, isWhole: next === undefined, kind: 'history' }
}

/** @param {readonly any[]} items */
function pointsOf(items) {
  const points = items.flatMap((item) => {
    const time = timeOfReading(item)
    return time === undefined ? [] : [pointOf(time, measured(item))]
  })
  return points.sort(byTime)
}

/**
 * @param {Point} a
 * @param {Point} b
 */
function byTime(a, b) {
  return a.from - b.from
}

/** Whether there is a collection of readings at a moment, as last asked. @type {{ at: number | undefined, has: Promise<boolean> } | undefined} */
let known

/** @param {number | undefined} at */
function hasCollection(at) {
  if (known && known.at === at) return known.has
  const has = server.client.collections(at === undefined ? {} : { asOf: at }).then((names) => names.includes(READINGS))
  const one = { at, has }
  known = one
  const forget = () => {
    if (known === one) known = undefined
  }
  // It may come into being.
  has.then((is) => is || forget(), forget)
  return has
}

/**
 * The address of all readings of a sensor in a time.
 * @param {{ item: any, at: number | undefined, from: number | undefined, to: number }} asked
 */
export function downloadQuery({ item, at, from, to }) {
  const time = timeField()
  return new URLSearchParams({
    mac: String(macOf(item)),
    ...(from !== undefined && { [`${time}_gte`]: timeLike(from, item) }),
    [`${time}_lte`]: timeLike(to, item),
    sort: time,
    all: 'true',
    ...(at !== undefined && { asOf: String(at) }),
  })
}
