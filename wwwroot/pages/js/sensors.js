// The page of the sensors: a tile for each, and of the chosen one its readings over time.
import { address } from './address.js'
import { charts } from './charts.js'
import { calmly, el, fill, find, setText } from './dom.js'
import { counted, dateTime, instant, visible } from './format.js'
import { moment, timeOf } from './moment.js'
import { readings } from './readings.js'
import { sensorTile } from './sensor-tiles.js'
import { server } from './server.js'
import { showProblem, startShell } from './shell.js'

const COLLECTION = 'sensors'
const HOUR = 3_600_000
const SPANS = /** @type {const} */ ([
  ['1h', '1 h', HOUR],
  ['24h', '24 h', 24 * HOUR],
  ['7d', '7 days', 7 * 24 * HOUR],
  ['all', 'All', 0],
])
const ROWS = 50
/** One stays at a moment when one was there for so long. */
const SETTLE_MS = 400

/** @type {Map<string, import('./sensor-tiles.js').Tile>} */
const tiles = new Map()
/** @type {any} */
let list
/** The sensors of the moment shown are not there yet. */
let isReading = true
/** When the moment shown was; undefined: now. @type {number | undefined} */
let shownTime
/** What is loaded of the chosen sensor.
 * @type {{ key: string, from: number, at: number | undefined, series: import('./series.js').Series, stop: () => void, abort: AbortController, isLoaded: boolean } | undefined} */
let chosen
/** @type {AbortController | undefined} */
let loading
/** @type {ReturnType<typeof setTimeout> | undefined} */
let settling
const chart = charts(find('charts'))
const drawSoon = calmly(draw, 200)
const showSoon = calmly(() => show().catch(showProblem), 50)

for (const [name, text] of SPANS) {
  const button = el('button', { type: 'button', value: name, onclick: () => go({ span: name }) }, text)
  find('spans').append(button)
}
find('spans').setAttribute('role', 'group')
find('spans').setAttribute('aria-label', 'Time shown')
Object.assign(find('table'), { tabIndex: 0, role: 'region', ariaLabel: 'The latest readings' })
find('close').addEventListener('click', () => go({ sensor: undefined, span: undefined }))
find('table-part').addEventListener('toggle', drawTable)
setInterval(() => {
  tick()
  if (moment.at === undefined && !document.hidden) draw()
}, 1000)
void startShell(showSoon)

/** @param {Record<string, string | undefined>} changes to the address */
function go(changes) {
  address.set(changes, { isStep: true })
  showSoon()
}

async function show() {
  if (server.access.role === null) return clear()
  if (moment.at === undefined) {
    shownTime = undefined
    follow()
  } else {
    list?.close()
    list = undefined
    const { at } = moment
    const [items, time] = await Promise.all([then(at), at > 0 ? timeOf(at) : 0])
    if (at !== moment.at) return
    shownTime = time
    isReading = false
    showItems(items, false)
  }
  showProblem()
  choose()
}

/** @param {number} at */
async function then(at) {
  const names = await server.client.collections({ asOf: at })
  if (!names.includes(COLLECTION)) return []
  const items = []
  for await (const item of server.client.collection(COLLECTION).asOf(at).all()) items.push(item)
  return items
}

/** Keeps the tiles right from now on. */
function follow() {
  if (list) return
  const live = server.client.collection(COLLECTION).live()
  list = live
  isReading = true
  let isFirst = true
  live.onChange(({ entered, updated, left, wasReset }) => {
    if (isFirst || wasReset) showItems(live.items, false)
    else {
      for (const item of left) remove(String(item[server.idField]))
      for (const item of entered) showItem(item, true)
      for (const { item } of updated) showItem(item, true)
      summary()
    }
    isFirst = false
    isReading = false
    if (!chosen) choose()
    drawSoon()
  })
  live.ready.catch((/** @type {unknown} */ error) => {
    if (list === live) {
      list = undefined
      showProblem(error)
    }
  })
}

function clear() {
  list?.close()
  list = undefined
  for (const key of [...tiles.keys()]) remove(key)
  drop()
  find('series').hidden = true
}

/**
 * @param {readonly any[]} items
 * @param {boolean} isChange
 */
function showItems(items, isChange) {
  const keys = new Set(items.map((item) => String(item[server.idField])))
  for (const key of [...tiles.keys()]) if (!keys.has(key)) remove(key)
  for (const item of items) showItem(item, isChange)
  summary()
}

/**
 * @param {any} item
 * @param {boolean} isChange
 */
function showItem(item, isChange) {
  const key = String(item[server.idField])
  let tile = tiles.get(key)
  if (!tile) {
    tile = sensorTile(key, (picked) => go({ sensor: picked }))
    tiles.set(key, tile)
    find('tiles').append(tile.element)
  }
  tile.show(item, isChange)
  tile.tick(shownTime ?? Date.now())
}

/** @param {string} key */
function remove(key) {
  tiles.get(key)?.element.remove()
  tiles.delete(key)
}

function summary() {
  setText(find('summary'), counted(tiles.size, 'sensor'))
  find('empty').hidden = tiles.size > 0
}

function tick() {
  const now = shownTime ?? Date.now()
  for (const tile of tiles.values()) tile.tick(now)
}

/** Shows the series of the sensor that the address names. */
function choose() {
  const key = address.get('sensor')
  document.body.classList.toggle('with-series', key !== undefined)
  find('series').hidden = key === undefined
  for (const [one, { link }] of tiles) {
    const parameters = new URLSearchParams(location.search)
    parameters.set('sensor', one)
    link.href = `?${parameters}`
    if (one === key) link.setAttribute('aria-current', 'true')
    else link.removeAttribute('aria-current')
  }
  if (key === undefined) return drop()
  const tile = tiles.get(key)
  // Not before it is known whether there is one.
  if (!tile && isReading) return
  setText(find('chosen'), visible(String(tile?.item.mac ?? key)))
  const span = spanOf(key)
  for (const button of find('spans').children) button.setAttribute('aria-pressed', String(button.value === span[0]))
  const end = endOf(key)
  const from = span[2] === 0 ? 0 : end - span[2]
  clearTimeout(settling)
  if (chosen && chosen.key === key && chosen.from <= from && chosen.at === moment.at) return draw()
  if (chosen?.key !== key) drop()
  draw()
  // While one moves through time, what was read already is shown up to there; when one stays, it is read as it was then.
  if (chosen && moment.at !== undefined) settling = setTimeout(() => load(key, from, span[2]), SETTLE_MS)
  else load(key, from, span[2])
}

/**
 * @param {string} key
 * @param {number} from
 * @param {number} span in milliseconds, 0 for all
 */
function load(key, from, span) {
  const abort = new AbortController()
  loading?.abort()
  loading = abort
  setText(find('state-of-series'), 'Reading…')
  // What lies somewhat earlier is read, too, so that a step back does not read it all again.
  const early = span === 0 ? 0 : from - span / 2
  const { at } = moment
  const mac = String(tiles.get(key)?.item.mac ?? key)
  const made = readings({ mac, key, from: early, at, onMore: more, signal: abort.signal })
  let isLoaded = false
  made.loaded.then(
    () => {
      isLoaded = true
      more()
    },
    (error) => {
      if (!abort.signal.aborted) showProblem(error)
    },
  )

  function more() {
    if (abort.signal.aborted) return made.stop()
    if (chosen?.abort !== abort) {
      // What was shown so far stays until there is something better.
      if (chosen && !isLoaded) return
      chosen?.stop()
      chosen = { key, from: early, at, series: made.series, stop: made.stop, abort, isLoaded }
    }
    chosen.isLoaded = isLoaded
    drawSoon()
  }
}

function drop() {
  loading?.abort()
  loading = undefined
  chosen?.stop()
  chosen = undefined
}

/**
 * The span that is asked for, else the least one that has the latest reading in it.
 * @param {string} key
 */
function spanOf(key) {
  const asked = SPANS.find(([name]) => name === address.get('span'))
  if (asked) return asked
  const latest = instant(tiles.get(key)?.item.timestamp)
  const now = shownTime ?? Date.now()
  return SPANS.find(([, , ms]) => latest !== undefined && now - latest < ms) ?? SPANS[3]
}

/**
 * The right edge: now, or the moment that is shown; a reading may be stamped later than that.
 * @param {string} key
 */
function endOf(key) {
  const latest = instant(tiles.get(key)?.item.timestamp)
  if (shownTime !== undefined) return latest ?? shownTime
  return Math.max(Date.now(), latest ?? 0)
}

function draw() {
  if (!chosen) return
  const { key, series, isLoaded } = chosen
  const [, , ms] = spanOf(key)
  let end = endOf(key)
  if (ms === 0 && series.length > 0) {
    // All there is fills the width; live it goes on to the right with what comes.
    const last = series.times[series.length - 1] ?? end
    if (last < end) end = last
  }
  const upTo = series.countUpTo(end)
  const from = ms === 0 ? Math.min(series.times[0] ?? end - HOUR, end - 1000) : end - ms
  const within = upTo - series.countUpTo(from - 1)
  chart.show(series, { from, to: end })
  const last = series.times[upTo - 1]
  const texts =
    within > 0
      ? `${counted(within, 'reading')}`
      : last === undefined
        ? 'No readings'
        : `None in this time; the last one was ${dateTime(last)}`
  setText(find('state-of-series'), isLoaded ? texts : `Reading… ${texts}`)
  drawTable()
}

/** What the charts show, for who does not see them. */
function drawTable() {
  const part = find('table-part')
  if (!part.open || !chosen) return
  const { series } = chosen
  const end = series.countUpTo(endOf(chosen.key))
  const names = [...series.columns.keys()].sort()
  const rows = []
  for (let index = end - 1; index >= Math.max(0, end - ROWS); index--) {
    const cells = names.map((name) => {
      const value = series.columns.get(name)?.[index]
      return el('td.number', null, value === undefined || Number.isNaN(value) ? '' : String(value))
    })
    rows.push(el('tr', null, el('th', { scope: 'row' }, dateTime(series.times[index] ?? 0, { withMs: true })), cells))
  }
  const heads = ['time', ...names].map((name) => el('th', { scope: 'col' }, visible(name)))
  fill(find('table'), el('table', null, el('thead', null, el('tr', null, heads)), el('tbody', null, rows)))
}
