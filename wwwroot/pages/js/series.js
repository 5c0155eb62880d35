// The measurements of a sensor over time: readings, or the average, least and greatest of the readings in each window of time.

/** Fewer points are joined by a line, however far apart they are. */
const FEW = 30
/** A gap is a distance of so many times the median. */
const GAP_TIMES = 5

/**
 * from, to: in milliseconds since 1970; equal for a single reading. values: by what was measured, [average, least, greatest]
 * @typedef {{ from: number, to: number, count: number, values: Map<string, readonly [number, number, number]> }} Point
 */

/**
 * A single reading.
 * @param {number} time
 * @param {Readonly<Record<string, unknown>>} values those that are numbers are kept
 * @returns {Point}
 */
export function pointOf(time, values) {
  const numbers = Object.entries(values).filter(([, value]) => typeof value === 'number')
  return {
    from: time,
    to: time,
    count: 1,
    values: new Map(numbers.map(([name, value]) => [name, [Number(value), Number(value), Number(value)]])),
  }
}

/** @param {Point} point */
export function middleOf({ from, to }) {
  return (from + to) / 2
}

/**
 * From which distance on there is a gap between two points, in milliseconds.
 * @param {readonly Point[]} points
 */
function gapOf(points) {
  if (points.length < FEW) return Number.POSITIVE_INFINITY
  const distances = points.slice(1).map((point, at) => point.from - /** @type {Point} */ (points[at]).from)
  distances.sort((a, b) => a - b)
  return GAP_TIMES * Math.max(1, distances[distances.length >> 1] ?? 0)
}

/**
 * The columns that uPlot draws: times in seconds, then of each field the average, the least and the greatest; null where there is a gap.
 * @param {readonly Point[]} points ascending
 * @param {readonly string[]} fields
 * @returns {[number[], ...(number | null | undefined)[][]]}
 */
export function columnsOf(points, fields) {
  /** @type {number[]} */
  const times = []
  /** @type {(number | null | undefined)[][]} */
  const columns = fields.flatMap(() => [[], [], []])
  const gap = gapOf(points)
  let before = Number.POSITIVE_INFINITY
  for (const point of points) {
    if (point.from - before > gap) {
      times.push((before + point.from) / 2000)
      for (const column of columns) column.push(null)
    }
    before = point.from
    times.push(middleOf(point) / 1000)
    fields.forEach((field, at) => {
      for (const kind of [0, 1, 2]) columns[at * 3 + kind]?.push(point.values.get(field)?.[kind])
    })
  }
  return [times, ...columns]
}

/**
 * The point nearest to a time.
 * @param {readonly Point[]} points ascending
 * @param {number} time
 * @returns {Point | undefined}
 */
export function nearest(points, time) {
  let low = 0
  let high = points.length
  while (low < high) {
    const half = (low + high) >> 1
    if (middleOf(/** @type {Point} */ (points[half])) <= time) low = half + 1
    else high = half
  }
  const [before, after] = [points[low - 1], points[low]]
  if (!before || !after) return before ?? after
  return time - middleOf(before) < middleOf(after) - time ? before : after
}
