import type { Schedule } from '../runtime/turns.ts'

const DEBOUNCE_MS = 200
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9

export interface WriteScheduleOptions {
  readonly schedule: Schedule
  readonly elapsedMs: () => number
  readonly now: () => Date
  /** Longest time that the file may be behind; undefined for no limit. */
  readonly maxDelaySeconds: number | undefined
  /** Begins a write; `isOverdue` after the longest time. */
  readonly write: (isOverdue: boolean) => void
}

/** When the data file is written next: after a delay, a rest after the previous write, or at a deadline. */
export class WriteSchedule {
  readonly #options: WriteScheduleOptions
  #timer: ReturnType<Schedule> | undefined
  #notBeforeMs = 0
  #deadline: { readonly timer: ReturnType<Schedule>; readonly at: string } | undefined
  #beganMs = 0
  #isWriting = false
  /** Delay in milliseconds of the next write, if requested during a write. */
  #again: number | undefined
  #isClosed = false

  constructor(options: WriteScheduleOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** When the next write may begin, as an ISO 8601 time. */
  get earliest(): string {
    const { now, elapsedMs } = this.#options
    return new Date(now().getTime() + Math.max(0, this.#notBeforeMs - elapsedMs())).toISOString()
  }

  /** When the file is written however little the journal has grown, as an ISO 8601 time. */
  get deadline(): string | undefined {
    return this.#deadline?.at
  }

  get writingMs(): number {
    return this.#options.elapsedMs() - this.#beganMs
  }

  /** Begins a write after a delay, or later if one has just ended. */
  soon(delayMs = DEBOUNCE_MS): void {
    if (this.#timer || this.#isClosed) return
    // The rest time after the current write is not known yet.
    if (this.#isWriting) {
      this.#again = Math.max(delayMs, this.#again ?? 0)
      return
    }
    const { schedule, elapsedMs, write } = this.#options
    const wait = Math.max(delayMs, this.#notBeforeMs - elapsedMs())
    this.#timer = schedule(() => {
      this.#timer = undefined
      write(false)
    }, wait)
  }

  /** Starts the time limit for being behind, unless it runs already. */
  setDeadline(): void {
    const { schedule, now, maxDelaySeconds, write } = this.#options
    if (maxDelaySeconds === undefined || this.#deadline || this.#isClosed) return
    const delayMs = 1000 * maxDelaySeconds
    const timer = schedule(() => {
      this.#deadline = undefined
      write(true)
    }, delayMs)
    this.#deadline = { timer, at: new Date(now().getTime() + delayMs).toISOString() }
  }

  clearDeadline(): void {
    this.#deadline?.timer.cancel()
    this.#deadline = undefined
  }

  begin(): void {
    this.#beganMs = this.#options.elapsedMs()
    this.#isWriting = true
  }

  /** The write has ended. `isBehind` when the file needs another one. */
  end(isBehind: boolean): void {
    this.#notBeforeMs = this.#options.elapsedMs() + REST_FACTOR * this.writingMs
    this.#isWriting = false
    const again = this.#again
    this.#again = undefined
    if (again !== undefined) this.soon(again)
    else if (isBehind) this.soon()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.clearDeadline()
  }
}
