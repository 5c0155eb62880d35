import { Refusal } from './errors.ts'

/** How long all works of a `Turns` together block the event loop, plus the duration of one item. */
const TURN_MS = 5
/** A work that takes less time than this is not interrupted, even if others wait. */
const SHORT_MS = 1

/** The client of a result: when it is gone, the work stops. */
export interface Asker {
  isGone(): boolean
  /** Undefined: the work may take any time. */
  readonly limit?: Limit | undefined
}

/** The highest duration of work, not counting the time that it waits, and the error after it. */
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

/** Work in progress. A loop over items calls `if (turn.isOver) await turn.next()` at each item. */
export interface Turn {
  /** Whether the event loop is to continue before the next item. */
  readonly isOver: boolean
  /** Resolves when the work may continue. Rejects when its client is gone, or its time limit is exceeded. */
  next(): Promise<void>
  /** Estimated duration of the whole work in milliseconds: of the works that wait, the shortest continue first. */
  estimatedMs: number
}

/**
 * Runs works that take long, one after the other, with turns of the event loop in between. Of those that wait, the one
 * continues whose arrival plus its estimated duration is the earliest: so a short work passes a long one, and the long one
 * is not passed for ever.
 */
export class Turns {
  readonly #now: () => number
  readonly #later: (turn: () => void) => void
  readonly #waiting: WorkTurn[] = []
  #isScheduled = false
  /** Time spent in this turn of the event loop on works that were not completed. */
  #spentMs = 0

  constructor(now: () => number = () => performance.now(), later: (turn: () => void) => void = setImmediate) {
    this.#now = now
    this.#later = later
  }

  /** Resolves with the result of `work`. A short work is completed before the event loop continues. */
  async run<Result>(work: (turn: Turn) => Result | Promise<Result>, asker?: Asker): Promise<Result> {
    while (this.#spentMs >= TURN_MS) await new Promise<void>((resolve) => this.#later(resolve))
    if (asker?.isGone()) throw new Abandoned()
    const firstMs = this.#waiting.length === 0 ? TURN_MS : SHORT_MS
    return work(new WorkTurn(this.#now, firstMs, asker, (turn) => this.#wait(turn)))
  }

  #wait(turn: WorkTurn): void {
    this.#spentMs += turn.lastMs
    this.#waiting.push(turn)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    this.#later(() => this.#continue())
  }

  #continue(): void {
    this.#isScheduled = false
    this.#spentMs = 0
    let first = 0
    for (const [index, { due }] of this.#waiting.entries())
      if (due < (this.#waiting[first] as WorkTurn).due) first = index
    const [turn] = this.#waiting.splice(first, 1)
    turn?.begin(TURN_MS)
    this.#schedule()
  }
}

class WorkTurn implements Turn {
  estimatedMs = 0
  /** Duration of the last turn. */
  lastMs = 0
  readonly #now: () => number
  readonly #asker: Asker | undefined
  readonly #wait: (turn: WorkTurn) => void
  readonly #arrived: number
  #spentMs = 0
  #began: number
  #end: number
  #settle: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined

  constructor(now: () => number, ms: number, asker: Asker | undefined, wait: (turn: WorkTurn) => void) {
    this.#now = now
    this.#asker = asker
    this.#wait = wait
    this.#arrived = now()
    this.#began = this.#arrived
    this.#end = this.#arrived + ms
  }

  get isOver(): boolean {
    return this.#now() >= this.#end
  }

  get due(): number {
    return this.#arrived + this.estimatedMs
  }

  next(): Promise<void> {
    this.lastMs = this.#now() - this.#began
    this.#spentMs += this.lastMs
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#wait(this)
    })
  }

  begin(ms: number): void {
    const { limit } = this.#asker ?? {}
    this.#began = this.#now()
    this.#end = this.#began + ms
    if (this.#asker?.isGone()) this.#settle?.reject(new Abandoned())
    else if (limit && this.#spentMs >= limit.seconds * 1000) this.#settle?.reject(limit.refusal())
    else this.#settle?.resolve()
  }
}

/** A turn that never ends, for work that may block the event loop. */
export const ENDLESS: Turn = { isOver: false, next: async () => {}, estimatedMs: 0 }
