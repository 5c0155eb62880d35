// Small lines, drawn as one path each. They are pictures of numbers that stand beside them.
import { gapsOf, type Point } from './readings.ts'
import type { Span } from './time.ts'

/** The drawing is stretched to the size that it gets. */
const WIDTH = 200
const HEIGHT = 32
const EDGE = 3

interface SparkProperties {
  readonly points: readonly Point[]
  readonly measure: string
  readonly span: Span
  /** A moment of the past: what comes after it is drawn in grey. */
  readonly then: number | undefined
}

/** The averages of points over a time as a line with gaps. */
export function Spark({ points, measure, span: { from, to }, then }: SparkProperties) {
  const shown = points.filter(({ values }) => values.has(measure))
  const gaps = gapsOf(shown)
  const line = shown.map(({ from: x, values }, index) => {
    return { x, y: values.get(measure)?.[0] ?? 0, isJoined: index > 0 && !gaps[index] }
  })
  const low = Math.min(...line.map(({ y }) => y))
  const range = Math.max(...line.map(({ y }) => y)) - low || 1
  const pathOf = (part: typeof line): string =>
    part
      .map(({ x, y, isJoined }) => {
        const left = (((x - from) / (to - from || 1)) * WIDTH).toFixed(1)
        const top = (HEIGHT - EDGE - ((y - low) / range) * (HEIGHT - 2 * EDGE)).toFixed(1)
        // A single point is seen as a dot: a line of no length with round ends.
        return isJoined ? `L${left} ${top}` : `M${left} ${top}h0`
      })
      .join('')
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      {then !== undefined && <path class="later" d={pathOf(line)} />}
      <path d={pathOf(then === undefined ? line : line.filter(({ x }) => x <= then))} />
    </svg>
  )
}
