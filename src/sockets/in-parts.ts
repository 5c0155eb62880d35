import { isLarge, lastPosition, type Recorded, slice } from '../events/journal.ts'

export interface InPartsOptions {
  /** Is given each write once, in order, a large one in parts; all but the last of those say that there is more. */
  readonly tell: (part: Recorded, hasMore: boolean) => void
  /** Waited for whenever as many events were told of as are at once. */
  readonly pause: () => Promise<void>
  readonly events?: number
  readonly isLarge?: (recorded: Recorded) => boolean
}

/** Events that are told of at once. */
const EVENTS = 256

/** Tells of a large write in parts, so that nobody is held by it; what is written meanwhile comes after. */
export class InParts {
  readonly #options: InPartsOptions
  readonly #waiting: Recorded[] = []
  #isEnded = false

  constructor(options: InPartsOptions) {
    this.#options = options
  }

  give(recorded: Recorded): void {
    const { tell, isLarge: isToBeDivided = ({ events }) => isLarge(events) } = this.#options
    if (this.#waiting.length === 0 && !isToBeDivided(recorded)) tell(recorded, false)
    else if (this.#waiting.push(recorded) === 1) void this.#go()
  }

  /** Nothing more is told. */
  end(): void {
    this.#isEnded = true
  }

  async #go(): Promise<void> {
    const { tell, pause, events = EVENTS } = this.#options
    let told = 0
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      const last = lastPosition(first)
      for (let from = first.position; from <= last; from += events) {
        if (this.#isEnded) return
        const to = Math.min(last, from + events - 1)
        tell(slice(first, from, to), to < last || this.#waiting.length > 1)
        told += to - from + 1
        if (told < events || (to === last && this.#waiting.length === 1)) continue
        await pause()
        told = 0
      }
      this.#waiting.shift()
    }
  }
}
