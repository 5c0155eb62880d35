// The sensors, now and at a moment: the items of `sensors`. Where those have no readings, or there are none, the newest
// reading of each sensor in `sensordatas` is asked for.
import { eventTimeField, macOf, measured, READINGS, SENSORS, timeOfReading } from './measures.js'
import { server } from './server.js'

const PAGE = 5000
/** The pause between two requests of the newest readings: so many milliseconds, or a multiple of the time that the last one took, if that is longer. */
const REFRESH_MS = 2000
const REFRESH_TIMES = 10

/**
 * @param {{ onChange: (changed: Iterable<string>, options: { isChange: boolean, isOther: boolean }) => void, onProblem: (error: unknown) => void }} options
 *   isChange: something was measured just now; isOther: there may be others than before
 */
export function sensorSource({ onChange, onProblem }) {
  /** The items that are shown, by their ids. @type {Map<string, any>} */
  let sensors = new Map()
  /** @type {Map<string, any>} */
  let items = new Map()
  /** By mac. @type {Map<string, any>} */
  let newest = new Map()
  /** By mac, the id of the item. @type {Map<string, string>} */
  let keys = new Map()
  /** @type {any} */
  let list
  /** Counts what was begun: what an earlier one brings is dropped. */
  let turn = 0
  let isReady = false
  let isRefreshing = false
  let isStale = false

  server.addEventListener('updated', (event) => {
    const { collection } = /** @type {CustomEvent<import('./server.js').Updated>} */ (event).detail
    if (collection === READINGS) void refresh()
  })
  server.addEventListener('again', () => void refresh())

  return {
    get sensors() {
      return sensors
    },
    /** Whether it is known which sensors there are. */
    get isReady() {
      return isReady
    },
    follow,
    showPast,
    clear,
  }

  function clear() {
    turn++
    list?.close()
    list = undefined
    isReady = false
    reset([])
  }

  /** Keeps the sensors right from now on. */
  function follow() {
    if (list) return
    const own = ++turn
    isReady = false
    const live = server.client.collection(SENSORS).live()
    list = live
    let isFirst = true
    live.onChange(({ entered, updated, left, wasReset }) => {
      if (own !== turn) return
      if (isFirst || wasReset) {
        isFirst = false
        void begin(live.items, undefined, own)
        return
      }
      const isOther = entered.length + left.length > 0
      for (const item of left) setItem(idOf(item), undefined)
      for (const item of entered) setItem(idOf(item), item)
      for (const { item } of updated) setItem(idOf(item), item)
      if (isOther) rebuild()
      const keys = [...entered, ...updated.map((one) => one.item)].map(idOf)
      if (isReady) onChange(keys, { isChange: true, isOther })
    })
    live.ready.catch((/** @type {unknown} */ error) => {
      if (own !== turn) return
      list = undefined
      onProblem(error)
    })
  }

  /** @param {number} at */
  async function showPast(at) {
    list?.close()
    list = undefined
    const own = ++turn
    const names = await server.client.collections({ asOf: at })
    const found = []
    if (names.includes(SENSORS)) {
      for await (const item of server.client.collection(SENSORS).asOf(at).all()) found.push(item)
    }
    if (own === turn) await begin(found, at, own)
  }

  /**
   * @param {readonly any[]} found
   * @param {number | undefined} at
   * @param {number} own
   */
  async function begin(found, at, own) {
    reset(found)
    try {
      if (lacksReadings()) newest = await readNewest(at)
    } catch (error) {
      if (own === turn) onProblem(error)
    }
    if (own !== turn) return
    rebuild()
    isReady = true
    onChange(sensors.keys(), { isChange: false, isOther: true })
  }

  /** Asks for the newest readings, again and again while others come. */
  async function refresh() {
    isStale = true
    if (isRefreshing) return
    isRefreshing = true
    while (isStale) {
      isStale = false
      const began = performance.now()
      if (list && isReady && lacksReadings()) await readAgain()
      const pause = Math.max(REFRESH_MS, REFRESH_TIMES * (performance.now() - began))
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    isRefreshing = false
  }

  async function readAgain() {
    const own = turn
    try {
      const found = await readNewest(undefined)
      if (own !== turn) return
      const before = sensors
      newest = found
      rebuild()
      const changed = [...sensors.keys()].filter(
        (key) => JSON.stringify(sensors.get(key)) !== JSON.stringify(before.get(key)),
      )
      const isOther = before.size !== sensors.size || changed.some((key) => !before.has(key))
      if (changed.length > 0 || isOther) onChange(changed, { isChange: true, isOther })
    } catch (error) {
      if (own === turn) onProblem(error)
    }
  }

  function lacksReadings() {
    if (eventTimeField() === undefined) return false
    for (const item of items.values()) if (Object.keys(measured(item)).length === 0) return true
    return items.size === 0
  }

  /** @param {readonly any[]} found */
  function reset(found) {
    items = new Map()
    newest = new Map()
    sensors = new Map()
    keys = new Map()
    for (const item of found) setItem(idOf(item), item)
  }

  /**
   * @param {string} key
   * @param {any} item undefined: there is none any more
   */
  function setItem(key, item) {
    const before = items.get(key)
    if (before) keys.delete(String(macOf(before)))
    if (item === undefined) {
      items.delete(key)
      sensors.delete(key)
      return
    }
    items.set(key, item)
    keys.set(String(macOf(item)), key)
    sensors.set(key, withReading(item, newest.get(String(macOf(item)))))
  }

  function rebuild() {
    const shown = new Map()
    for (const [key, item] of items) shown.set(key, withReading(item, newest.get(String(macOf(item)))))
    for (const [mac, reading] of newest) {
      if (!keys.has(mac) && !shown.has(mac)) shown.set(mac, { ...reading, [server.idField]: mac })
    }
    sensors = shown
  }
}

/** @param {any} item */
function idOf(item) {
  return String(item[server.idField])
}

/**
 * The item of a sensor with its newest reading, if that is newer than what the item has.
 * @param {any} item
 * @param {any} reading
 */
function withReading(item, reading) {
  if (reading === undefined) return item
  const isNewer = (timeOfReading(reading) ?? 0) > (timeOfReading(item) ?? Number.NEGATIVE_INFINITY)
  return isNewer ? { ...item, ...reading, [server.idField]: item[server.idField] } : { ...reading, ...item }
}

/** @param {number | undefined} at */
async function readNewest(at) {
  const found = new Map()
  const names = await server.client.collections(at === undefined ? {} : { asOf: at })
  if (!names.includes(READINGS)) return found
  let asOf = at
  for (let page = 1; ; page++) {
    const readings = server.client.collection(READINGS).page(page, PAGE)
    const { items, total, position } = await (asOf === undefined ? readings : readings.asOf(asOf)).newestBy('mac')
    for (const item of items) if (typeof item.mac === 'string') found.set(item.mac, item)
    if (page * PAGE >= total) return found
    asOf = position
  }
}
