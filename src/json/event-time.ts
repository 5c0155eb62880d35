import { type Instant, parseInstant } from './instant.ts'
import { firstAt, type Path } from './paths.ts'
import type { JsonObject, JsonValue } from './value.ts'

/** Microseconds of a second and of a millisecond. */
const SECOND = 1e6
const MILLISECOND = 1e3
/** Smaller numbers are seconds, larger ones milliseconds: 10 ** 11 s are the year 5138, as many ms 1973. */
const LEAST_MILLISECONDS = 1e11
/** Larger numbers are microseconds. */
const LEAST_MICROSECONDS = 1e14
/** The year 5138 in microseconds. */
const LIMIT = 1e17

/** Seconds, milliseconds and microseconds of today have so many digits. */
const DIGITS = /^(?:\d{10}|\d{13})(?:\.\d+)?$|^\d{16}$/
/** Integers from 1900-01-01 to 2100-12-31 without hyphens: as seconds they would be in the summer of 1970. */
const FIRST_DATE = 19_000_101
const LAST_DATE = 21_001_231
/** The basic format of ISO 8601, such as `20261120` or `20261120T093000Z`. */
const BASIC = /^(\d{4})(\d\d)(\d\d)(?:[T ](\d\d)(\d\d)(\d\d(?:[.,]\d+)?)?( ?(?:Z|[+-]\d\d(?::?\d\d)?)|))?$/i
const SPACE = 0x20
/** The place of the `T` between date and time. */
const AFTER_DATE = 10

/**
 * The instant that a value means as an event time, in any spelling (docs/api.md, "Event time"): ISO 8601, in UTC
 * without a zone, or seconds, milliseconds or microseconds since 1970. Undefined for all other values.
 */
export function instantOf(value: JsonValue | undefined): Instant | undefined {
  if (typeof value === 'number') return instantOfNumber(value)
  if (typeof value !== 'string') return undefined
  if (value.charCodeAt(AFTER_DATE) === SPACE) {
    return parseInstant(`${value.slice(0, AFTER_DATE)}T${value.slice(AFTER_DATE + 1).replace(/ (?=[Z+-])/i, '')}`)
  }
  return parseInstant(value) ?? (DIGITS.test(value) ? instantOfNumber(Number(value)) : basicInstant(value))
}

/** The event time of an item. */
export function eventInstant(item: JsonObject, path: Path): Instant | undefined {
  return instantOf(firstAt(item, path))
}

/** The event time of an item in milliseconds since 1970, the microseconds as a fraction. */
export function eventTime(item: JsonObject, path: Path): number | undefined {
  return millisecondsOf(firstAt(item, path))
}

/** An event time in milliseconds since 1970, the microseconds as a fraction. */
export function millisecondsOf(value: JsonValue | undefined): number | undefined {
  const instant = instantOf(value)
  return instant && instant.ms + instant.micros / 1000
}

function instantOfNumber(number: number): Instant | undefined {
  if (number >= FIRST_DATE && number <= LAST_DATE) {
    const date = basicInstant(String(number))
    if (date) return date
  }
  const size = Math.abs(number)
  if (!(size < LIMIT)) return undefined
  const unit = size < LEAST_MILLISECONDS ? SECOND : size < LEAST_MICROSECONDS ? MILLISECOND : 1
  const micros = Math.round(number * unit)
  const ms = Math.floor(micros / MILLISECOND)
  return { ms, micros: micros - ms * MILLISECOND }
}

function basicInstant(text: string): Instant | undefined {
  const [match, year, month, day, hour, minute, second = '00', zone] = BASIC.exec(text) ?? []
  if (match === undefined) return undefined
  const date = `${year}-${month}-${day}`
  return parseInstant(hour === undefined ? date : `${date}T${hour}:${minute}:${second}${zone?.trim()}`)
}
