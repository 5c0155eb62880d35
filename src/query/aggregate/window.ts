import { FixedOffsetZone, IANAZone, type Zone } from 'luxon'
import { Refusal } from '../../runtime/errors.ts'

/** Divides local time, as milliseconds since 1970 of a clock that is never changed. */
interface Calendar {
  start(local: number): number
  next(start: number): number
  readonly shortestMs: number
}

/** The units of durations in parameters. */
export const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 7 * 86_400_000 } as const

/**
 * Parses `15m`, `1h`, `1d`, `1mo` or `1y`. Windows begin where the local clock shows a whole multiple of their length
 * since 1970-01-01, those of weeks on Mondays, those of months and years on their first day.
 */
export function parseWindow(text: string, zone = 'UTC'): Window {
  const [, digits = '', unit = ''] = /^([1-9]\d{0,5})([smhdwy]|mo)$/.exec(text) ?? []
  if (digits === '') {
    throw new Refusal(
      'Invalid',
      `The parameter window must be a number of s, m, h, d, w, mo or y, for example 15m, 1h or 1d, not ${JSON.stringify(text)}.`,
    )
  }
  const clock = clockOf(zone)
  const calendar = calendarOf(Number(digits), unit)
  if (!clock.isFixed && calendar.shortestMs > UNIT_MS.d && /[smh]$/.test(text)) {
    throw new Refusal(
      'Invalid',
      `In a time zone, windows of more than 24 hours are of d, w, mo or y, for example 2d, not ${JSON.stringify(text)}.`,
    )
  }
  return new Window(calendar, clock)
}

const MOST_YEARS = 1000
/** The first Monday: 1970 began on a Thursday. */
const MONDAY = 4 * UNIT_MS.d

function calendarOf(count: number, unit: string): Calendar {
  if (unit !== 'mo' && unit !== 'y')
    return equalCalendar(count * UNIT_MS[unit as keyof typeof UNIT_MS], unit === 'w' ? MONDAY : 0)
  const months = unit === 'y' ? 12 * count : count
  // Dates end in the year 275,760.
  if (months > 12 * MOST_YEARS) throw new Refusal('Invalid', `A window of mo or y has at most ${MOST_YEARS} years.`)
  return monthCalendar(months)
}

function equalCalendar(ms: number, knownStart: number): Calendar {
  return {
    shortestMs: ms,
    start: (local) => Math.floor((local - knownStart) / ms) * ms + knownStart,
    next: (start) => start + ms,
  }
}

function monthCalendar(count: number): Calendar {
  const startOf = (month: number): number => Date.UTC(1970, month)
  const monthOf = (local: number): number => {
    const date = new Date(Math.floor(local))
    return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
  }
  return {
    shortestMs: 28 * UNIT_MS.d,
    start: (local) => startOf(Math.floor(monthOf(local) / count) * count),
    next: (start) => startOf(monthOf(start) + count),
  }
}

/** The clock of a fixed offset or a time zone. An unescaped plus sign has become a space. */
function clockOf(zone: string): LocalClock {
  const [, sign, hours, minutes = '0'] = /^([-+ ])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(zone) ?? []
  if (sign !== undefined) {
    const offset = Number(hours) * 60 + Number(minutes)
    return new LocalClock(FixedOffsetZone.instance(sign === '-' ? -offset : offset))
  }
  try {
    // Luxon keeps every zone by its name for ever, so it gets one spelling of each.
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions()
    return new LocalClock(timeZone === 'UTC' ? FixedOffsetZone.utcInstance : IANAZone.create(timeZone))
  } catch {
    throw new Refusal(
      'Invalid',
      `The parameter tz must be a time zone, for example Europe/Helsinki, UTC or +02:00, not ${JSON.stringify(zone)}.`,
    )
  }
}

/** The local time of a zone is at most this far from UTC. */
const MOST_OFFSET = 16 * UNIT_MS.h

/**
 * Divides time into consecutive windows. Instants are milliseconds since 1970. A window begins when the local clock first
 * shows its beginning, or a later time, and lasts until the next one begins: a time that the clock shows again, after it
 * was set back, begins no window, unless windows are no longer than the shift: those begin again.
 */
export class Window {
  readonly #calendar: Calendar
  readonly #clock: LocalClock
  /** The last window found, since most instants are in the same one. */
  #known = { start: 0, end: 0 }

  constructor(calendar: Calendar, clock: LocalClock) {
    this.#calendar = calendar
    this.#clock = clock
  }

  /** The beginning of the window of an instant. */
  start(ms: number): number {
    return this.#at(ms).start
  }

  /** The end of the window of an instant, which is the beginning of the next one. */
  until(ms: number): number {
    return this.#at(ms).end
  }

  /** The beginning of a window as ISO 8601, with the offset of the time zone; `Z` for UTC itself. */
  text(start: number): string {
    const offset = this.#clock.offset(start)
    return this.#clock.isFixed && offset === 0 ? new Date(start).toISOString() : localText(start, offset)
  }

  #at(ms: number): { readonly start: number; readonly end: number } {
    if (ms < this.#known.start || ms >= this.#known.end) this.#known = this.#find(ms)
    return this.#known
  }

  #find(ms: number): { start: number; end: number } {
    const calendar = this.#calendar
    const { at, before, after } = this.#clock.lastChange(ms - 2 * UNIT_MS.d, ms)
    // The clock was set back by at least the length of a window, so windows begin again after the change.
    if (calendar.shortestMs <= before - after) {
      const local = calendar.start(ms + after)
      const start = local - after
      return { start: start >= at ? start : this.start(at - 1), end: calendar.next(local) - after }
    }
    // The highest time that the clock has shown: one that it shows again belongs to the window that was there before.
    // Windows begin at whole milliseconds.
    const local = calendar.start(Math.max(ms + after, at + before - 1))
    return { start: this.#firstAt(local), end: this.#endOf(ms, calendar.next(local)) }
  }

  /** The end of the window of an instant: `next` is the local beginning of the next one, unless the clock is set back. */
  #endOf(ms: number, next: number): number {
    const end = this.#firstAt(next)
    if (this.#calendar.shortestMs > UNIT_MS.d) return end
    const { at, before, after } = this.#clock.lastChange(ms, end)
    if (this.#calendar.shortestMs > before - after) return end
    // A window that begins again after the change ends this one.
    const again = this.#calendar.next(this.#calendar.start(at + after - 1)) - after
    return Math.min(end, again)
  }

  /** The first instant at which the clock shows a local time or a later one. */
  #firstAt(local: number): number {
    const { at, before, after } = this.#clock.lastChange(local - MOST_OFFSET, local + MOST_OFFSET)
    return local - before < at ? local - before : Math.max(at, local - after)
  }
}

/** Local time with its offset, such as `2026-01-01T02:00:00.000+02:00`. */
function localText(ms: number, offset: number): string {
  const minutes = Math.trunc(Math.abs(offset) / UNIT_MS.m)
  const two = (number: number): string => String(number).padStart(2, '0')
  const zone = `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
  return new Date(ms + offset).toISOString().slice(0, -1) + zone
}

/** The local clock of a time zone is set forward or back at an instant. The offsets, in milliseconds, may be equal. */
interface ClockChange {
  readonly at: number
  readonly before: number
  readonly after: number
}

const MOST_DAYS = 65_536

/** The local clock of a time zone. Instants are milliseconds since 1970. No zone changes its clock twice in a day. */
class LocalClock {
  readonly #zone: Zone
  /** The change after the beginning of each UTC day, up to its end; kept, as asking for an offset takes 4 µs. */
  readonly #days = new Map<number, ClockChange>()

  constructor(zone: Zone) {
    this.#zone = zone
  }

  /** It is always at the same offset. */
  get isFixed(): boolean {
    return this.#zone.isUniversal
  }

  /** Local time minus UTC, in milliseconds. */
  offset(ms: number): number {
    const { at, before, after } = this.#day(Math.floor(ms / UNIT_MS.d))
    return ms < at ? before : after
  }

  /** The last change after `from`, up to `to`; if there is none, one at `from` without effect. */
  lastChange(from: number, to: number): ClockChange {
    for (let day = Math.floor(to / UNIT_MS.d); day >= Math.floor(from / UNIT_MS.d); day--) {
      const change = this.#day(day)
      if (change.before !== change.after && change.at > from && change.at <= to) return change
    }
    const offset = this.offset(to)
    return { at: from, before: offset, after: offset }
  }

  #day(day: number): ClockChange {
    let change = this.#days.get(day)
    if (!change) {
      change = this.#changeIn(day * UNIT_MS.d, (day + 1) * UNIT_MS.d)
      if (this.#days.size === MOST_DAYS) this.#days.clear()
      this.#days.set(day, change)
    }
    return change
  }

  #changeIn(from: number, to: number): ClockChange {
    const before = this.#offsetOfZone(from)
    const after = this.#offsetOfZone(to)
    // The clock has the offset of `from` at `low`, and that of `to` at `high`.
    let low = from
    let high = to
    while (before !== after && high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.#offsetOfZone(middle) === before) low = middle
      else high = middle
    }
    return { at: high, before, after }
  }

  #offsetOfZone(ms: number): number {
    return Math.round(this.#zone.offset(ms) * 60_000)
  }
}
