import { eventInstant } from '../../json/event-time.ts'
import type { Path } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'

/** The event time of an item in milliseconds since 1970, with fractions. */
export function eventTime(item: JsonObject, path: Path): number | undefined {
  const instant = eventInstant(item, path)
  return instant && instant.ms + instant.micros / 1000
}
