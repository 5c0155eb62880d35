// Bars of how much changed in windows of time, drawn as one path.
import type { Bin, Counts } from './counts.ts'

/** A bar of more than so many times the median is as high as the drawing. */
const MOST_TIMES = 12
/** In units of the drawing. */
const [LEAST_WIDTH, LEAST_HEIGHT] = [1.5, 3]

/** The number of changes of the highest bar, which others are compared with. */
export function mostOf(bins: readonly Bin[]): number {
  const sorted = bins.map(({ count }) => count).sort((a, b) => a - b)
  return Math.min(sorted.at(-1) ?? 1, MOST_TIMES * (sorted[sorted.length >> 1] ?? 1))
}

/** The height is the square root of the number, so that few are seen beside many. */
export function barsPath(
  bins: readonly Bin[],
  { span, windowMs }: Pick<Counts, 'span' | 'windowMs'>,
  { width, height, most }: Readonly<Record<'width' | 'height' | 'most', number>>,
  number: 'count' | 'deleted' = 'count',
): string {
  const scale = width / (span.to - span.from || 1)
  return bins
    .filter((bin) => bin[number] > 0)
    .map((bin) => {
      const left = Math.max(0, (bin.from - span.from) * scale)
      const wide = Math.max(LEAST_WIDTH, windowMs * scale * 0.86)
      const high = Math.max(LEAST_HEIGHT, Math.sqrt(Math.min(1, bin[number] / most)) * height)
      return `M${left.toFixed(1)} ${height}v${(-high).toFixed(1)}h${wide.toFixed(1)}V${height}z`
    })
    .join('')
}
