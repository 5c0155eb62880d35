import { Refusal } from './errors.ts'
import type { Steps } from './steps.ts'

export { atOnce, type Steps } from './steps.ts'

/** How long all work together blocks the event loop in one slice, plus the duration of one step. */
const SLICE_MS = 5
/** Work that takes less time than this is completed synchronously, even if other work waits. */
const SHORT_MS = 1
/** Highest number of works in progress, since each holds its intermediate results; others wait. */
const AT_ONCE = 8

/** The client of a result: when it is gone, the work stops. */
export interface Asker {
  isGone(): boolean
  /** Undefined: the work may take any time. */
  readonly limit?: Limit | undefined
}

/** The highest duration of work, and the error after it. */
export interface Limit {
  readonly seconds: number
  readonly refusal: () => Refusal
}

/** The error of work whose client is gone. */
export class Abandoned extends Refusal {
  constructor() {
    super('Invalid', 'The client went away before it was answered.')
  }
}

export function abandoned(): Refusal {
  return new Abandoned()
}

interface Work {
  /** False when it is complete. */
  readonly go: (until: number) => boolean
}

/**
 * Runs long work in time slices, between which the event loop continues. All works share one slice per turn of the
 * loop, so any number of them blocks it no longer than one.
 */
export class Slices {
  readonly #now: () => number
  readonly #later: (slice: () => void) => void
  readonly #running: Work[] = []
  readonly #queued: (() => Work)[] = []
  /** Time spent in this turn of the loop on works that were not completed synchronously. */
  #triedMs = 0

  constructor(now: () => number = () => performance.now(), later: (slice: () => void) => void = setImmediate) {
    this.#now = now
    this.#later = later
  }

  /**
   * Returns the result synchronously if that takes no longer than a slice. The generator from `begin` may be dropped
   * after a few steps, to start again when there is room for it. Rejects work that was not completed synchronously when
   * its client is gone.
   */
  run<Result>(begin: () => Steps<Result>, asker?: Asker): Result | Promise<Result> {
    if (this.#triedMs >= SLICE_MS) return this.#tryLater(begin, asker)
    const steps = begin()
    const first = steps.next()
    if (first.done) return first.value
    const now = this.#now()
    const until = now + (this.#running.length === 0 ? SLICE_MS : SHORT_MS)
    do {
      const step = steps.next()
      if (step.done) return step.value
    } while (this.#now() < until)
    this.#triedMs += this.#now() - now
    if (this.#running.length < AT_ONCE) return this.#wait(() => steps, asker)
    steps.return(undefined as Result)
    return this.#wait(begin, asker)
  }

  /** Runs in the next turn, so that short work need not wait for long work, even if that came first. */
  #tryLater<Result>(begin: () => Steps<Result>, asker?: Asker): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#later(() => {
        try {
          if (asker?.isGone()) reject(abandoned())
          else resolve(this.run(begin, asker))
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  #wait<Result>(begin: () => Steps<Result>, asker?: Asker): Promise<Result> {
    return new Promise((resolve, reject) => {
      const work = (): Work => this.#workOf(begin(), resolve, reject, asker)
      if (this.#running.length >= AT_ONCE) this.#queued.push(work)
      else if (this.#running.push(work()) === 1) this.#later(() => this.#slice())
    })
  }

  #slice(): void {
    this.#triedMs = 0
    const until = this.#now() + SLICE_MS
    do {
      const one = this.#running[0]
      if (!one) return
      const isWaiting = one.go(until)
      this.#running.shift()
      const next = isWaiting ? one : this.#queued.shift()?.()
      if (next) this.#running.push(next)
    } while (this.#now() < until)
    if (this.#running.length > 0) this.#later(() => this.#slice())
  }

  #workOf<Result>(
    steps: Steps<Result>,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
    asker?: Asker,
  ): Work {
    const end = this.#now() + (asker?.limit?.seconds ?? Number.POSITIVE_INFINITY) * 1000
    const go = (until: number): boolean => {
      try {
        const why = asker?.isGone() ? abandoned() : this.#now() >= end ? asker?.limit?.refusal() : undefined
        if (why) {
          steps.return(undefined as Result)
          throw why
        }
        do {
          const step = steps.next()
          if (!step.done) continue
          // In a turn of its own, as processing the result may take as long as a slice.
          this.#later(() => resolve(step.value))
          return false
        } while (this.#now() < until)
        return true
      } catch (error) {
        reject(error)
        return false
      }
    }
    return { go }
  }
}
