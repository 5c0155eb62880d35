import { formatPath, type Path } from '../../json/paths.ts'
import type { Filter } from '../filter.ts'

/** Instants in milliseconds since 1970, infinite if there is no bound. Both are inclusive. */
export interface TimeBounds {
  readonly from: number
  readonly to: number
}

/** The earliest and the latest millisecond that the filters on the event time leave. */
export function timeBounds(filters: readonly Filter[], time: Path | undefined): TimeBounds {
  let from = Number.NEGATIVE_INFINITY
  let to = Number.POSITIVE_INFINITY
  const field = time && formatPath(time)
  for (const { path, operator, operands } of filters) {
    const instants = operands.flatMap(({ instant }) => (instant ? [instant.ms + instant.micros / 1000] : []))
    if (instants.length === 0 || formatPath(path) !== field) continue
    // Any of several operands may match.
    if (operator === 'gt' || operator === 'gte') from = Math.max(from, Math.min(...instants))
    else if (operator === 'lte') to = Math.min(to, Math.max(...instants))
    else if (operator === 'lt') to = Math.min(to, Math.ceil(Math.max(...instants)) - 1)
  }
  return { from, to }
}
