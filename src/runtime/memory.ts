import { getHeapStatistics } from 'node:v8'
import { Refusal } from './errors.ts'

/** The purposes for which memory is held, and what a client can do whose request would never fit. */
const ADVICE = {
  bodies: 'Send it in several requests.',
  queries: 'Ask with more filters, or for fewer groups.',
  responses: 'Ask for a smaller page.',
  past: 'Ask for a position that is closer to the present.',
  writes: 'Change fewer items in one write.',
  restores:
    'Restore one collection after the other, or one item. "recollect replay --to <position> --out <file>" writes a past state, of all collections.',
  edits: 'Nothing of the edit of the data file is merged. Divide it into several edits, or give Node more heap.',
  subscriptions: 'Subscribe with more filters.',
} as const

export type MemoryKind = keyof typeof ADVICE

export const MEMORY_KINDS = Object.keys(ADVICE) as readonly MemoryKind[]

/** Each holder may hold this much in any case, so that single items and `/health` are answered when the budget is used up. */
const FREE_BYTES = 32 * 1024

/** The share of V8's heap that is the budget by default. The rest is for the program, its caches, garbage and errors of the estimates. */
const SHARE = 1 / 3

/** The share of the budget for subscriptions, which clients keep as long as they want. */
const SUBSCRIPTIONS_SHARE = 1 / 2

/**
 * The memory that all requests together may make the process hold (`Limits.MemoryBytes`). Each part estimates what it
 * holds, from measured sizes of objects, and asks for it before it holds it.
 */
export class MemoryBudget {
  readonly bytes: number
  readonly #held = new Map<MemoryKind, number>()
  readonly #caches: (() => boolean)[] = []
  #total = 0

  /** @param bytes 0: a share of V8's heap */
  constructor(bytes = 0) {
    this.bytes = bytes || Math.floor(getHeapStatistics().heap_size_limit * SHARE)
  }

  /** The bytes held for one purpose. */
  held(kind: MemoryKind): number {
    return this.#held.get(kind) ?? 0
  }

  /** Adds a cache. `evict` drops a part of it, and returns false when nothing is left to drop. */
  addCache(evict: () => boolean): void {
    this.#caches.push(evict)
  }

  /**
   * Makes room for more bytes of a holder that has `held` ones.
   * @throws {OutOfMemory} `Unprocessable` if it could never hold them; `Unavailable` while others hold too much.
   */
  makeRoom(kind: MemoryKind, held: number, more: number): void {
    this.checkShare(kind, held, more)
    if (this.#total + more > this.bytes && !this.#evictFor(more)) throw inUse(kind, held + more)
  }

  /**
   * Checks only what is held for the same purpose, and not what is held for others for a moment.
   * @throws {OutOfMemory} as `makeRoom` does.
   */
  checkShare(kind: MemoryKind, held: number, more: number): void {
    const most = this.#mostOf(kind)
    if (held + more > most) throw this.#tooLarge(kind, held + more)
    if (this.held(kind) + more > most) throw inUse(kind, held + more)
  }

  /** The refusal of a part of a request whose other parts hold so many bytes: what does not fit beside them never will. */
  refusalBeside(refusal: OutOfMemory, bytes: number): OutOfMemory {
    const { kind } = refusal
    return refusal.bytes + bytes > this.#mostOf(kind) ? this.#tooLarge(kind, refusal.bytes + bytes) : refusal
  }

  #tooLarge(kind: MemoryKind, bytes: number): OutOfMemory {
    const why = `This does not fit into memory, of which ${this.#mostOf(kind)} bytes are for requests (Limits.MemoryBytes).`
    return new OutOfMemory('Unprocessable', `${why} ${ADVICE[kind]}`, kind, bytes)
  }

  /** The most bytes that may be held for one purpose. */
  #mostOf(kind: MemoryKind): number {
    return kind === 'subscriptions' ? this.bytes * SUBSCRIPTIONS_SHARE : this.bytes
  }

  count(kind: MemoryKind, bytes: number): void {
    this.#held.set(kind, this.held(kind) + bytes)
    this.#total += bytes
  }

  #evictFor(more: number): boolean {
    for (const evict of this.#caches) {
      while (this.#total + more > this.bytes && evict()) {}
    }
    return this.#total + more <= this.bytes
  }
}

/** For work that nobody may refuse, such as a start, or that holds nothing. */
export const UNLIMITED = new MemoryBudget(Number.POSITIVE_INFINITY)

/** The refusal of a request that holds too much memory, or for which others hold too much. */
export class OutOfMemory extends Refusal {
  readonly kind: MemoryKind
  /** The memory that the holder would have with what it asked for. */
  readonly bytes: number

  constructor(code: 'Unprocessable' | 'Unavailable', message: string, kind: MemoryKind, bytes: number) {
    super(code, message)
    this.kind = kind
    this.bytes = bytes
  }
}

/** Whether a request was refused that would not fit into memory even alone. */
export function wouldNeverFit(error: unknown): error is OutOfMemory {
  return error instanceof OutOfMemory && error.code === 'Unprocessable'
}

function inUse(kind: MemoryKind, bytes: number): OutOfMemory {
  return new OutOfMemory(
    'Unavailable',
    'The memory for requests (Limits.MemoryBytes) is in use; try again.',
    kind,
    bytes,
  )
}

/** The memory of a text in V8: ASCII takes a byte for each character, and most others two. */
export function textBytes(text: string): number {
  const isAscii = Buffer.byteLength(text) === text.length
  return 24 + (isAscii ? text.length : 2 * text.length)
}

/** The memory of an id besides the reference to it. */
export function idBytes(id: string | number | undefined): number {
  return typeof id === 'string' ? textBytes(id) : 16
}

/**
 * Holds the highest of several sums, one after the other. A suspended function keeps what its variables had last, so
 * memory is not free as soon as it is not needed any more.
 */
export class HighWaterMark {
  readonly #memory: { hold(bytes: number): void } | undefined
  #bytes: number

  /** @param bytes already held */
  constructor(memory: { hold(bytes: number): void } | undefined, bytes = 0) {
    this.#memory = memory
    this.#bytes = bytes
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @throws {OutOfMemory} as `Memory.hold` does. */
  reach(bytes: number): void {
    if (bytes <= this.#bytes) return
    this.#memory?.hold(bytes - this.#bytes)
    this.#bytes = bytes
  }
}

/** The memory that one request, task or cached state holds, until released. */
export class Memory {
  readonly #budget: MemoryBudget
  readonly #kind: MemoryKind
  readonly #beside: number
  #bytes = 0
  #isEnded = false

  /** @param beside the bytes that are held elsewhere as long as these: what does not fit beside them will never fit */
  constructor(budget: MemoryBudget, kind: MemoryKind, beside = 0) {
    this.#budget = budget
    this.#kind = kind
    this.#beside = beside
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @throws {OutOfMemory} as `MemoryBudget.makeRoom` does; then nothing more is held. */
  hold(bytes: number): void {
    if (this.#bytes + bytes > FREE_BYTES && !this.#isEnded)
      this.#budget.makeRoom(this.#kind, this.#beside + this.#bytes, bytes)
    this.count(bytes)
  }

  /**
   * Holds a little more of what is held for long, and of which there may be many.
   * @throws {OutOfMemory} as `MemoryBudget.checkShare` does; then nothing more is held.
   */
  grow(bytes: number): void {
    this.#budget.checkShare(this.#kind, this.#bytes, bytes)
    this.count(bytes)
  }

  /** Holds what cannot be refused any more, such as the response of a completed write. */
  count(bytes: number): void {
    if (this.#isEnded) return
    this.#bytes += bytes
    this.#budget.count(this.#kind, bytes)
  }

  release(): void {
    this.count(-this.#bytes)
  }

  /** Releases what is held. What its holder asks for later is not counted: it is about to end, too. */
  end(): void {
    this.release()
    this.#isEnded = true
  }
}
