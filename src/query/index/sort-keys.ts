import { mergeSort } from '../../json/merge-sort.ts'
import { comparingKeys, type Sort, sortKeys } from '../../json/order.ts'
import type { JsonObject } from '../../json/value.ts'
import type { HighWaterMark } from '../../runtime/memory.ts'
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
export function comparingEntries(sort: readonly Sort[]): (a: SortEntry, b: SortEntry) => number {
  const compare = comparingKeys(sort)
  return (a, b) => compare(a.keys, b.keys) || a.place - b.place
}

/** Memory of an item besides its keys. */
const ENTRY_BYTES = 200
/** Highest memory for a part of the result; half as much again may be held before a sort. */
const MOST_BYTES = 16 * 1024 * 1024
/** Items held between two sorts besides those of the result. */
const MORE = 256

/** Keeps the first items in an order, limited by number and memory. */
export class FirstEntries {
  readonly #compare: (a: SortEntry, b: SortEntry) => number
  readonly #most: number
  readonly #turn: Turn
  readonly #mark: HighWaterMark
  #held: SortEntry[] = []
  #bytes = 0
  /** The last of the items kept by a sort that dropped others. */
  #last: SortEntry | undefined

  constructor(most: number, compare: (a: SortEntry, b: SortEntry) => number, mark: HighWaterMark, turn: Turn) {
    this.#most = most
    this.#turn = turn
    this.#mark = mark
    this.#compare = compare
  }

  /** Returns whether `sort` must be called before the next item. */
  add(one: SortEntry): boolean {
    if (this.#last && this.#compare(one, this.#last) > 0) return false
    this.#held.push(one)
    this.#bytes += bytesOfEntry(one)
    this.#mark.reach(this.#bytes)
    return this.#held.length >= 2 * this.#most + MORE || this.#bytes > 1.5 * MOST_BYTES
  }

  /** Drops the items that do not fit. Returns the others, in order. */
  async sort(): Promise<readonly SortEntry[]> {
    const sorted = await mergeSort(this.#held, this.#turn, this.#compare)
    let size = 0
    this.#bytes = 0
    while (size < Math.min(this.#most, sorted.length) && (size === 0 || this.#bytes <= MOST_BYTES)) {
      this.#bytes += bytesOfEntry(sorted[size++] as SortEntry)
    }
    this.#held = sorted.slice(0, size)
    if (size < sorted.length) this.#last = sorted[size - 1]
    return this.#held
  }
}

/** The memory of an entry: V8 keeps an order key as bytes. */
export function bytesOfEntry({ keys }: SortEntry): number {
  let bytes = ENTRY_BYTES
  for (const key of keys) bytes += key.length
  return bytes
}
