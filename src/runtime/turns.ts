import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from './errors.ts'
import { Memory, type MemoryBudget, type MemoryKind, UNLIMITED } from './memory.ts'

/**
 * How long all tasks of a `Turns` together block the event loop, plus the duration of one item. In the same way requests
 * begin and writes are decided.
 */
export const TURN_MS = 5
/** Highest length of a text that is joined and encoded at once: 30 ms of two-byte characters, 10 ms of others. */
export const CHARACTERS_AT_ONCE = 2 ** 22
/** A task that takes less time than this is not interrupted, even if others wait. */
const SHORT_MS = 1

/** The client of a result: when it is gone, the task stops. */
export interface Asker {
  isGone(): boolean
  /** Undefined: the task may take any time. */
  readonly limit?: Limit | undefined
  /** Holds the memory of the task beyond its end; the asker releases it. Undefined: it is released when the task ends. */
  readonly memory?: Memory | undefined
}

/** The highest duration of a task, not counting the time that it waits, and the error after it. */
export interface Limit {
  readonly seconds: number
  readonly refusal: () => Refusal
}

/** The error of a task whose client is gone. */
export class Abandoned extends Refusal {
  constructor() {
    super('Invalid', 'The client went away before it was answered.')
  }
}

/**
 * A task's permission to block the event loop. A loop over items calls `if (turn.isOver) await turn.next()` at each item,
 * or `visitEach` does.
 */
export interface Turn {
  /** Whether the event loop is to continue before the next item. */
  readonly isOver: boolean
  /** Resolves when the task may continue. Rejects when its client is gone, or its time limit is exceeded. */
  next(): Promise<void>
  /** Estimated duration of the whole task in milliseconds. */
  estimatedMs: number
  /**
   * Holds memory until the task ends.
   * @throws {Refusal} when it is not free, as `Memory.hold` does.
   */
  hold(bytes: number): void
}

interface TurnsOptions {
  /** Whose memory a task holds if its asker brings none, and what for. */
  readonly memory?: MemoryBudget
  readonly kind?: MemoryKind
  readonly now?: () => number
  readonly later?: (work: () => void) => void
}

/**
 * Runs long tasks with iterations of the event loop in between. Every other turn goes to the shortest task that waits, and
 * the others to the one that came first. So short tasks pass long ones and take at most twice as long, long ones are not
 * passed for ever, and tasks of the same length run one after the other.
 */
export class Turns {
  readonly #newMemory: () => Memory
  readonly #now: () => number
  readonly #later: (work: () => void) => void
  readonly #waiting: TaskTurn[] = []
  /** Begin the tasks that found no time left, in order. */
  readonly #toBegin = new Set<() => void>()
  #isScheduled = false
  #isForShortest = false
  #iteration = 0
  /** Whether this iteration of the event loop is for tasks that are to begin. */
  #isForNew = false
  /** Time spent on new tasks in this iteration of the event loop. */
  #spentMs = 0

  constructor({
    memory = UNLIMITED,
    kind = 'queries',
    now = () => performance.now(),
    later = setImmediate,
  }: TurnsOptions = {}) {
    this.#newMemory = () => new Memory(memory, kind)
    this.#now = now
    this.#later = later
  }

  /**
   * Resolves with the result of a task. A short one is completed in this iteration of the event loop, if that has time left.
   * Tasks begin in the order of the calls.
   */
  run<Result>(task: (turn: Turn) => Result | Promise<Result>, asker?: Asker): Promise<Result> {
    return this.#whenThereIsTime(() => this.#run(task, asker)) as Promise<Result>
  }

  /** As `run`, for work that does not pause. It is done before this returns, or throws, if there is time left. */
  runWhole<Result>(work: () => Result | Promise<Result>): Result | Promise<Result> {
    return this.#whenThereIsTime(() => {
      const began = this.#now()
      try {
        return work()
      } finally {
        this.#spentMs += this.#now() - began
        this.#schedule()
      }
    })
  }

  #whenThereIsTime<Result>(begin: () => Result | Promise<Result>): Result | Promise<Result> {
    if (this.#spentMs < TURN_MS && this.#toBegin.size === 0) return begin()
    return new Promise((resolve) => this.#toBegin.add(() => resolve((async () => begin())())))
  }

  async #run<Result>(task: (turn: Turn) => Result | Promise<Result>, asker?: Asker): Promise<Result> {
    if (asker?.isGone()) throw new Abandoned()
    const firstMs = this.#waiting.length === 0 ? TURN_MS : SHORT_MS
    const turn = new TaskTurn(this.#now, firstMs, asker, this.#newMemory, () => this.#wait(turn))
    turn.iteration = this.#iteration
    try {
      return await this.#begin(task, turn)
    } finally {
      this.#count(turn)
      turn.release()
    }
  }

  #begin<Result>(task: (turn: Turn) => Result, turn: TaskTurn): Result {
    try {
      return task(turn)
    } finally {
      this.#count(turn)
    }
  }

  #wait(turn: TaskTurn): void {
    this.#count(turn)
    this.#waiting.push(turn)
    this.#schedule()
  }

  /** Counts the time of a task in the iteration in which it began, until its first pause. */
  #count(turn: TaskTurn): void {
    if (turn.iteration === this.#iteration) this.#spentMs += turn.takeUncounted()
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || (this.#waiting.length + this.#toBegin.size === 0 && this.#spentMs === 0)) return
    this.#isScheduled = true
    this.#later(() => this.#continue())
  }

  /** Begins tasks, or gives the next turn to one of those that wait, or both if there is time. */
  #continue(): void {
    this.#isScheduled = false
    this.#spentMs = 0
    this.#iteration++
    this.#isForNew = !this.#isForNew || this.#waiting.length === 0
    for (const begin of this.#isForNew ? this.#toBegin : []) {
      if (this.#spentMs >= TURN_MS) break
      this.#toBegin.delete(begin)
      begin()
    }
    if (this.#waiting.length > 0 && this.#spentMs < TURN_MS) {
      this.#isForShortest = !this.#isForShortest
      const next = this.#waiting.reduce((best, turn) => (this.#isBefore(turn, best) ? turn : best))
      this.#waiting.splice(this.#waiting.indexOf(next), 1)
      next.begin(TURN_MS)
    }
    this.#schedule()
  }

  #isBefore(one: TaskTurn, other: TaskTurn): boolean {
    const byLength = this.#isForShortest ? one.estimatedMs - other.estimatedMs : 0
    return (byLength || one.arrivedMs - other.arrivedMs) < 0
  }
}

class TaskTurn implements Turn {
  estimatedMs = 0
  /** The iteration of the event loop in which it began. */
  iteration = 0
  readonly arrivedMs: number
  /** How long the task has taken, not counting the time that it waited. */
  spentMs = 0
  readonly #now: () => number
  readonly #asker: Asker | undefined
  readonly #newMemory: () => Memory
  /** Called when the turn is over. */
  readonly #wait: () => void
  #memory: Memory | undefined
  #beganMs: number
  #countedToMs: number
  #endMs: number
  #settle: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined

  constructor(now: () => number, ms: number, asker: Asker | undefined, newMemory: () => Memory, wait: () => void) {
    this.#now = now
    this.#asker = asker
    this.#newMemory = newMemory
    this.#wait = wait
    this.arrivedMs = now()
    this.#beganMs = this.#countedToMs = this.arrivedMs
    this.#endMs = this.arrivedMs + ms
  }

  get isOver(): boolean {
    return this.#now() >= this.#endMs
  }

  next(): Promise<void> {
    this.spentMs += this.#now() - this.#beganMs
    return new Promise((resolve, reject) => {
      this.#wait()
      this.#settle = { resolve, reject }
    })
  }

  hold(bytes: number): void {
    this.#memory ??= this.#asker?.memory ?? this.#newMemory()
    this.#memory.hold(bytes)
  }

  /** Releases the memory that the task held itself. */
  release(): void {
    if (!this.#asker?.memory) this.#memory?.release()
  }

  /** How long the task has taken since the last call; 0 after its first pause. */
  takeUncounted(): number {
    if (this.#settle) return 0
    const fromMs = this.#countedToMs
    this.#countedToMs = this.#now()
    return this.#countedToMs - fromMs
  }

  begin(ms: number): void {
    const { limit } = this.#asker ?? {}
    this.#beganMs = this.#now()
    this.#endMs = this.#beganMs + ms
    if (this.#asker?.isGone()) this.#settle?.reject(new Abandoned())
    else if (limit && this.spentMs >= limit.seconds * 1000) this.#settle?.reject(limit.refusal())
    else this.#settle?.resolve()
  }
}

/**
 * Calls a function with each element, and pauses in between. An element can be collected during the pause after it, whereas
 * a suspended async function keeps the last values of all its variables: 64 tasks with an item of 1 MiB each took 66 MiB.
 */
export async function visitEach<Element>(
  elements: Iterable<Element>,
  turn: Turn,
  visit: (element: Element) => void,
): Promise<void> {
  const iterator = elements[Symbol.iterator]()
  const step = (): boolean => {
    const next = iterator.next()
    if (!next.done) visit(next.value)
    return !next.done
  }
  try {
    do {
      if (turn.isOver) await turn.next()
    } while (step())
  } finally {
    iterator.return?.()
  }
}

/** How long background work rests after each step: the shortest timer, or as long as the step while requests wait. */
const REST_MS = 1
const BUSY_REST_MS = 4
/** The event loop is busy when other work takes more than this part of a rest. */
const BUSY = 0.25

/**
 * Between steps of background work, of about 4 ms each. Leaves half of the time to requests while there are any; otherwise
 * the work would take nine tenths of it.
 */
export async function rest(): Promise<void> {
  const before = performance.eventLoopUtilization()
  await sleep(REST_MS)
  if (performance.eventLoopUtilization(before).utilization > BUSY) await sleep(BUSY_REST_MS - REST_MS)
}

/** A turn that never ends, for a task that may block the event loop, and hold any memory. */
export const ENDLESS: Turn = { isOver: false, next: async () => {}, estimatedMs: 0, hold: () => {} }

export type Schedule = (work: () => void, delayMs: number) => { cancel(): void }

/** A semaphore with a queue. */
export class Semaphore {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}
