import { comparingKeys, type Sort, sortKeys } from '../../json/order.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Turn } from '../../runtime/turns.ts'

/** Highest number of units of an order key that are compared. An order key is about as long as the JSON. */
const MOST_UNITS = 65_536

/** The sort keys and the place of an item. */
export interface SortEntry {
  readonly place: number
  /** For each sort, the order key of the first value at its path. */
  readonly keys: readonly string[]
}

export function sortEntryOf(item: JsonObject, place: number, sort: readonly Sort[]): SortEntry {
  return { place, keys: sortKeys(item, sort, MOST_UNITS) }
}

/** The order of results: by the sorts, items without a value last, then by place. */
export function comparing(sort: readonly Sort[]): (a: SortEntry, b: SortEntry) => number {
  const compare = comparingKeys(sort)
  return (a, b) => compare(a.keys, b.keys) || a.place - b.place
}

/** Memory of an item besides its keys, in units. */
const OVERHEAD = 100
/** Highest memory for a part of the result, in units. */
const MOST_HELD = 16 * 1024 * 1024
/** Items taken between two looks at the turn. */
const STEP = 256

/** Keeps the first items in an order, limited by number and memory: a heap with the last of them as its root. */
export class Firsts {
  readonly #compare: (a: SortEntry, b: SortEntry) => number
  readonly #most: number
  readonly #heap: SortEntry[] = []
  #units = 0
  /** Whether some items did not fit. */
  #isCut = false

  constructor(most: number, compare: (a: SortEntry, b: SortEntry) => number) {
    this.#most = most
    this.#compare = compare
  }

  add(one: SortEntry): void {
    const heap = this.#heap
    if (this.#isCut && this.#compare(one, heap[0] as SortEntry) > 0) return
    heap.push(one)
    this.#units += unitsOf(one)
    this.#up(heap.length - 1)
    while (heap.length > this.#most || (this.#units > MOST_HELD && heap.length > 1)) {
      this.#pop()
      this.#isCut = true
    }
  }

  /** Removes and returns all, in order. */
  async take(turn: Turn): Promise<SortEntry[]> {
    const found = new Array<SortEntry>(this.#heap.length)
    for (let index = found.length - 1; index >= 0; index--) {
      found[index] = this.#pop()
      if (index % STEP === 0 && turn.isOver) await turn.next()
    }
    return found
  }

  #pop(): SortEntry {
    const heap = this.#heap
    const top = heap[0] as SortEntry
    const last = heap.pop() as SortEntry
    this.#units -= unitsOf(top)
    if (heap.length > 0) {
      heap[0] = last
      this.#down()
    }
    return top
  }

  #up(index: number): void {
    const heap = this.#heap
    for (let at = index; at > 0; ) {
      const parent = (at - 1) >> 1
      if (this.#compare(heap[at] as SortEntry, heap[parent] as SortEntry) <= 0) return
      this.#swap(at, parent)
      at = parent
    }
  }

  #down(): void {
    const heap = this.#heap
    for (let at = 0; ; ) {
      let highest = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && this.#compare(heap[child] as SortEntry, heap[highest] as SortEntry) > 0)
          highest = child
      }
      if (highest === at) return
      this.#swap(at, highest)
      at = highest
    }
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap
    const one = heap[a] as SortEntry
    heap[a] = heap[b] as SortEntry
    heap[b] = one
  }
}

function unitsOf({ keys }: SortEntry): number {
  let units = OVERHEAD
  for (const key of keys) units += key.length
  return units
}
