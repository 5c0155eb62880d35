// The chosen sensor: what it measured over a range of time, as charts and as a table, to be looked at and downloaded.
import { charts, rounded } from './charts.js'
import { el, fill, find, setText } from './dom.js'
import { count, counted, dateTime, short, visible } from './format.js'
import { macOf, measured, nameOf, READINGS, timeOfReading, unitOf } from './measures.js'
import { downloadQuery, seriesOf } from './readings.js'
import { pointOf } from './series.js'
import { pathOf, server } from './server.js'
import { showProblem } from './shell.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const RANGES = /** @type {const} */ ([
  ['1h', '1 h', HOUR],
  ['6h', '6 h', 6 * HOUR],
  ['24h', '24 h', DAY],
  ['7d', '7 days', 7 * DAY],
  ['30d', '30 days', 30 * DAY],
  ['1y', '1 year', 365 * DAY],
  ['5y', '5 years', 5 * 365 * DAY],
  ['all', 'All', undefined],
])
/** The range that is shown where the address names none, if the latest reading is in it. */
const USUAL = '24h'
const ROWS = 50
/** Readings in a smaller part of the range that the page chose are shown alone. */
const LEAST_PART = 0.05
/** A moment that is passed sooner is not read. */
const SETTLE_MS = 400
/** The pause before changed readings are read again: so many milliseconds, or a multiple of the time that the last read took, if that is longer. */
const REREAD_MS = 5000
const REREAD_TIMES = 10
/** About how wide a chart is. */
const PIXELS = 2000
/** How many readings that came since the last read are drawn before all is read again. */
const LIVE = 1000

/**
 * @typedef {import('./series.js').Point} Point
 * @typedef {{ key: string, item: any, at: number | undefined, now: number, range: string | undefined }} Shown range: undefined for the usual one
 */

/** @param {{ onRange: (range: string) => void }} options */
export function sensorChart({ onRange }) {
  const chart = charts(find('charts'))
  /** @type {Shown | undefined} */
  let shown
  /** The readings of the last read. @type {(import('./readings.js').Series & { key: string, range: string, at: number | undefined }) | undefined} */
  let series
  /** Readings that came since. @type {Point[]} */
  let live = []
  /** @type {AbortController | undefined} */
  let loading
  /** Key, range and moment that are being read, as JSON. */
  let loadingFor = ''
  let isStale = false
  let readAgainAt = 0
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let settling
  /** The sensor whose readings are too close together for the fitting range. */
  let closeKey = ''

  find('ranges').setAttribute('role', 'group')
  find('ranges').setAttribute('aria-label', 'Time shown')
  find('ranges').append(
    ...RANGES.map(([name, text]) => el('button', { type: 'button', value: name, onclick: () => onRange(name) }, text)),
  )
  find('table-part').addEventListener('toggle', drawTable)
  for (const [id, type, ending] of [
    ['csv', 'text/csv', 'csv'],
    ['ndjson', 'application/x-ndjson', 'ndjson'],
  ]) {
    find(`download-${id}`).addEventListener('click', () => download(String(type), String(ending)).catch(showProblem))
  }
  server.addEventListener('updated', (event) => {
    const { collection } = /** @type {CustomEvent<import('./server.js').Updated>} */ (event).detail
    if (collection === READINGS) isStale = true
  })
  server.addEventListener('again', () => {
    isStale = true
  })
  return { show, tick, drop }

  /** @param {Shown} wanted */
  function show(wanted) {
    const before = shown
    const { key, item, at } = wanted
    const name = short(nameOf(item), 200) || '""'
    const mac = short(macOf(item), 200)
    setText(find('chosen'), visible(name))
    setText(find('chosen-mac'), mac === name ? '' : mac)
    const range = rangeNow(wanted)
    for (const button of find('ranges').children) button.setAttribute('aria-pressed', String(button.value === range[0]))
    if (before?.key !== key) drop()
    else if (before.at !== at) live = []
    else if (before.item !== item && at === undefined) append(item)
    shown = wanted
    if (series && series.key === key && series.range === range[0] && series.at === at) return draw()
    const wantedFor = JSON.stringify([key, range[0], at])
    if (loadingFor === wantedFor) return draw()
    loadingFor = wantedFor
    loading?.abort()
    clearTimeout(settling)
    if (series) setText(find('state-of-series'), 'Reading…')
    // While one moves through time, what was read already is shown.
    if (series && at !== undefined && series.at !== at) settling = setTimeout(load, SETTLE_MS)
    else void load()
  }

  /** @param {Shown} wanted */
  function rangeNow(wanted) {
    return rangeOf(wanted.range === undefined && wanted.key === closeKey ? { ...wanted, range: 'all' } : wanted)
  }

  /** Adds a reading that came just now. @param {any} item */
  function append(item) {
    const time = timeOfReading(item)
    const last = live.at(-1) ?? series?.points.at(-1)
    if (time === undefined || (last && time <= last.to)) return
    live.push(pointOf(time, measured(item)))
    if (live.length > LIVE) isStale = true
    if (series) series.total++
  }

  async function load() {
    if (!shown) return
    const { key, item, at } = shown
    const [range, , ms] = rangeNow(shown)
    const to = endOf(shown)
    const abort = new AbortController()
    loading = abort
    isStale = false
    const began = performance.now()
    try {
      const from = ms === undefined ? undefined : to - ms
      const read = await seriesOf({ key, item, at, from, to, signal: abort.signal })
      if (abort.signal.aborted) return
      series = { ...read, key, range, at }
      const last = read.points.at(-1)
      const first = read.points[0]
      if (closeKey !== key && range !== USUAL && !shown.range && first && last) {
        if (ms !== undefined && last.to - first.from < LEAST_PART * ms) {
          closeKey = key
          return show(shown)
        }
      }
      if (last) {
        // The last window is not over yet.
        last.to = Math.max(last.from, Math.min(last.to, to))
        live = live.filter((point) => point.from > last.to)
      }
    } catch (error) {
      if (abort.signal.aborted) return
      showProblem(error)
    }
    loading = undefined
    loadingFor = ''
    readAgainAt = performance.now() + Math.max(REREAD_MS, REREAD_TIMES * (performance.now() - began))
    draw()
  }

  /** @param {number} now */
  function tick(now) {
    if (!shown || shown.at !== undefined || document.hidden) return
    const [, , ms = now] = rangeNow(shown)
    // Less is not seen.
    if (now - shown.now > ms / PIXELS) {
      shown = { ...shown, now }
      draw()
    }
    if (isStale && series && !loading && performance.now() > readAgainAt) void load()
  }

  function drop() {
    loading?.abort()
    loading = undefined
    loadingFor = ''
    clearTimeout(settling)
    series = undefined
    shown = undefined
    live = []
  }

  function draw() {
    if (!shown) return
    const { item } = shown
    const points = pointsShown()
    const [, , ms] = rangeNow(shown)
    let to = endOf(shown)
    // All there is fills the width.
    const last = points.at(-1)
    if (ms === undefined && last) to = Math.min(to, last.to)
    const from = ms === undefined ? Math.min(points[0]?.from ?? to - HOUR, to - 1000) : to - ms
    const time = timeOfReading(item)
    const latest = time === undefined ? last : pointOf(time, measured(item))
    chart.show(points, { from, to, latest, unitOf: (name) => unitOf(item, name), of: shown.key })
    setText(find('state-of-series'), stateOf(points, from, to))
    find('downloads').hidden = series?.kind === 'history'
    drawTable()
  }

  /** @returns {readonly Point[]} */
  function pointsShown() {
    if (!shown) return []
    const points = series ? [...series.points, ...live] : live
    const end = endOf(shown)
    return shown.at === undefined ? points : points.filter(({ from }) => from <= end)
  }

  /**
   * @param {readonly Point[]} points
   * @param {number} from
   * @param {number} to
   */
  function stateOf(points, from, to) {
    if (!series || loading) return 'Reading…'
    const { total, isWhole, kind } = series
    const within = points.filter((point) => point.to >= from && point.from <= to)
    const readings = within.reduce((sum, point) => sum + point.count, 0)
    if (readings === 0) {
      const latest = timeOfReading(shown?.item)
      return latest === undefined ? 'No readings' : `None in this time; the last one was ${dateTime(latest)}`
    }
    if (!isWhole) return `The newest ${count(readings)} of ${counted(total, 'reading')}`
    return kind === 'windows' ? `${counted(readings, 'reading')}, averages` : counted(readings, 'reading')
  }

  /** Shows the latest points as text, for readers who cannot see the charts. */
  function drawTable() {
    if (!find('table-part').open) return
    const points = pointsShown().slice(-ROWS).reverse()
    const names = [...new Set(points.flatMap(({ values }) => [...values.keys()]))].sort()
    const isWindows = points.some(({ from, to }) => to > from)
    const rows = points.map((point) => {
      const cells = names.map((name) => {
        const [average, least, greatest] = point.values.get(name) ?? []
        const text =
          least === greatest ? String(least ?? '') : `${rounded(average)} (${rounded(least)} to ${rounded(greatest)})`
        return el('td.number', null, text)
      })
      const time = dateTime(point.from, { withMs: !isWindows })
      return el(
        'tr',
        null,
        el('th', { scope: 'row' }, time),
        cells,
        isWindows && el('td.number', null, count(point.count)),
      )
    })
    const heads = [...['time', ...names].map((name) => visible(name)), ...(isWindows ? ['readings'] : [])]
    const head = heads.map((name) => el('th', { scope: 'col' }, name))
    fill(find('table'), el('table', null, el('thead', null, el('tr', null, head)), el('tbody', null, rows)))
  }

  /**
   * Saves all readings of the range as a file.
   * @param {string} type
   * @param {string} ending
   */
  async function download(type, ending) {
    if (!shown) return
    const [, , ms] = rangeNow(shown)
    const to = endOf(shown)
    const asked = downloadQuery({ item: shown.item, at: shown.at, from: ms === undefined ? undefined : to - ms, to })
    const name = String(macOf(shown.item)).replaceAll(/[^\w.-]+/g, '-')
    await server.download(`${pathOf(READINGS)}?${asked}`, type, `${name}.${ending}`)
  }
}

/**
 * The range that is asked for, else the usual one, else the least one that has the latest reading in it.
 * @param {Shown} shown
 */
function rangeOf({ item, now, range }) {
  const asked = RANGES.find(([name]) => name === range)
  if (asked) return asked
  const latest = timeOfReading(item)
  const usual = RANGES.findIndex(([name]) => name === USUAL)
  const fitting = RANGES.slice(usual).find(([, , ms]) => latest !== undefined && ms !== undefined && now - latest < ms)
  return fitting ?? /** @type {typeof RANGES[number]} */ (RANGES.at(-1))
}

/**
 * The right edge: now, or the moment that is shown; a reading may be stamped later than that.
 * @param {Shown} shown
 */
function endOf({ item, at, now }) {
  const latest = timeOfReading(item)
  if (at !== undefined) return latest ?? now
  return Math.max(now, latest ?? 0)
}
