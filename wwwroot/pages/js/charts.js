// One chart for each thing that is measured, all over the same time. What stands under the pointer is told exactly, from
// the readings themselves and not from what was drawn.
import uPlot from '../../uplot/uPlot.esm.js'
import { el, fill, setText } from './dom.js'
import { dateTime } from './format.js'

const HEIGHT = 92
const AXIS_HEIGHT = 26
/** Those that people look at first. */
const ORDER = ['temperature', 'humidity', 'pressure', 'battery', 'acceleration']
const STROKES = ['--accent', '--number', '--string', '--word']

/** @typedef {{ name: string, fields: string[], plot: any, figure: HTMLElement, values: HTMLElement }} Chart */

/**
 * @param {HTMLElement} place
 */
export function charts(place) {
  /** @type {Chart[]} */
  let all = []
  /** @type {import('./series.js').Series | undefined} */
  let series
  let range = { from: 0, to: 1, end: 0 }
  /** Where the pointer is, in milliseconds. @type {number | undefined} */
  let pointed
  const when = el('p.quiet.number', { role: 'status' })
  const list = el('div.charts')
  const sync = uPlot.sync('readings')
  fill(place, when, list)
  const resized = new ResizeObserver(() => {
    for (const { plot } of all) plot.setSize({ width: width(), height: plot.height })
    draw()
  })
  resized.observe(list)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => rebuild())
  return { show }

  /**
   * @param {import('./series.js').Series} of
   * @param {{ from: number, to: number }} span of time, in milliseconds; nothing later is shown
   */
  function show(of, { from, to }) {
    const isOther = series !== of
    series = of
    range = { from, to, end: of.countUpTo(to) }
    const names = JSON.stringify(groups([...of.columns.keys()]))
    if (isOther || names !== list.dataset.names) {
      list.dataset.names = names
      rebuild()
    } else draw()
  }

  function width() {
    return Math.max(200, list.clientWidth)
  }

  function rebuild() {
    for (const { plot } of all) plot.destroy()
    const wanted = series ? groups([...series.columns.keys()]) : []
    const style = getComputedStyle(document.documentElement)
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name)
    all = wanted.map(({ name, fields }, index) => {
      const isLast = index === wanted.length - 1
      const values = el('span.values.number')
      const canvas = el('div')
      const figure = el(
        'figure',
        null,
        el('figcaption', null, el('h3', null, name.replaceAll('_', ' ')), values),
        canvas,
      )
      const axis = {
        stroke: colour('--quiet'),
        grid: { stroke: colour('--line'), width: 1 },
        ticks: { show: false },
        font: '11px sans-serif',
      }
      const plot = new uPlot(
        {
          width: width(),
          height: HEIGHT + (isLast ? AXIS_HEIGHT : 0),
          padding: [6, 8, isLast ? 0 : 6, 0],
          legend: { show: false },
          cursor: { sync: { key: sync.key }, drag: { x: false, y: false }, points: { size: 6 } },
          scales: { x: { time: true }, y: { range: padded } },
          axes: [
            { ...axis, size: isLast ? AXIS_HEIGHT : 0, values: isLast ? clocks : () => [], space: 70 },
            {
              ...axis,
              size: 52,
              space: 22,
              values: (_plot, splits) => splits.map((one) => String(Number(one.toFixed(6)))),
            },
          ],
          series: [
            {},
            ...fields.map((field, at) => ({
              label: field,
              stroke: colour(STROKES[at % STROKES.length] ?? '--accent'),
              width: 1.25,
              points: { size: 4, filter: alone },
            })),
          ],
          hooks: { setCursor: [point] },
        },
        [[], ...fields.map(() => [])],
        canvas,
      )
      return { name, fields, plot, figure, values }
    })
    fill(
      list,
      all.map(({ figure }) => figure),
    )
    draw()
  }

  function draw() {
    if (!series) return
    const { from, to } = range
    for (const { plot, fields } of all) {
      plot.batch(() => {
        plot.setData(/** @type {any} */ (series?.pick(fields, from, to, Math.ceil(width()))), false)
        plot.setScale('x', { min: from / 1000, max: to / 1000 })
      })
    }
    tell()
  }

  /** @param {any} plot */
  function point(plot) {
    const { left } = plot.cursor
    const now = left === undefined || left < 0 ? undefined : plot.posToVal(left, 'x') * 1000
    if (now === pointed) return
    pointed = now
    tell()
  }

  /** The reading under the pointer, else the last one. */
  function tell() {
    if (!series) return
    const index = pointed === undefined ? range.end - 1 : series.nearest(pointed, range.end)
    const time = series.times[index]
    setText(
      when,
      index < 0 || time === undefined
        ? ''
        : `${pointed === undefined ? 'Latest' : 'At the pointer'}: ${dateTime(time, { withMs: true })}`,
    )
    for (const { fields, values } of all) {
      fill(
        values,
        fields.map((field, at) => {
          const value = series?.columns.get(field)?.[index]
          const text = value === undefined || Number.isNaN(value) ? '–' : String(value)
          const name = fields.length > 1 ? `${field.replace(/^.*_/, '')} ` : ''
          const mark = el('span.mark', { 'aria-hidden': 'true' })
          mark.style.background = `var(${STROKES[at % STROKES.length]})`
          return el('span', null, fields.length > 1 && mark, name, el('strong', null, text))
        }),
      )
    }
  }
}

/**
 * Points that no line leads to are to be seen, too.
 * @param {any} plot
 * @param {number} at
 * @param {boolean} areFew
 * @returns {number[] | null} null for all
 */
function alone(plot, at, areFew) {
  if (areFew) return null
  /** @type {(number | null)[]} */
  const values = plot.data[at]
  const found = []
  for (let index = 0; index < values.length; index++) {
    if (values[index] !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null)
      found.push(index)
  }
  return found
}

/**
 * What belongs into one chart: `acceleration` with `acceleration_x`, and so on.
 * @param {string[]} names
 * @returns {{ name: string, fields: string[] }[]}
 */
function groups(names) {
  /** @type {Map<string, string[]>} */
  const found = new Map()
  for (const name of names.sort()) {
    const group = /^(.+)_[xyz]$/.exec(name)?.[1] ?? name
    found.set(group, [...(found.get(group) ?? []), name])
  }
  /** @param {string} name */
  const rank = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
  return [...found].map(([name, fields]) => ({ name, fields })).sort((a, b) => rank(a.name) - rank(b.name))
}

/**
 * @param {any} _plot
 * @param {number | null} min
 * @param {number | null} max
 * @returns {[number, number]}
 */
function padded(_plot, min, max) {
  if (min === null || max === null) return [0, 1]
  const room = max > min ? (max - min) * 0.08 : Math.max(Math.abs(max) * 0.01, 0.5)
  return [min - room, max + room]
}

/**
 * @param {any} _plot
 * @param {number[]} splits
 * @param {number} _axis
 * @param {number} _space
 * @param {number} step seconds
 */
function clocks(_plot, splits, _axis, _space, step) {
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000)
    const two = (/** @type {number} */ value) => String(value).padStart(2, '0')
    const clock = `${two(date.getHours())}:${two(date.getMinutes())}`
    if (step >= 86_400) return date.toLocaleDateString('en-GB', { day: '2-digit', month: 'short' })
    return step < 60 ? `${clock}:${two(date.getSeconds())}` : clock
  })
}
