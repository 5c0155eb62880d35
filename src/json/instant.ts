import * as CODE from './char-codes.ts'
import { firstAt, type Path } from './paths.ts'
import type { JsonObject, JsonValue } from './value.ts'

/** A point in time: milliseconds since 1970 and the microseconds of that millisecond. */
export interface Instant {
  readonly ms: number
  readonly micros: number
}

export function compareInstants(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.micros - b.micros
}

/** The place of the `T` between date and time. */
const AFTER_DATE = 10

/**
 * The instant that a value means as an event time, in any spelling (docs/api.md, "Event time"): ISO 8601, in UTC
 * without a zone, or seconds, milliseconds or microseconds since 1970. Undefined for all other values.
 */
export function instantOf(value: JsonValue | undefined): Instant | undefined {
  if (typeof value === 'number') return instantOfNumber(value)
  if (typeof value !== 'string') return undefined
  if (value.charCodeAt(AFTER_DATE) === CODE.SPACE) {
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

const MICROS_OF_SECOND = 1e6
const MICROS_OF_MILLISECOND = 1e3
/** Smaller numbers are seconds, larger ones milliseconds: 10 ** 11 s are the year 5138, as many ms 1973. */
const LEAST_MILLISECONDS = 1e11
/** Larger numbers are microseconds. */
const LEAST_MICROSECONDS = 1e14
/** The year 5138 in microseconds. */
const MOST_MICROSECONDS = 1e17

/** Seconds, milliseconds and microseconds of today have so many digits. */
const DIGITS = /^(?:\d{10}|\d{13})(?:\.\d+)?$|^\d{16}$/
/** Integers from 1900-01-01 to 2100-12-31 without hyphens: as seconds they would be in the summer of 1970. */
const FIRST_DATE = 19_000_101
const LAST_DATE = 21_001_231
/** The basic format of ISO 8601, such as `20261120` or `20261120T093000Z`. */
const BASIC = /^(\d{4})(\d\d)(\d\d)(?:[T ](\d\d)(\d\d)(\d\d(?:[.,]\d+)?)?( ?(?:Z|[+-]\d\d(?::?\d\d)?)|))?$/i

function instantOfNumber(number: number): Instant | undefined {
  if (number >= FIRST_DATE && number <= LAST_DATE) {
    const date = basicInstant(String(number))
    if (date) return date
  }
  const size = Math.abs(number)
  if (!(size < MOST_MICROSECONDS)) return undefined
  const microsOfUnit =
    size < LEAST_MILLISECONDS ? MICROS_OF_SECOND : size < LEAST_MICROSECONDS ? MICROS_OF_MILLISECOND : 1
  const micros = Math.round(number * microsOfUnit)
  const ms = Math.floor(micros / MICROS_OF_MILLISECOND)
  return { ms, micros: micros - ms * MICROS_OF_MILLISECOND }
}

function basicInstant(text: string): Instant | undefined {
  const [match, year, month, day, hour, minute, second = '00', zone] = BASIC.exec(text) ?? []
  if (match === undefined) return undefined
  const date = `${year}-${month}-${day}`
  return parseInstant(hour === undefined ? date : `${date}T${hour}:${minute}:${second}${zone?.trim()}`)
}

const DATE = /\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])/
const TIME = /(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?/
const ZONE = /Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?/
const DATE_TIME = new RegExp(`^${DATE.source}(?:T${TIME.source}(?:${ZONE.source})?)?$`, 'i')

/** Where the parts of an instant begin. The fraction comes after its mark. */
const AT = {
  month: 5,
  day: 8,
  hour: 11,
  minute: 14,
  afterMinute: 16,
  second: 17,
  afterSecond: 19,
  fraction: 20,
} as const
/** Characters of a zone without minutes. */
const HOURS_LENGTH = 3
const MINUTE_MS = 60_000

/** Date.UTC takes the years 0 to 99 as 1900 to 1999, but calendars repeat after 400 years. */
const CYCLE_YEARS = 400
const CYCLE_MS = 146_097 * 86_400_000

/**
 * Parses an ISO 8601 date or date-time, in UTC if it has no zone. Digits after the microseconds are cut off. Undefined
 * for other text and for dates that do not exist.
 */
export function parseInstant(text: string): Instant | undefined {
  // Most strings are no instants.
  if (text.length < 10 || text.charCodeAt(4) !== CODE.MINUS || !DATE_TIME.test(text)) return undefined
  const hasSeconds = text.charCodeAt(AT.afterMinute) === CODE.COLON
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2) + CYCLE_YEARS
  const month = twoDigits(text, AT.month)
  const day = twoDigits(text, AT.day)
  const second = hasSeconds ? twoDigits(text, AT.second) : 0
  const local = Date.UTC(year, month - 1, day, twoDigits(text, AT.hour), twoDigits(text, AT.minute), second)
  if (day > 28 && new Date(local).getUTCDate() !== day) return undefined
  const micros = hasSeconds ? microsOf(text) : 0
  const ms = Math.floor(micros / 1000)
  return { ms: local - CYCLE_MS - offsetOf(text) + ms, micros: micros - ms * 1000 }
}

// Each write parses its event time several times, so no part of it becomes a text of its own.

function microsOf(text: string): number {
  const mark = text.charCodeAt(AT.afterSecond)
  if (mark !== CODE.POINT && mark !== CODE.COMMA) return 0
  let micros = 0
  let at: number = AT.fraction
  for (let unit = 100_000; unit >= 1 && CODE.isDigit(text.charCodeAt(at)); unit /= 10)
    micros += unit * digitAt(text, at++)
  return micros
}

/** Milliseconds that the local time is ahead of UTC. */
function offsetOf(text: string): number {
  const sign = Math.max(text.indexOf('+', AT.afterMinute), text.indexOf('-', AT.afterMinute))
  if (sign < 0) return 0
  const minutes = text.length > sign + HOURS_LENGTH ? twoDigits(text, text.length - 2) : 0
  const size = (twoDigits(text, sign + 1) * 60 + minutes) * MINUTE_MS
  return text.charCodeAt(sign) === CODE.MINUS ? -size : size
}

/** 0 behind the end of the text. */
function twoDigits(text: string, at: number): number {
  return digitAt(text, at) * 10 + digitAt(text, at + 1) || 0
}

function digitAt(text: string, at: number): number {
  return text.charCodeAt(at) - CODE.ZERO
}

/** Parses an instant from a query string, where an unescaped "+" of the zone has become a space. */
export function readInstant(text: string): Instant | undefined {
  return parseInstant(withPlus(text))
}

/** The text of an instant in which a space stands for the "+" of the zone, with the "+". */
export function withPlus(text: string): string {
  return text.replace(/^(.{8,10}[T ][\d:.,]+) {1,2}(?=\d\d(?::?\d\d)?$)/i, '$1+')
}
