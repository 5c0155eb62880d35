import { parseInstant } from '../../../json/instant.ts'
import { firstAt, type Path } from '../../../json/paths.ts'
import type { JsonObject, JsonValue } from '../../../json/value.ts'

/**
 * Smaller numbers are seconds, larger ones milliseconds: 10 ** 11 seconds are the year 5138, as many milliseconds 1973.
 */
const LEAST_MILLISECONDS = 1e11

/**
 * The event time of an item in milliseconds since 1970, from ISO 8601 text (UTC without a zone) or from seconds or
 * milliseconds.
 */
export function eventTime(item: JsonObject, path: Path): number | undefined {
  return instantOf(firstAt(item, path))
}

function instantOf(value: JsonValue | undefined): number | undefined {
  if (typeof value === 'number') return Math.abs(value) < LEAST_MILLISECONDS ? value * 1000 : value
  return typeof value === 'string' ? parseInstant(value)?.ms : undefined
}
