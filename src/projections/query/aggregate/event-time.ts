import { parseInstant } from '../../../json/instant.ts'
import { firstAt, type Path } from '../../../json/paths.ts'
import type { JsonObject, JsonValue } from '../../../json/value.ts'

/**
 * Smaller numbers are seconds, larger ones milliseconds: 10 ** 11 seconds are the year 5138, as many milliseconds 1973.
 */
export const LEAST_MILLISECONDS = 1e11
/** About the year 97,000. `Date` ends in the year 275,760, and a window ends later than its items. */
const MOST_MILLISECONDS = 3e15

/**
 * The event time of an item in milliseconds since 1970, with fractions, from ISO 8601 text (UTC without a zone) or from
 * seconds or milliseconds.
 */
export function eventTime(item: JsonObject, path: Path): number | undefined {
  return instantOf(firstAt(item, path))
}

function instantOf(value: JsonValue | undefined): number | undefined {
  if (typeof value === 'number') return timeOfNumber(value)
  const instant = typeof value === 'string' ? parseInstant(value) : undefined
  return instant && instant.ms + instant.micros / 1000
}

/** Undefined for a number that is out of the range of dates. */
export function timeOfNumber(number: number): number | undefined {
  const ms = Math.abs(number) < LEAST_MILLISECONDS ? number * 1000 : number
  return Math.abs(ms) <= MOST_MILLISECONDS ? ms : undefined
}
