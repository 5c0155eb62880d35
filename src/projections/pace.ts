import type { Schedule } from '../runtime/turns.ts'

/** A clock and timer, passed as arguments so that tests can simulate years. */
export interface Clock {
  /** A monotonic clock in milliseconds. */
  readonly elapsedMs: () => number
  readonly schedule: Schedule
}

/** Changes closer together than this arrive together, so that the journal is not read more often. */
const SHORTEST_WAIT_MS = 10
/** Timers accept at most 24 days. */
const LONGEST_WAIT_MS = 24 * 60 * 60 * 1000

export const SPEEDS = { least: 1, most: 1000 } as const

export function isSpeed(speed: unknown): speed is number {
  return typeof speed === 'number' && speed >= SPEEDS.least && speed <= SPEEDS.most
}

/**
 * Replays recorded time from its construction on, at a given speed. Due times are computed from the start and not from
 * one to the next, so delays do not add up.
 */
export class Pace {
  readonly #clock: Clock
  readonly #originMs: number
  readonly #speed: number
  readonly #startedMs: number
  #isEnded = false
  #wake: (() => void) | undefined

  /** @param originMs The recorded time at the start, in milliseconds since 1970. */
  constructor(clock: Clock, originMs: number, speed: number) {
    this.#clock = clock
    this.#originMs = originMs
    this.#speed = speed
    this.#startedMs = clock.elapsedMs()
  }

  /** The current recorded time, in milliseconds since 1970. */
  get ms(): number {
    return this.#originMs + (this.#clock.elapsedMs() - this.#startedMs) * this.#speed
  }

  isDue(time: string): boolean {
    return this.ms >= Date.parse(time)
  }

  /** Resolves when the recorded time is due, or at the end. Supports one waiter at a time. */
  async reach(time: string): Promise<void> {
    while (!this.#isEnded && !this.isDue(time)) {
      const waitMs = (Date.parse(time) - this.ms) / this.#speed
      await this.#sleep(Math.min(Math.max(waitMs, SHORTEST_WAIT_MS), LONGEST_WAIT_MS))
    }
  }

  /** Ends current and later waits at once. */
  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.schedule(() => this.#wake?.(), ms)
      this.#wake = () => {
        timer.cancel()
        this.#wake = undefined
        resolve()
      }
    })
  }
}
