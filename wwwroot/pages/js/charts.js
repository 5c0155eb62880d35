// One chart for each thing that is measured, all over the same time: the average as a line, the least and the greatest as a
// band around it.
import uPlot from '../../uplot/uPlot.esm.js'
import { el, fill, setText } from './dom.js'
import { counted, dateTime, time } from './format.js'
import { columnsOf, nearest } from './series.js'

const FIRST_HEIGHT = 150
const HEIGHT = 84
const AXIS_HEIGHT = 36
const DAY_S = 86_400
/** Those that people look at first. */
const ORDER = ['temperature', 'humidity', 'pressure', 'battery', 'acceleration']
const STROKES = ['--accent', '--number', '--string', '--word']

/**
 * @typedef {import('./series.js').Point} Point
 * @typedef {{ name: string, fields: string[], plot: any, figure: HTMLElement, values: HTMLElement }} Chart
 * @typedef {{ from: number, to: number, of: string, latest: Point | undefined, unitOf: (name: string) => string }} Shown from, to: in milliseconds; of: the sensor; latest: its latest reading
 */

/**
 * @param {HTMLElement} place
 */
export function charts(place) {
  /** @type {Chart[]} */
  let all = []
  /** @type {readonly Point[]} */
  let points = []
  /** @type {Shown} */
  let shown = { from: 0, to: 1, of: '', latest: undefined, unitOf: () => '' }
  /** Where the pointer is, in milliseconds. @type {number | undefined} */
  let pointed
  let names = ''
  const when = el('p.quiet.number', { role: 'status' })
  const list = el('div.charts')
  const sync = uPlot.sync('readings')
  fill(place, when, list)
  const resized = new ResizeObserver(() => {
    for (const { plot } of all) if (plot.width !== width()) plot.setSize({ width: width(), height: plot.height })
  })
  resized.observe(list)
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => rebuild())
  return { show }

  /**
   * @param {readonly Point[]} now ascending
   * @param {Shown} how
   */
  function show(now, how) {
    points = now
    shown = how
    const fields = [...new Set(now.flatMap(({ values }) => [...values.keys()]))]
    const found = groups(fields)
    const before = names
    names = JSON.stringify([how.of, found])
    if (names !== before) rebuild(found)
    else draw()
  }

  function width() {
    return Math.max(200, list.clientWidth)
  }

  function rebuild(wanted = all.map(({ name, fields }) => ({ name, fields }))) {
    for (const { plot } of all) plot.destroy()
    all = wanted.map(({ name, fields }, index) => {
      const values = el('span.values.number')
      const canvas = el('div')
      const title = el('h3', null, name.replaceAll('_', ' '))
      const figure = el('figure', null, el('figcaption', null, title, values), canvas)
      const isFirst = index === 0
      return { name, fields, figure, values, plot: newPlot(fields, canvas, isFirst, index === wanted.length - 1) }
    })
    fill(
      list,
      all.map(({ figure }) => figure),
    )
    draw()
  }

  /**
   * @param {readonly string[]} fields
   * @param {HTMLElement} canvas
   * @param {boolean} isFirst
   * @param {boolean} isLast
   */
  function newPlot(fields, canvas, isFirst, isLast) {
    const style = getComputedStyle(document.documentElement)
    /** @param {string} name */
    const colour = (name) => style.getPropertyValue(name).trim()
    const hasTimes = isFirst || isLast
    const axis = {
      stroke: colour('--quiet'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
      font: '11px sans-serif',
    }
    const strokes = fields.map((_, at) => colour(STROKES[at % STROKES.length] ?? '--accent'))
    const hidden = { stroke: 'transparent', points: { show: false } }
    return new uPlot(
      {
        width: width(),
        height: (isFirst ? FIRST_HEIGHT : HEIGHT) + (hasTimes ? AXIS_HEIGHT : 0),
        padding: [6, 20, hasTimes ? 0 : 6, 0],
        legend: { show: false },
        cursor: { sync: { key: sync.key }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: padded } },
        axes: [
          { ...axis, size: hasTimes ? AXIS_HEIGHT : 0, values: hasTimes ? dates : () => [], space: 64 },
          {
            ...axis,
            size: 52,
            space: 22,
            values: (_plot, splits) => splits.map((one) => String(Number(one.toFixed(6)))),
          },
        ],
        series: [
          {},
          ...strokes.flatMap((stroke, at) => [
            { label: fields[at] ?? '', stroke, width: 1.5, points: { size: 4, filter: alone } },
            hidden,
            hidden,
          ]),
        ],
        bands: strokes.map((stroke, at) => ({ series: [at * 3 + 3, at * 3 + 2], fill: `${stroke}2e` })),
        hooks: { setCursor: [point] },
      },
      /** @type {any} */ (columnsOf([], fields)),
      canvas,
    )
  }

  function draw() {
    const { from, to } = shown
    for (const { plot, fields } of all) {
      plot.batch(() => {
        plot.setData(columnsOf(points, fields), false)
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

  /** Shows the values under the pointer, else the latest ones. */
  function tell() {
    const one = pointed === undefined ? shown.latest : nearest(points, pointed)
    setText(when, one ? `${pointed === undefined ? 'Latest' : 'At the pointer'}: ${spanOf(one)}` : '')
    for (const { fields, values } of all) {
      fill(
        values,
        fields.map((field, at) => {
          const name = fields.length > 1 ? `${field.replace(/^.*_/, '')} ` : ''
          const mark = el('span.mark', { 'aria-hidden': 'true' })
          mark.style.background = `var(${STROKES[at % STROKES.length]})`
          return el(
            'span',
            null,
            fields.length > 1 && mark,
            name,
            valuesOf(one?.values.get(field), shown.unitOf(field)),
          )
        }),
      )
    }
  }
}

/**
 * When a point is.
 * @param {Point} point
 */
function spanOf({ from, to, count }) {
  if (from === to && count === 1) return dateTime(from, { withMs: true })
  const isOneDay = new Date(from).toDateString() === new Date(to).toDateString()
  return `${dateTime(from)} – ${isOneDay ? time(to) : dateTime(to)}, ${counted(count, 'reading')}`
}

/**
 * @param {readonly [average: number, least: number, greatest: number] | undefined} values
 * @param {string} unit
 */
function valuesOf(values, unit) {
  const [average, least, greatest] = values ?? []
  const after = unit === '' ? '' : ` ${unit}`
  if (least === greatest) return el('strong', null, least === undefined ? '–' : `${least}${after}`)
  return [
    el('strong', null, `${rounded(average)}${after}`),
    el('span.quiet', null, ` ${rounded(least)} to ${rounded(greatest)}`),
  ]
}

/**
 * An average with as many decimals as one reads.
 * @param {number | undefined} value
 */
export function rounded(value) {
  if (value === undefined) return '–'
  return String(Math.abs(value) >= 1 ? Number(value.toFixed(2)) : Number(value.toPrecision(3)))
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
 * Clock times, with the date below the first one and where another day begins; days, with the year; years.
 * @param {any} _plot
 * @param {number[]} splits
 * @param {number} _axis
 * @param {number} _space
 * @param {number} step seconds
 */
function dates(_plot, splits, _axis, _space, step) {
  let before = ''
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000)
    const year = String(date.getFullYear())
    if (step >= 365 * DAY_S) return year
    const [text, below] =
      step >= 28 * DAY_S
        ? [written(date, { month: 'short' }), year]
        : step >= DAY_S
          ? [written(date, { day: 'numeric', month: 'short' }), year]
          : [
              written(date, { hour: '2-digit', minute: '2-digit', ...(step < 60 && { second: '2-digit' }) }),
              written(date, { day: 'numeric', month: 'short' }),
            ]
    const isNew = below !== before
    before = below
    return isNew ? `${text}\n${below}` : text
  })
}

/**
 * @param {Date} date
 * @param {Intl.DateTimeFormatOptions} options
 */
function written(date, options) {
  return date.toLocaleString('en-GB', options)
}
