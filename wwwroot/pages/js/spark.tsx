// Small lines and bars, drawn as one path each. They are pictures of numbers that stand beside them.

export interface Point {
  readonly x: number
  /** Undefined: a gap. */
  readonly y: number | undefined
}

/** The drawing is stretched to the width that it gets. */
const WIDTH = 200
/** Points that are further apart than so many times the median are not connected. */
const GAP_TIMES = 5

/** A line between points, with gaps, over the part of x that is asked for. */
export function Spark({
  points,
  from,
  to,
  height = 32,
  then,
}: {
  readonly points: readonly Point[]
  readonly from: number
  readonly to: number
  readonly height?: number
  /** A moment of the past: what comes after it is drawn in grey. */
  readonly then?: number | undefined
}) {
  const gap = GAP_TIMES * medianDistance(points)
  const values = points.flatMap(({ y }) => (y === undefined ? [] : [y]))
  const low = Math.min(...values)
  const range = Math.max(...values) - low || 1
  const place = ({ x, y = 0 }: Point): string =>
    `${(((x - from) / (to - from || 1)) * WIDTH).toFixed(1)} ${(height - 3 - ((y - low) / range) * (height - 6)).toFixed(1)}`
  const line = (part: readonly Point[]): string => {
    let path = ''
    let before: Point | undefined
    for (const point of part) {
      if (point.y === undefined) before = undefined
      else {
        const isJoined = before !== undefined && point.x - before.x <= gap
        // A single point is seen as a dot: a line of no length with round ends.
        path += isJoined ? `L${place(point)}` : `M${place(point)}h0`
        before = point
      }
    }
    return path
  }
  const shown = then === undefined ? points : points.filter(({ x }) => x <= then)
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {then !== undefined && <path class="later" d={line(points)} />}
      <path d={line(shown)} />
    </svg>
  )
}

/** Zero where there are no two points. */
function medianDistance(points: readonly Point[]): number {
  const distances = points.slice(1).map(({ x }, index) => x - (points[index] as Point).x)
  return distances.sort((a, b) => a - b)[distances.length >> 1] ?? 0
}

/** Bars over a part of x. Their height is the square root of the number, so that few are seen beside many. */
export function barsPath(
  bars: readonly { readonly x: number; readonly count: number }[],
  { from, to, width, most, size }: Readonly<Record<'from' | 'to' | 'width' | 'most' | 'size', number>>,
  drawingWidth = WIDTH,
): string {
  const scale = drawingWidth / (to - from || 1)
  return bars
    .filter(({ count }) => count > 0)
    .map(({ x, count }) => {
      const left = Math.max(0, (x - from) * scale)
      const wide = Math.max(1.5, width * scale * 0.86)
      const high = Math.max(3, Math.sqrt(Math.min(1, count / most)) * size)
      return `M${left.toFixed(1)} ${size}v${(-high).toFixed(1)}h${wide.toFixed(1)}V${size}z`
    })
    .join('')
}
