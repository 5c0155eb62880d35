/** A point in time: milliseconds since 1970 and the microseconds of that millisecond. */
export interface Instant {
  readonly ms: number
  readonly micros: number
}

const PATTERN = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i

/**
 * Reads an ISO 8601 date or date-time; without a zone it is UTC. Fractions finer than a microsecond are cut.
 * Undefined for any other text, also for dates that no calendar has.
 */
export function parseInstant(text: string): Instant | undefined {
  if (text.length < 10 || text.charCodeAt(4) !== 0x2d) return undefined
  const match = PATTERN.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match
  const date = Date.UTC(2000, Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second))
  const calendar = new Date(date)
  // Date.UTC takes the years 0 to 99 for 1900 to 1999; setting the year does not.
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

/** Reads an instant from a query, in which the unescaped "+" of a zone has become a space. */
export function readInstant(text: string): Instant | undefined {
  return parseInstant(text.replace(/ (?=\d\d(:?\d\d)?$)/, '+'))
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
