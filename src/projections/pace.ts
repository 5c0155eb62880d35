import type { Schedule } from './data-file/writing.ts'

/** What waiting needs: both arrive as arguments, so that a test can let years pass. */
export interface Clock {
  /** Milliseconds since some beginning, of a clock that nobody sets. */
  readonly elapsedMs: () => number
  readonly schedule: Schedule
}

/** Changes that follow each other faster come together: less often than this the journal is not read. */
const SHORTEST_WAIT_MS = 10
/** Timers take no more than 24 days. */
const LONGEST_WAIT_MS = 24 * 60 * 60 * 1000

export const SPEEDS = { least: 1, most: 1000 } as const

export function isSpeed(speed: unknown): speed is number {
  return typeof speed === 'number' && speed >= SPEEDS.least && speed <= SPEEDS.most
}

/**
 * Recorded time that passes again, so many times as fast, from its construction on. Due times are counted from there
 * and not from one to the next, so that being late does not add up.
 */
export class Pace {
  readonly #clock: Clock
  readonly #originMs: number
  readonly #speed: number
  readonly #began: number
  #isEnded = false
  #wake: (() => void) | undefined

  /** @param originMs the recorded time that it begins with, in milliseconds since 1970 */
  constructor(clock: Clock, originMs: number, speed: number) {
    this.#clock = clock
    this.#originMs = originMs
    this.#speed = speed
    this.#began = clock.elapsedMs()
  }

  /** The recorded time that has been reached, in milliseconds since 1970. */
  get ms(): number {
    return this.#originMs + (this.#clock.elapsedMs() - this.#began) * this.#speed
  }

  isDue(time: string): boolean {
    return this.ms >= Date.parse(time)
  }

  /** Resolves when the recorded time is due, or at the end. One waits at a time. */
  async reach(time: string): Promise<void> {
    while (!this.#isEnded && !this.isDue(time)) {
      const waitMs = (Date.parse(time) - this.ms) / this.#speed
      await this.#sleep(Math.min(Math.max(waitMs, SHORTEST_WAIT_MS), LONGEST_WAIT_MS))
    }
  }

  /** Whoever waits, or would, waits no more. */
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
