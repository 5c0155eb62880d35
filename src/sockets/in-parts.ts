import { isLarge, lastPosition, type Recorded, slice } from '../events/journal.ts'

export interface InPartsOptions {
  /**
   * Is given each write once, in order, a large one in parts. What comes before its promise resolves waits; `hasMore`
   * says whether more of it, or another write, is waiting.
   */
  readonly tell: (part: Recorded, hasMore: () => boolean) => void | Promise<void>
  /** Waited for whenever as many events were told of as are at once. */
  readonly pause: () => Promise<void>
  readonly events?: number
  readonly isLarge?: (recorded: Recorded) => boolean
}

/** Events that are told of at once. */
const EVENTS = 256

/** Tells of one write after the other, of a large one in parts, so that it blocks nobody. */
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

  /** Nothing more is told. */
  end(): void {
    this.#isEnded = true
  }

  /** It is the first of those that wait until it is told. */
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
