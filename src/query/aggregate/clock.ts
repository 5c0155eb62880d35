import type { Zone } from 'luxon'

/** The local clock of a time zone is set forward or back at an instant. The offsets, in milliseconds, may be equal. */
export interface ClockChange {
  readonly at: number
  readonly before: number
  readonly after: number
}

const DAY = 86_400_000
const MOST_DAYS = 65_536

/** The local clock of a time zone. Instants are milliseconds since 1970. No zone changes its clock twice in a day. */
export class Clock {
  readonly #zone: Zone
  /** The change after the beginning of each UTC day, up to its end: asking for an offset takes 4 µs. */
  readonly #days = new Map<number, ClockChange>()

  constructor(zone: Zone) {
    this.#zone = zone
  }

  /** Local time minus UTC, in milliseconds. */
  offset(ms: number): number {
    const { at, before, after } = this.#day(Math.floor(ms / DAY))
    return ms < at ? before : after
  }

  /** The last change after `from`, up to `to`; if there is none, one at `from` without effect. */
  lastChange(from: number, to: number): ClockChange {
    for (let day = Math.floor(to / DAY); day >= Math.floor(from / DAY); day--) {
      const change = this.#day(day)
      if (change.before !== change.after && change.at > from && change.at <= to) return change
    }
    const offset = this.offset(to)
    return { at: from, before: offset, after: offset }
  }

  #day(day: number): ClockChange {
    let change = this.#days.get(day)
    if (!change) {
      change = this.#changeIn(day * DAY, (day + 1) * DAY)
      if (this.#days.size === MOST_DAYS) this.#days.clear()
      this.#days.set(day, change)
    }
    return change
  }

  #changeIn(from: number, to: number): ClockChange {
    const before = this.#offsetOfZone(from)
    const after = this.#offsetOfZone(to)
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
