// The last day of a sensor in its tile: the average of each window as a line, the least and the greatest as a band. They
// are asked for while a tile is seen, a few at a time.
import uPlot from '../../uplot/uPlot.esm.js'
import { el } from './dom.js'
import { mainOf, measured, timeOfReading } from './measures.js'
import { dayOf } from './readings.js'
import { columnsOf, pointOf } from './series.js'

const AT_ONCE = 3
/** A day that was read longer ago is read again. */
const FRESH_MS = 5 * 60_000
/** How many days are cached beyond those of the tiles in view; the one that was in view longest ago is evicted first. */
const KEPT = 500
const WIDTH = 96
/** Where a tile has the whole width. */
const WIDE = 160
const IS_WIDE = matchMedia('(max-width: 33rem)')
const HEIGHT = 40
const DAY = 24 * 3_600_000

/** @typedef {import('./series.js').Point} Point */
/** @typedef {{ element: HTMLElement, show: (points: readonly Point[], field: string, to: number) => void, redraw: () => void, destroy: () => void }} Sparkline */

/** @returns {Sparkline} */
export function sparkline() {
  const element = el('span.spark', { 'aria-hidden': 'true' })
  /** @type {any} */
  let plot
  /** @type {any} */
  let data = [[], [], [], []]
  let from = 0
  let to = 1
  return { element, show, redraw, destroy }

  /**
   * @param {readonly Point[]} points
   * @param {string} field
   * @param {number} end
   */
  function show(points, field, end) {
    data = columnsOf(points, [field])
    from = (end - DAY) / 1000
    to = end / 1000
    if (points.length === 0) return destroy()
    plot ??= newPlot()
    plot.batch(() => {
      plot.setData(data, false)
      plot.setScale('x', { min: from, max: to })
    })
  }

  /** With the colours as they are now. */
  function redraw() {
    if (!plot) return
    destroy()
    plot = newPlot()
    plot.setScale('x', { min: from, max: to })
  }

  function destroy() {
    plot?.destroy()
    plot = undefined
  }

  function newPlot() {
    const colour = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()
    const hidden = { stroke: 'transparent', points: { show: false } }
    return new uPlot(
      {
        width: IS_WIDE.matches ? WIDE : WIDTH,
        height: HEIGHT,
        padding: [3, 3, 3, 3],
        legend: { show: false },
        cursor: { show: false },
        axes: [{ show: false }, { show: false }],
        scales: {
          x: { time: false },
          y: {
            range: (_plot, min, max) =>
              min === null || max === null ? [0, 1] : min === max ? [min - 1, max + 1] : [min, max],
          },
        },
        series: [
          {},
          { stroke: colour, width: 1.5, points: { show: data[0].length < 3, size: 5, fill: colour } },
          hidden,
          hidden,
        ],
        bands: [{ series: [3, 2], fill: `${colour}2e` }],
      },
      data,
      element,
    )
  }
}

/**
 * Reads the days of the sensors that are seen.
 * @param {{ onLoaded: (key: string) => void, onProblem: (error: unknown) => void }} options
 */
export function sparkQueue({ onLoaded, onProblem }) {
  /** The last one was seen last. @type {Map<string, { points: Point[], field: string, readAt: number }>} */
  const kept = new Map()
  /** @type {Map<string, { item: any, at: number | undefined }>} */
  let wanted = new Map()
  /** @type {Map<string, AbortController>} */
  const running = new Map()
  return { want, pointsOf, clear }

  /**
   * Says which tiles are in view, in the order in which their days are read.
   * @param {readonly { key: string, item: any }[]} seen
   * @param {number | undefined} at
   */
  function want(seen, at) {
    const now = Date.now()
    wanted = new Map()
    for (const { key, item } of seen) {
      const one = kept.get(key)
      if (one) {
        kept.delete(key)
        kept.set(key, one)
      }
      const isFresh = one && one.field === mainOf(item)?.name && (at !== undefined || now - one.readAt < FRESH_MS)
      const isLoading = running.get(key)?.signal.aborted === false
      if (!isFresh && !isLoading && mainOf(item)) wanted.set(key, { item, at })
    }
    const visible = new Set(seen.map(({ key }) => key))
    for (const [key, abort] of running) if (!visible.has(key)) abort.abort()
    for (const [key] of kept) {
      if (kept.size <= KEPT + seen.length) break
      kept.delete(key)
    }
    next()
  }

  function next() {
    for (const [key, one] of wanted) {
      if (running.size >= AT_ONCE) return
      if (running.has(key)) continue
      wanted.delete(key)
      void load(key, one)
    }
  }

  /**
   * @param {string} key
   * @param {{ item: any, at: number | undefined }} one
   */
  async function load(key, { item, at }) {
    const abort = new AbortController()
    running.set(key, abort)
    const field = /** @type {{ name: string, path: string }} */ (mainOf(item))
    try {
      const points = await dayOf({ item, field, at, signal: abort.signal })
      if (!abort.signal.aborted) {
        kept.set(key, { points, field: field.name, readAt: Date.now() })
        onLoaded(key)
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        // It is not tried again at once: the server may be busy.
        kept.set(key, { points: [], field: field.name, readAt: Date.now() })
        onProblem(error)
      }
    }
    if (running.get(key) === abort) running.delete(key)
    next()
  }

  /**
   * The day of a sensor as far as it is known, with its latest reading.
   * @param {string} key
   * @param {any} item
   * @returns {{ points: readonly Point[], field: string, end: number } | undefined}
   */
  function pointsOf(key, item) {
    const one = kept.get(key)
    const time = timeOfReading(item)
    const main = mainOf(item)
    if (!one || time === undefined || main?.name !== one.field) return undefined
    const last = one.points.at(-1)
    const isLater = last === undefined || time > last.to
    const points = isLater ? [...one.points, pointOf(time, measured(item))] : one.points
    return { points, field: one.field, end: time }
  }

  function clear() {
    for (const abort of running.values()) abort.abort()
    running.clear()
    wanted.clear()
    kept.clear()
  }
}
