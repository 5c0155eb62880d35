import { isLarge, lastPosition, type Recorded, slice } from '../events/journal.ts'

interface InPartsOptions {
  /**
   * Gets each write once, in order, a large one in parts. The next call waits for the promise. `hasMore` tells whether
   * another part or write is queued.
   */
  readonly tell: (part: Recorded, hasMore: () => boolean) => void | Promise<void>
  /** Awaited between parts. */
  readonly pause: () => Promise<void>
  /** Events per part. */
  readonly events?: number
  readonly isLarge?: (recorded: Recorded) => boolean
}

const EVENTS = 256

/** Delivers writes one after the other, large ones in parts, so that they do not block the event loop. */
export class InParts {
  readonly #options: InPartsOptions
  /** The first one is being delivered. */
  readonly #waiting: Recorded[] = []
  #isEnded = false

  constructor(options: InPartsOptions) {
    this.#options = options
  }

  give(recorded: Recorded): void {
    if (this.#waiting.push(recorded) === 1) void this.#deliver()
  }

  /** Stops delivering. */
  end(): void {
    this.#isEnded = true
  }

  /** A write is delivered at once if it is small and telling it is synchronous. */
  async #deliver(): Promise<void> {
    const { tell, pause, events: most = EVENTS, isLarge: isDivided = ({ events }) => isLarge(events) } = this.#options
    let toldSincePause = 0
    for (let first = this.#waiting[0]; first && !this.#isEnded; first = this.#waiting[0]) {
      const last = lastPosition(first)
      const size = isDivided(first) ? most : first.events.length
      for (let from = first.position; from <= last && !this.#isEnded; from += size) {
        const to = Math.min(last, from + size - 1)
        const hasMore = (): boolean => to < last || this.#waiting.length > 1
        const told = tell(slice(first, from, to), hasMore)
        if (told) await told
        toldSincePause += to - from + 1
        if (toldSincePause < most || !hasMore()) continue
        await pause()
        toldSincePause = 0
      }
      this.#waiting.shift()
    }
  }
}
