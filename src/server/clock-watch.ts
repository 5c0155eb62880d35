import type { EngineDependencies } from '../engine/dependencies.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { Schedule } from '../runtime/turns.ts'

/** A change of the wall clock that the monotonic clock does not have. */
interface ClockJump {
  /** The time after the jump. */
  readonly at: string
  /** Negative if the clock was set back. */
  readonly seconds: number
}

interface ClockDependencies extends Pick<EngineDependencies, 'now' | 'elapsedMs' | 'schedule'> {
  readonly log: LimitedLog
}

/** Smaller changes do not make a reading of today look ahead. */
const LEAST_MS = 24 * 60 * 60 * 1000
const CHECK_MS = 60_000

/** Finds jumps of more than a day of the wall clock. Whether an event time is ahead is judged by that clock. */
export class ClockWatch {
  readonly #dependencies: ClockDependencies
  /** The wall clock minus the monotonic clock. */
  #aheadMs: number
  #last: ClockJump | undefined
  /** Whether the log tells of the last jump. It left that out if another one was shortly before. */
  #isLogged = true
  #timer: ReturnType<Schedule> | undefined

  /** `lastEventMs`: the time of the last event. If the clock is far behind that, it was set back before the start. */
  constructor(dependencies: ClockDependencies, lastEventMs: number) {
    this.#dependencies = dependencies
    this.#aheadMs = this.#measure()
    // A clock that is ahead of the last event is no sign: a server may be off for longer than a day.
    this.#note(Math.min(0, dependencies.now().getTime() - lastEventMs))
    this.#checkLater()
  }

  /** The last jump; undefined if there was none. */
  get last(): ClockJump | undefined {
    this.#check()
    return this.#last
  }

  close(): void {
    this.#timer?.cancel()
  }

  #measure(): number {
    const { now, elapsedMs } = this.#dependencies
    return now().getTime() - elapsedMs()
  }

  #check(): void {
    const aheadMs = this.#measure()
    this.#note(aheadMs - this.#aheadMs)
    this.#aheadMs = aheadMs
  }

  #note(changedMs: number): void {
    if (Math.abs(changedMs) < LEAST_MS) return
    this.#last = { at: this.#dependencies.now().toISOString(), seconds: Math.round(changedMs / 1000) }
    this.#logLast()
  }

  #logLast(): void {
    const { log } = this.#dependencies
    this.#isLogged = log.warn({ clock: this.#last }, 'the clock of the server has jumped by more than a day')
  }

  #checkLater(): void {
    this.#timer = this.#dependencies.schedule(() => {
      this.#check()
      if (!this.#isLogged) this.#logLast()
      this.#checkLater()
    }, CHECK_MS)
  }
}
