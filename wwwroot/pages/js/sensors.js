// The page of the sensors: a tile for each, and of the chosen one what it measured over time.
import { address } from './address.js'
import { calmly, el, find, setText } from './dom.js'
import { count, counted } from './format.js'
import { hasLowBattery, macOf, mainOf, measured, nameOf, timeOfReading } from './measures.js'
import { moment, timeOf } from './moment.js'
import { sensorChart } from './sensor-chart.js'
import { sensorSource } from './sensor-source.js'
import { isSilent, sensorTile } from './sensor-tiles.js'
import { server } from './server.js'
import { showProblem, startShell } from './shell.js'
import { sparkQueue } from './sparklines.js'
import { tileGrid } from './tile-grid.js'

/** How often tiles that are sorted by their values are put in order again. */
const SORT_MS = 10_000
/** Tiles and moments that are passed sooner are not read. */
const SETTLE_MS = 400
/** Where the charts are above the tiles. */
const NARROW = matchMedia('(max-width: 60rem)')

/** The orders of the tiles, each with the number that it sorts by, the least first. @type {Record<string, [string, (item: any) => number | string]>} */
const SORTS = {
  name: ['Name', () => 0],
  latest: ['Latest first', (item) => -(timeOfReading(item) ?? Number.NEGATIVE_INFINITY)],
  silent: ['Silent longest first', (item) => timeOfReading(item) ?? Number.NEGATIVE_INFINITY],
  high: ['Highest first', (item) => -mainValue(item, Number.NEGATIVE_INFINITY)],
  low: ['Lowest first', (item) => mainValue(item, Number.POSITIVE_INFINITY)],
  battery: ['Battery lowest first', (item) => numberOr(measured(item).battery, Number.POSITIVE_INFINITY)],
}
const names = new Intl.Collator('en', { numeric: true })

/** The sensors that the search leaves, in their order. @type {readonly string[]} */
let order = []
/** When the moment shown was; undefined: now. @type {number | undefined} */
let shownTime
/** @type {ReturnType<typeof setTimeout> | undefined} */
let settling
/** @type {readonly string[]} */
let seen = []
/** How far the page was scrolled when a sensor was picked. */
let scrolled = 0

const source = sensorSource({ onChange: changed, onProblem: showProblem })
const sparks = sparkQueue({ onLoaded: drawSpark, onProblem: showProblem })
const chart = sensorChart({ onRange: (range) => go({ range }) })
const grid = tileGrid(find('tile-place'), find('tiles'), {
  newTile,
  onView: (keys) => {
    seen = keys
    wantSparks()
  },
})
const showSoon = calmly(() => show().catch(showProblem), 50)
const arrangeSoon = calmly(arrange, 200)
const summarizeSoon = calmly(summary, 1000)

const search = find('search')
const sort = find('sort')
for (const [name, [text]] of Object.entries(SORTS)) sort.append(el('option', { value: name }, text))
find('close').addEventListener('click', unpick)
search.addEventListener('input', () => {
  address.set({ q: search.value })
  arrangeSoon()
})
sort.addEventListener('change', () => {
  address.set({ sort: sort.value === 'name' ? undefined : sort.value })
  arrange()
})
Object.assign(find('table'), { tabIndex: 0, role: 'region', ariaLabel: 'The latest readings' })
new ResizeObserver(([shell]) => {
  document.documentElement.style.setProperty('--shell', `${shell?.borderBoxSize[0]?.blockSize ?? 0}px`)
}).observe(find('shell'))
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { spark } of grid.tiles.values()) spark.redraw()
})
// The days lack the readings that came while there was no connection.
server.addEventListener('again', () => {
  sparks.clear()
  wantSparks()
})
setInterval(tick, 1000)
setInterval(() => {
  if (!document.hidden && moment.at === undefined && sort.value !== 'name') arrange()
  wantSparks()
}, SORT_MS)
void startShell(showSoon)

/** @param {Record<string, string | undefined>} changes to the address */
function go(changes) {
  address.set(changes, { isStep: true })
  choose()
}

async function show() {
  search.value = address.get('q') ?? ''
  sort.value = Object.hasOwn(SORTS, address.get('sort') ?? '') ? address.get('sort') : 'name'
  if (server.access.role === null) return clear()
  const { at } = moment
  if (at === undefined) {
    if (shownTime !== undefined) sparks.clear()
    shownTime = undefined
    source.follow()
  } else {
    const [time] = await Promise.all([at > 0 ? timeOf(at) : 0, source.showPast(at)])
    if (at !== moment.at) return
    shownTime = time
    sparks.clear()
    arrange()
  }
  showProblem()
  choose()
}

function clear() {
  source.clear()
  sparks.clear()
  arrange()
  chart.drop()
  find('series').hidden = true
}

/**
 * @param {Iterable<string>} keys
 * @param {{ isChange: boolean, isOther: boolean }} how
 */
function changed(keys, { isChange, isOther }) {
  const before = chosenKey()
  let isChosen = false
  for (const key of keys) {
    if (key === before) isChosen = true
    const item = source.sensors.get(key)
    const tile = grid.tiles.get(key)
    if (!item || !tile) continue
    tile.show(item, { isChange, now: shownTime ?? Date.now() })
    drawSpark(key)
  }
  if (isOther) arrange()
  else summarizeSoon()
  if (isOther || isChosen) choose()
}

/** @param {string} key */
function newTile(key) {
  const tile = sensorTile(key, pick)
  const item = source.sensors.get(key)
  tile.show(item, { isChange: false, now: shownTime ?? Date.now() })
  mark(tile)
  const known = sparks.pointsOf(key, item)
  if (known) tile.spark.show(known.points, known.field, known.end)
  return tile
}

/** @param {string} key */
function pick(key) {
  scrolled = scrollY
  go({ sensor: key })
  if (!NARROW.matches) return
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches
  find('series').scrollIntoView({ block: 'start', behavior: isCalm ? 'auto' : 'smooth' })
}

function unpick() {
  go({ sensor: undefined })
  scrollTo(0, scrolled)
}

/** Puts the tiles that the search leaves in order. */
function arrange() {
  const wanted = search.value.trim().toLowerCase()
  const by = /** @type {[string, (item: any) => number | string]} */ (SORTS[sort.value] ?? SORTS.name)[1]
  const found = []
  for (const [key, item] of source.sensors) {
    const name = String(nameOf(item))
    if (wanted === '' || `${name}\n${macOf(item)}\n${key}`.toLowerCase().includes(wanted)) {
      found.push({ key, name, rank: by(item) })
    }
  }
  found.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : names.compare(a.name, b.name)))
  order = found.map(({ key }) => key)
  for (const [key, tile] of grid.tiles) {
    const item = source.sensors.get(key)
    if (item) tile.show(item, { isChange: false, now: shownTime ?? Date.now() })
  }
  grid.set(order)
  summary()
}

function summary() {
  const isIn = server.access.role !== null
  find('summary').hidden = !isIn
  const all = source.sensors.size
  const now = shownTime ?? Date.now()
  let silent = 0
  let low = 0
  for (const item of source.sensors.values()) {
    if (isSilent(timeOfReading(item) ?? Number.NEGATIVE_INFINITY, now)) silent++
    if (hasLowBattery(item)) low++
  }
  const found = order.length === all ? counted(all, 'sensor') : `${count(order.length)} of ${counted(all, 'sensor')}`
  const parts = [found, silent > 0 && `${count(silent)} silent`, low > 0 && `${count(low)} with a low battery`]
  setText(find('summary'), source.isReady ? parts.filter(Boolean).join(', ') : 'Reading…')
  find('empty').hidden = !isIn || !source.isReady || all > 0
  find('controls').hidden = all === 0
}

function tick() {
  if (document.hidden) return
  const now = shownTime ?? Date.now()
  for (const tile of grid.tiles.values()) tile.tick(now)
  chart.tick(now)
}

/** The sensor that the address names, else the first one. */
function chosenKey() {
  return address.get('sensor') ?? order[0]
}

function choose() {
  for (const tile of grid.tiles.values()) mark(tile)
  const key = chosenKey()
  const item = key === undefined ? undefined : source.sensors.get(key)
  find('series').hidden = key === undefined
  find('close').hidden = address.get('sensor') === undefined
  document.body.classList.toggle('is-picked', address.get('sensor') !== undefined)
  document.body.classList.toggle('with-series', key !== undefined)
  // Not before it is known whether there is one.
  if (key === undefined || (!item && !source.isReady)) return chart.drop()
  const shown = { at: moment.at, now: shownTime ?? Date.now(), range: address.get('range') }
  chart.show({ ...shown, key, item: item ?? { [server.idField]: key } })
}

/** @param {import('./sensor-tiles.js').Tile} tile */
function mark({ key, link }) {
  const parameters = new URLSearchParams(location.search)
  parameters.set('sensor', key)
  link.href = `?${parameters}`
  if (key === chosenKey()) link.setAttribute('aria-current', 'true')
  else link.removeAttribute('aria-current')
}

/** Asks for the last day of each tile in view. */
function wantSparks() {
  clearTimeout(settling)
  settling = setTimeout(() => {
    if (document.hidden || !source.isReady) return
    const visible = seen.map((key) => ({ key, item: source.sensors.get(key) })).filter(({ item }) => item)
    sparks.want(visible, moment.at)
  }, SETTLE_MS)
}

/** @param {string} key */
function drawSpark(key) {
  const item = source.sensors.get(key)
  const known = item && sparks.pointsOf(key, item)
  if (known) grid.tiles.get(key)?.spark.show(known.points, known.field, known.end)
}

/**
 * @param {any} item
 * @param {number} otherwise
 */
function mainValue(item, otherwise) {
  const main = mainOf(item)
  return main ? numberOr(measured(item)[main.name], otherwise) : otherwise
}

/**
 * @param {unknown} value
 * @param {number} otherwise
 */
function numberOr(value, otherwise) {
  return typeof value === 'number' ? value : otherwise
}
