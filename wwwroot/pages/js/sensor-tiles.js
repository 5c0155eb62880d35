// A tile for each sensor: its latest reading, and how old that is.
import { el, flash, setText } from './dom.js'
import { age, instant, short } from './format.js'
import { measured } from './readings.js'
import { server } from './server.js'

const MAIN = 'temperature'
/** A sensor that is silent for longer is marked. */
const SILENT_MS = 5 * 60_000

/**
 * @typedef {{ element: HTMLElement, link: HTMLAnchorElement, item: any, show: (item: any, isChange: boolean) => void, tick: (now: number) => void }} Tile
 */

/**
 * @param {string} key
 * @param {(key: string) => void} onPick
 * @returns {Tile}
 */
export function sensorTile(key, onPick) {
  const name = el('h2.break')
  const since = el('span.age.number')
  const main = el('p.main.number')
  const rest = el('dl')
  const link = el('a.tile.card.fades', null, el('span.tile-head', null, name, since), main, rest)
  link.addEventListener('click', (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    onPick(key)
  })
  /** @type {Map<string, HTMLElement>} */
  let values = new Map()
  /** @type {number | undefined} */
  let time
  /** @type {Tile} */
  const tile = { element: el('li', null, link), link, item: undefined, show, tick }
  return tile

  /**
   * @param {any} item
   * @param {boolean} isChange
   */
  function show(item, isChange) {
    tile.item = item
    time = instant(item.timestamp)
    setText(name, short(item.mac ?? item[server.idField], 80) || '""')
    const all = Object.entries(measured(item))
    const first = all.find(([field]) => field === MAIN) ?? all.find(([, value]) => typeof value === 'number')
    fillMain(first)
    // The parts of what is there as a whole are seen when the sensor is chosen.
    const others = all.filter((one) => one !== first && one[1] !== null && !/_[xyz]$/.test(one[0]))
    if (JSON.stringify(others.map(([field]) => field)) !== JSON.stringify([...values.keys()])) {
      values = new Map(others.map(([field]) => [field, el('dd.number')]))
      rest.replaceChildren(
        ...Array.from(values, ([field, value]) =>
          el('div', null, el('dt', null, short(field.replaceAll('_', ' '), 40)), value),
        ),
      )
    }
    for (const [field, value] of others) setText(/** @type {HTMLElement} */ (values.get(field)), short(value, 60))
    if (isChange) flash(link)
  }

  /** @param {[string, unknown] | undefined} first */
  function fillMain(first) {
    const [field = '', value] = first ?? []
    const text = value === undefined ? '–' : short(value, 40)
    if (main.dataset.field !== field) {
      main.dataset.field = field
      main.replaceChildren(el('strong'), ' ', el('span.quiet', null, short(field.replaceAll('_', ' '), 40)))
    }
    setText(/** @type {Element} */ (main.firstChild), text)
  }

  /** @param {number} now */
  function tick(now) {
    setText(since, time === undefined ? short(tile.item?.timestamp, 40) : age(now - time))
    since.classList.toggle('silent', time !== undefined && now - time > SILENT_MS)
  }
}
