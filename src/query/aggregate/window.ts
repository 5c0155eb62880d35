import { DateTime, IANAZone } from 'luxon'
import { Refusal } from '../../runtime/errors.ts'

/** Divides time into consecutive windows. Instants are milliseconds since 1970. */
export interface Window {
  /** The beginning of the window of an instant. */
  start(ms: number): number
  /** Instants from `ms` up to this one, exclusive, are in the same window. */
  until(ms: number): number
  /** The beginning of the next window. */
  next(start: number): number
  /** The beginning of a window as ISO 8601, with the offset of the time zone. */
  text(start: number): string
}

const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 } as const
type Unit = keyof typeof UNITS

/**
 * Parses `15m`, `1h` or `1d`. Windows of days and weeks begin at midnight (of Mondays) in the time zone, also on days
 * of 23 or 25 hours. Those of seconds, minutes and hours follow the local clock.
 */
export function parseWindow(text: string, zone = 'UTC'): Window {
  const [, digits = '', unit = ''] = /^([1-9]\d{0,5})([smhdw])$/.exec(text) ?? []
  if (digits === '') {
    throw new Refusal(
      'Invalid',
      `The parameter window must be a number of s, m, h, d or w, for example 15m, 1h or 1d, not ${JSON.stringify(text)}.`,
    )
  }
  const count = Number(digits)
  const zoned = zone === 'UTC' ? undefined : zoneOf(zone)
  if (!zoned) return new FixedWindow(count * UNITS[unit as Unit], unit === 'w' ? MONDAY : 0)
  if (unit === 'd' || unit === 'w')
    return new DayWindow(count * (unit === 'w' ? 7 : 1), unit === 'w' ? FIRST_MONDAY : 0, zoned)
  const ms = count * UNITS[unit as Unit]
  if (ms > UNITS.d) {
    throw new Refusal(
      'Invalid',
      `In a time zone, windows of more than 24 hours are of d or w, for example 2d, not ${JSON.stringify(text)}.`,
    )
  }
  return new ZonedWindow(ms, zoned)
}

/** Luxon keeps every zone by its name for ever, so it gets one spelling of each. */
function zoneOf(name: string): IANAZone {
  try {
    return IANAZone.create(new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone)
  } catch {
    throw new Refusal(
      'Invalid',
      `The parameter tz must be a time zone, for example Europe/Helsinki or UTC, not ${JSON.stringify(name)}.`,
    )
  }
}

/** 1970 began on a Thursday. */
const FIRST_MONDAY = 4
const MONDAY = FIRST_MONDAY * UNITS.d

/** Windows of fixed length in UTC. */
class FixedWindow implements Window {
  readonly #ms: number
  readonly #first: number

  constructor(ms: number, first: number) {
    this.#ms = ms
    this.#first = first
  }

  start(ms: number): number {
    return Math.floor((ms - this.#first) / this.#ms) * this.#ms + this.#first
  }

  until(ms: number): number {
    return this.start(ms) + this.#ms
  }

  next(start: number): number {
    return start + this.#ms
  }

  text(start: number): string {
    return new Date(start).toISOString()
  }
}

const QUARTER = 900_000
const MOST_OFFSETS = 65_536

/**
 * Windows of at most 24 hours. They begin where the local clock shows a whole multiple of their length since
 * midnight of 1970-01-01, so those around a change of the clock are shorter or longer.
 */
class ZonedWindow implements Window {
  readonly #ms: number
  readonly #zone: IANAZone
  /** Offsets by quarter of an hour: no zone changes its offset within one. */
  readonly #offsets = new Map<number, number>()

  constructor(ms: number, zone: IANAZone) {
    this.#ms = ms
    this.#zone = zone
  }

  start(ms: number): number {
    const offset = this.#offset(ms)
    const start = this.#multiple(ms + offset) - offset
    if (this.#offset(start) === offset) return start
    const change = this.#change(start, ms)
    return this.#isSkippedAt(change) ? change : this.start(change - 1)
  }

  /** At most the end of the quarter of an hour, after which the offset may differ. */
  until(ms: number): number {
    const offset = this.#offset(ms)
    return Math.min(this.#multiple(ms + offset) + this.#ms - offset, (Math.floor(ms / QUARTER) + 1) * QUARTER)
  }

  next(start: number): number {
    const offset = this.#offset(start)
    const next = this.#multiple(start + offset) + this.#ms - offset
    if (this.#offset(next) === offset) return next
    const change = this.#change(start, next)
    if (this.start(change) === change) return change
    const offsetAfter = this.#offset(change)
    return this.#multiple(change + offsetAfter) + this.#ms - offsetAfter
  }

  text(start: number): string {
    return iso(start, this.#zone)
  }

  /** The last multiple of the length up to a local time. */
  #multiple(local: number): number {
    return Math.floor(local / this.#ms) * this.#ms
  }

  /** An instant after `from`, up to `to`, at which the offset becomes that of `to`. */
  #change(from: number, to: number): number {
    const offset = this.#offset(to)
    let before = Math.floor(from / QUARTER)
    let after = Math.floor(to / QUARTER)
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (this.#offset(middle * QUARTER) === offset) after = middle
      else before = middle
    }
    return after * QUARTER
  }

  /** Whether the local clock skips the beginning of a window when its offset changes. */
  #isSkippedAt(change: number): boolean {
    return this.#multiple(change - 1 + this.#offset(change)) > this.#multiple(change - 1 + this.#offset(change - 1))
  }

  #offset(ms: number): number {
    const quarter = Math.floor(ms / QUARTER)
    let offset = this.#offsets.get(quarter)
    if (offset === undefined) {
      offset = this.#zone.offset(quarter * QUARTER) * UNITS.m
      if (this.#offsets.size === MOST_OFFSETS) this.#offsets.clear()
      this.#offsets.set(quarter, offset)
    }
    return offset
  }
}

/** Windows of whole days in a time zone. */
class DayWindow implements Window {
  readonly #days: number
  readonly #firstDay: number
  readonly #zone: IANAZone
  /** The last window found, since most instants are in the same one. */
  #known = { start: 0, end: 0 }

  constructor(days: number, firstDay: number, zone: IANAZone) {
    this.#days = days
    this.#firstDay = firstDay
    this.#zone = zone
  }

  start(ms: number): number {
    if (ms >= this.#known.start && ms < this.#known.end) return this.#known.start
    const day = this.#firstDayAt(ms)
    this.#known = { start: this.#midnight(day), end: this.#midnight(day + this.#days) }
    return this.#known.start
  }

  until(ms: number): number {
    this.start(ms)
    return this.#known.end
  }

  next(start: number): number {
    return this.#midnight(this.#firstDayAt(start) + this.#days)
  }

  text(start: number): string {
    return iso(start, this.#zone)
  }

  /** The first day of the window of an instant, as its number since 1970-01-01. */
  #firstDayAt(ms: number): number {
    const local = DateTime.fromMillis(Math.floor(ms), { zone: this.#zone })
    const day = Math.floor(Date.UTC(local.year, local.month - 1, local.day) / UNITS.d) - this.#firstDay
    return Math.floor(day / this.#days) * this.#days + this.#firstDay
  }

  #midnight(day: number): number {
    const date = new Date(day * UNITS.d)
    const parts = { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() }
    const midnight = DateTime.fromObject(parts, { zone: this.#zone }).startOf('day')
    // Where the clock is set back at 1:00, midnight comes twice.
    const before = midnight.minus(1)
    // `hasSame` is wrong on the eve of a day without 23:59.
    return (before.day === midnight.day ? before.startOf('day') : midnight).toMillis()
  }
}

function iso(ms: number, zone: IANAZone): string {
  return DateTime.fromMillis(ms, { zone }).toISO() ?? new Date(ms).toISOString()
}
