/** A point in time: milliseconds since 1970 and the microseconds of that millisecond. */
export interface Instant {
  readonly ms: number
  readonly micros: number
}

const DATE = /\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])/
const TIME = /(?:[01]\d|2[0-3]):[0-5]\d(:[0-5]\d(?:[.,](\d+))?)?/
const ZONE = /Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?/
const PATTERN = new RegExp(`^${DATE.source}(?:T${TIME.source}(?:${ZONE.source})?)?$`, 'i')

/** Date.UTC takes the years 0 to 99 as 1900 to 1999, but calendars repeat after 400 years. */
const CYCLE_YEARS = 400
const CYCLE_MS = 146_097 * 86_400_000

/**
 * Parses an ISO 8601 date or date-time, in UTC if it has no zone. Digits after the microseconds are cut off. Undefined
 * for other text and for dates that do not exist.
 */
export function parseInstant(text: string): Instant | undefined {
  // Most strings are no instants.
  if (text.length < 10 || text.charCodeAt(4) !== 0x2d) return undefined
  const match = PATTERN.exec(text)
  if (!match) return undefined
  const [, seconds, fraction = '', sign, hours, minutes = 0] = match
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2) + CYCLE_YEARS
  const day = twoDigits(text, 8)
  const second = seconds ? twoDigits(text, 17) : 0
  const local = Date.UTC(year, twoDigits(text, 5) - 1, day, twoDigits(text, 11), twoDigits(text, 14), second)
  if (day > 28 && new Date(local).getUTCDate() !== day) return undefined
  const offset = sign ? Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000 : 0
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0'))
  const ms = Math.floor(micros / 1000)
  return { ms: local - CYCLE_MS - offset + ms, micros: micros - ms * 1000 }
}

/** The number at a place, read without a substring; 0 behind the end of the text. */
function twoDigits(text: string, at: number): number {
  return text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 0x30 * 11 || 0
}

/** Parses an instant from a query string, where an unescaped "+" of the zone has become a space. */
export function readInstant(text: string): Instant | undefined {
  return parseInstant(withPlus(text))
}

/** The text of an instant in which a space stands for the "+" of the zone, with the "+". */
export function withPlus(text: string): string {
  return text.replace(/^(.{8,10}[T ][\d:.,]+) {1,2}(?=\d\d(?::?\d\d)?$)/i, '$1+')
}

export function compareInstants(a: Instant, b: Instant): number {
  return a.ms - b.ms || a.micros - b.micros
}
