/** The common part of arrays and ChunkedList. */
export interface List<Thing> extends Iterable<Thing> {
  readonly length: number
  /** Negative indexes count from the end. */
  at(index: number): Thing | undefined
  /** The elements from `from` to before `to`. */
  slice(from: number, to?: number): readonly Thing[]
}

/** A list whose elements may be computed on access. */
export abstract class IndexedList<Thing> implements List<Thing> {
  abstract readonly length: number
  abstract at(index: number): Thing | undefined

  slice(from: number, to = this.length): readonly Thing[] {
    const things: Thing[] = []
    for (let index = from; index < Math.min(to, this.length); index++) things.push(this.at(index) as Thing)
    return things
  }

  *[Symbol.iterator](): IterableIterator<Thing> {
    for (let index = 0; index < this.length; index++) yield this.at(index) as Thing
  }
}

const CHUNK_LENGTH = 4096

/**
 * A list in chunks for very many elements. An array of a million is allocated in one piece, and copied when it grows:
 * each blocks the event loop for 25 ms.
 */
export class ChunkedList<Thing> extends IndexedList<Thing> {
  readonly #chunks: Thing[][] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  push(thing: Thing): void {
    if (this.#length++ % CHUNK_LENGTH === 0) this.#chunks.push([thing])
    else this.#chunks.at(-1)?.push(thing)
  }

  at(index: number): Thing | undefined {
    const offset = index < 0 ? this.#length + index : index
    return this.#chunks[Math.floor(offset / CHUNK_LENGTH)]?.[offset % CHUNK_LENGTH]
  }

  /** Each write is iterated a dozen times, and few have several chunks: arrays are iterated much faster. */
  override [Symbol.iterator](): IterableIterator<Thing> {
    const [first = []] = this.#chunks
    return this.#chunks.length > 1 ? super[Symbol.iterator]() : first.values()
  }
}

/** The index of the first of some ascending numbers that is not less than `number`; their count if all are less. */
export function lowerBound(numbers: readonly number[], number: number): number {
  // Invariant: the numbers before `low` are less, and those from `high` on are not.
  let low = 0
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((numbers[middle] as number) < number) low = middle + 1
    else high = middle
  }
  return low
}
