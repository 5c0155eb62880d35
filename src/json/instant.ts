import { isDigit } from './char-codes.ts'

/** A point in time: milliseconds since 1970 and the microseconds of that millisecond. */
export interface Instant {
  readonly ms: number
  readonly micros: number
}

const PATTERN = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

/**
 * Parses an ISO 8601 date or date-time, in UTC if it has no zone. Digits after the microseconds are cut off. Undefined
 * for other text and for dates that do not exist.
 */
export function parseInstant(text: string): Instant | undefined {
  if (text.length < 10 || text.charCodeAt(4) !== 0x2d) return undefined
  const plain = parsePlain(text)
  if (plain !== OTHER) return plain
  const match = PATTERN.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match
  const date = Date.UTC(2000, Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second))
  const calendar = new Date(date)
  // Date.UTC takes the years 0 to 99 as 1900 to 1999; setUTCFullYear does not.
  calendar.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  if (
    calendar.getUTCMonth() !== Number(month) - 1 ||
    calendar.getUTCDate() !== Number(day) ||
    Number(hour) > 23 ||
    Number(minute) > 59 ||
    Number(second) > 59
  ) {
    return undefined
  }
  const offset = zoneMinutes(zone)
  if (offset === undefined) return undefined
  const digits = fraction.padEnd(6, '0')
  return {
    ms: calendar.getTime() - offset * 60_000 + Number(digits.slice(0, 3)),
    micros: Number(digits.slice(3, 6)),
  }
}

const OTHER = Symbol('other')
const DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]

/**
 * Parses the most frequent form, `2026-11-21T09:30:00.123456` with or without Z, without a regular expression or a
 * Date. Building an index calls this for every string. Returns OTHER for text that may have another form.
 */
function parsePlain(text: string): Instant | undefined | typeof OTHER {
  if (text.length < 19) return OTHER
  if (
    text.charCodeAt(7) !== 0x2d ||
    text.charCodeAt(10) !== 0x54 ||
    text.charCodeAt(13) !== 0x3a ||
    text.charCodeAt(16) !== 0x3a
  )
    return OTHER
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2)
  const month = twoDigits(text, 5)
  const day = twoDigits(text, 8)
  const hour = twoDigits(text, 11)
  const minute = twoDigits(text, 14)
  const second = twoDigits(text, 17)
  let end = 19
  let micros = 0
  if (text.charCodeAt(19) === 0x2e) {
    let unit = 100_000
    for (end = 20; isDigit(text.charCodeAt(end)); end++) {
      micros += (text.charCodeAt(end) - 0x30) * unit
      unit = Math.floor(unit / 10)
    }
    if (end === 20) return OTHER
  }
  if (end !== text.length && !(end === text.length - 1 && text.charCodeAt(end) === 0x5a)) return OTHER
  // A character that is no digit makes the part NaN, for which each comparison is false.
  if (!(year >= 0 && month >= 1 && month <= 12 && day >= 1 && hour <= 23 && minute <= 59 && second <= 59)) return OTHER
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  const before = DAYS_BEFORE[month - 1] as number
  const after = month === 12 ? 365 : (DAYS_BEFORE[month] as number)
  if (day > after - before + (isLeap && month === 2 ? 1 : 0)) return undefined
  const leapDays = Math.floor((year + 3) / 4) - Math.floor((year + 99) / 100) + Math.floor((year + 399) / 400)
  const days = year * 365 + leapDays + before + (isLeap && month > 2 ? 1 : 0) + day - 1 - DAYS_TO_1970
  const ms = Math.floor(micros / 1000)
  return { ms: (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + ms, micros: micros - ms * 1000 }
}

const DAYS_TO_1970 = 719_528

function twoDigits(text: string, start: number): number {
  const tens = text.charCodeAt(start)
  const ones = text.charCodeAt(start + 1)
  return isDigit(tens) && isDigit(ones) ? (tens - 0x30) * 10 + ones - 0x30 : Number.NaN
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

function zoneMinutes(zone: string): number | undefined {
  if (zone.toUpperCase() === 'Z') return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(3).replace(':', '') || '0')
  if (hours > 23 || minutes > 59) return undefined
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes)
}
