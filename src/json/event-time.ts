import { type Instant, parseInstant } from './instant.ts'
import { firstAt, type Path } from './paths.ts'
import type { JsonObject } from './value.ts'

/** Smaller numbers are seconds, larger ones milliseconds: 10 ** 11 s are the year 5138, as many ms 1973. */
export const LEAST_MILLISECONDS = 1e11
/** About the year 97,000. `Date` ends in the year 275,760, and a window ends later than its items. */
const MOST_MILLISECONDS = 3e15

/** The event time of an item, from ISO 8601 text (UTC without a zone) or from seconds or milliseconds. */
export function eventInstant(item: JsonObject, path: Path): Instant | undefined {
  const value = firstAt(item, path)
  if (typeof value === 'string') return parseInstant(value)
  const ms = typeof value === 'number' ? timeOfNumber(value) : undefined
  return ms === undefined ? undefined : { ms, micros: 0 }
}

/** Undefined for a number that is out of the range of dates. */
export function timeOfNumber(number: number): number | undefined {
  const ms = Math.abs(number) < LEAST_MILLISECONDS ? number * 1000 : number
  return Math.abs(ms) <= MOST_MILLISECONDS ? ms : undefined
}
