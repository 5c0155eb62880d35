import { Refusal } from './errors.ts'
import type { Steps } from './steps.ts'

export { atOnce, type Steps } from './steps.ts'

/** A slice of all such work together holds the event loop no longer; what one step takes comes on top. */
const SLICE_MS = 5
/** What can be done in this time is done at once, even if others wait. */
const SHORT_MS = 1
/** So many works go on at a time, as each holds what it has found so far; the others wait unbegun. */
const AT_ONCE = 8

/** Who waits for a result, or does so no more: then its work need not go on. */
export interface Asker {
  isGone(): boolean
  /** Undefined: the work may go on for as long as it takes. */
  readonly limit?: Limit | undefined
}

/** How long work may go on once it was begun, and what it comes to then. */
export interface Limit {
  readonly seconds: number
  readonly refusal: () => Refusal
}

/** What work comes to that nobody waits for any more. */
export function abandoned(): Refusal {
  return new Refusal('Invalid', 'The client went away before it was answered.')
}

interface Work {
  /** False when it is done. */
  readonly go: (until: number) => boolean
}

/**
 * Does long work in slices between which the event loop goes on. Works take turns, a slice for all of them a turn of
 * the loop, so that any number of them holds nobody longer than one.
 */
export class Slices {
  readonly #now: () => number
  readonly #later: (slice: () => void) => void
  readonly #going: Work[] = []
  readonly #unbegun: (() => Work)[] = []
  /** What was spent in this turn of the loop on works that were not done at once. */
  #triedMs = 0

  constructor(now: () => number = () => performance.now(), later: (slice: () => void) => void = setImmediate) {
    this.#now = now
    this.#later = later
  }

  /**
   * The result at once if that takes no longer than a slice. What `begin` returns may be dropped after a few steps, to be
   * begun anew when there is room for it. Refuses what was not done at once when nobody waits for it.
   */
  run<Result>(begin: () => Steps<Result>, asker?: Asker): Result | Promise<Result> {
    if (this.#triedMs >= SLICE_MS) return this.#tryLater(begin, asker)
    const steps = begin()
    const first = steps.next()
    if (first.done) return first.value
    const now = this.#now()
    const until = now + (this.#going.length === 0 ? SLICE_MS : SHORT_MS)
    do {
      const step = steps.next()
      if (step.done) return step.value
    } while (this.#now() < until)
    this.#triedMs += this.#now() - now
    if (this.#going.length < AT_ONCE) return this.#wait(() => steps, asker)
    steps.return(undefined as Result)
    return this.#wait(begin, asker)
  }

  /** In the next turn, so that what is short need not wait for what is long, even if that came first. */
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
      if (this.#going.length >= AT_ONCE) this.#unbegun.push(work)
      else if (this.#going.push(work()) === 1) this.#later(() => this.#slice())
    })
  }

  #slice(): void {
    this.#triedMs = 0
    const until = this.#now() + SLICE_MS
    do {
      const one = this.#going[0]
      if (!one) return
      const isWaiting = one.go(until)
      this.#going.shift()
      const next = isWaiting ? one : this.#unbegun.shift()?.()
      if (next) this.#going.push(next)
    } while (this.#now() < until)
    if (this.#going.length > 0) this.#later(() => this.#slice())
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
          // In a turn of its own, as what the result is for may take as long as a slice.
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
