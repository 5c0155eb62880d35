// A tile for each sensor: its latest reading, how old that is, and the last day as a small chart.
import { el, flash, setText } from './dom.js'
import { age, short, span } from './format.js'
import { hasLowBattery, macOf, mainOf, measured, nameOf, timeOfReading, unitOf } from './measures.js'
import { sparkline } from './sparklines.js'

/** A sensor that is silent for longer is marked. */
export const SILENT_MS = 15 * 60_000
/** Other values than the first that a tile has room for. */
const OTHERS = 4

/**
 * @typedef {{ key: string, element: HTMLElement, link: HTMLAnchorElement, spark: import('./sparklines.js').Sparkline,
 *   show: (item: any, options: { isChange: boolean, now: number }) => void, tick: (now: number) => void, remove: () => void }} Tile
 */

/**
 * @param {string} key
 * @param {(key: string) => void} onPick
 * @returns {Tile}
 */
export function sensorTile(key, onPick) {
  const name = el('h2')
  const since = el('span.age.number')
  const mac = el('span.mac.quiet')
  const battery = el('span.badge', { hidden: true }, 'Low battery')
  const main = el('p.main.number', null, el('strong'), el('span.unit'), el('span.quiet'))
  const [value, unit, field] = main.children
  const spark = sparkline()
  const rest = el('dl')
  const link = el(
    'a.tile.card.fades',
    null,
    el('span.tile-head', null, name, since),
    el('span.tile-head', null, mac, battery),
    el('span.tile-main', null, main, spark.element),
    rest,
  )
  link.addEventListener('click', (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    onPick(key)
  })
  /** @type {HTMLElement[]} */
  let values = []
  let shownNames = ''
  /** @type {number | undefined} */
  let time
  /** @type {any} */
  let item
  return { key, element: el('li', null, link), link, spark, show, tick, remove: spark.destroy }

  /**
   * @param {any} shown
   * @param {{ isChange: boolean, now: number }} options
   */
  function show(shown, { isChange, now }) {
    item = shown
    time = timeOfReading(item)
    const title = short(nameOf(item), 80) || '""'
    const address = short(macOf(item), 80)
    setText(name, title)
    setText(mac, address === title ? '' : address)
    battery.hidden = !hasLowBattery(item)
    const all = Object.entries(measured(item))
    const first = mainOf(item)?.name ?? all[0]?.[0]
    fillMain(first, first === undefined ? undefined : measured(item)[first])
    // The parts of what is there as a whole are seen when the sensor is chosen.
    const others = all
      .filter(([one, value]) => one !== first && value !== null && !/_[xyz]$/.test(one))
      .slice(0, OTHERS)
    const names = JSON.stringify(others.map(([one]) => one))
    if (names !== shownNames) {
      shownNames = names
      values = others.map(() => el('dd.number'))
      rest.replaceChildren(
        ...others.map(([one], at) => el('div', null, el('dt', null, short(one.replaceAll('_', ' '), 40)), values[at])),
      )
    }
    others.forEach(([one, value], at) => {
      const unit = unitOf(item, one)
      setText(/** @type {HTMLElement} */ (values[at]), short(value, 60) + (unit === '' ? '' : ` ${short(unit, 12)}`))
    })
    tick(now)
    if (isChange) flash(link)
  }

  /**
   * @param {string | undefined} named
   * @param {unknown} latest
   */
  function fillMain(named = '', latest) {
    setText(/** @type {Element} */ (value), latest === undefined ? '–' : short(latest, 40))
    setText(/** @type {Element} */ (unit), short(unitOf(item, named), 12))
    setText(/** @type {Element} */ (field), short(named.replaceAll('_', ' '), 40))
  }

  /** @param {number} now */
  function tick(now) {
    const isNowSilent = time === undefined || isSilent(time, now)
    since.classList.toggle('silent', isNowSilent)
    if (time === undefined) setText(since, short(item?.timestamp, 40) || 'no reading')
    else setText(since, isNowSilent ? `silent for ${span((now - time) / 1000)}` : age(now - time))
  }
}

/**
 * @param {number} time of the latest reading
 * @param {number} now
 */
export function isSilent(time, now) {
  return now - time > SILENT_MS
}
