import { isLarge, lastPosition, type Recorded, slice } from '../events/journal.ts'

interface InPartsOptions {
  /**
   * Gets each write once, in order, a large one in parts. The next call waits for the promise. `hasMore` tells whether
   * another part or write is queued.
   */
  readonly tell: (part: Recorded, hasMore: () => boolean) => void | Promise<void>
  /** Awaited after each batch of events. */
  readonly pause: () => Promise<void>
  readonly events?: number
  readonly isLarge?: (recorded: Recorded) => boolean
}

/** Events per batch. */
const EVENTS = 256

/** Delivers writes one after the other, large ones in parts, so that they do not block the event loop. */
export class InParts {
  readonly #options: InPartsOptions
  readonly #waiting: Recorded[] = []
  #isEnded = false

  constructor(options: InPartsOptions) {
    this.#options = options
  }

  give(recorded: Recorded): void {
    const { tell, isLarge: isToBeDivided = ({ events }) => isLarge(events) } = this.#options
    if (this.#waiting.length > 0) this.#waiting.push(recorded)
    else if (isToBeDivided(recorded)) {
      this.#waiting.push(recorded)
      void this.#go()
    } else {
      const told = tell(recorded, () => this.#waiting.length > 1)
      if (told) void this.#goAfter(recorded, told)
    }
  }

  /** Stops delivering. */
  end(): void {
    this.#isEnded = true
  }

  /** The write stays first in the queue until its delivery ends. */
  async #goAfter(recorded: Recorded, told: Promise<void>): Promise<void> {
    this.#waiting.push(recorded)
    await told
    this.#waiting.shift()
    await this.#go()
  }

  async #go(): Promise<void> {
    const { tell, pause, events = EVENTS } = this.#options
    let told = 0
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const last = lastPosition(first)
      for (let from = first.position; from <= last; from += events) {
        if (this.#isEnded) return
        const to = Math.min(last, from + events - 1)
        await tell(slice(first, from, to), () => to < last || this.#waiting.length > 1)
        told += to - from + 1
        if (told < events || (to === last && this.#waiting.length === 1)) continue
        await pause()
        told = 0
      }
      this.#waiting.shift()
    }
  }
}
