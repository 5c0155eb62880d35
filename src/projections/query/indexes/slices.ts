/** A slice of all such work together holds the event loop no longer; what one step takes comes on top. */
const SLICE_MS = 5
/** What can be done in this time is done at once, even if others wait. */
const SHORT_MS = 1

/** Work in steps, none of which takes long. */
export type Steps<Result> = Generator<undefined, Result>

interface Waiting {
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
  readonly #waiting: Waiting[] = []

  constructor(now: () => number = () => performance.now(), later: (slice: () => void) => void = setImmediate) {
    this.#now = now
    this.#later = later
  }

  /** The result at once if that takes no longer than a slice. The first step is taken now in any case. */
  run<Result>(steps: Steps<Result>): Result | Promise<Result> {
    const first = steps.next()
    if (first.done) return first.value
    const until = this.#now() + (this.#waiting.length === 0 ? SLICE_MS : SHORT_MS)
    do {
      const step = steps.next()
      if (step.done) return step.value
    } while (this.#now() < until)
    return new Promise((resolve, reject) => {
      const go = (until: number): boolean => {
        try {
          do {
            const step = steps.next()
            if (!step.done) continue
            resolve(step.value)
            return false
          } while (this.#now() < until)
          return true
        } catch (error) {
          reject(error)
          return false
        }
      }
      if (this.#waiting.push({ go }) === 1) this.#later(() => this.#slice())
    })
  }

  #slice(): void {
    const until = this.#now() + SLICE_MS
    do {
      const one = this.#waiting[0]
      if (!one) return
      const isWaiting = one.go(until)
      this.#waiting.shift()
      if (isWaiting) this.#waiting.push(one)
    } while (this.#now() < until)
    if (this.#waiting.length > 0) this.#later(() => this.#slice())
  }
}
