import type { Steps } from '../../../slices.ts'

/** Of many places few chunks, so that the way to them stays in the processor's caches. */
const CAPACITY = 8192
/** So full is a chunk at first; the rest is room for what comes in between. */
const FILLED = 6144
/** What a chunk of few has room for at first. */
const SMALLEST = 1024

interface Chunk {
  places: Uint32Array
  size: number
}

/**
 * Places in an order that somebody else knows, each found by its rank and each rank by the place: a list in pieces of
 * bounded length. The maintained npm packages for this either know no ranks (sorted-btree) or make an object of a
 * hundred bytes for each entry (data-structure-typed, js-sdsl); here an entry is four bytes.
 */
export class Ranking {
  /** Negative when the first place comes before the second; never 0 for two. */
  readonly #compare: (a: number, b: number) => number
  #chunks: Chunk[] = []
  /** How many places stand before each chunk, right up to `#counted` chunks. */
  #before: number[] = []
  #counted = 0
  #size = 0

  constructor(compare: (a: number, b: number) => number) {
    this.#compare = compare
  }

  get size(): number {
    return this.#size
  }

  get bytes(): number {
    return this.#chunks.reduce((sum, { places }) => sum + places.byteLength + 100, 0)
  }

  /** Holds these from now on; they are in order. */
  *fill(sorted: Uint32Array): Steps<void> {
    this.#chunks = []
    for (let start = 0; start < sorted.length; start += FILLED) {
      yield
      const part = sorted.subarray(start, start + FILLED)
      const places = new Uint32Array(roomFor(part.length))
      places.set(part)
      this.#chunks.push({ places, size: part.length })
    }
    this.#size = sorted.length
    this.#counted = 0
  }

  /** Returns its rank. */
  insert(place: number): number {
    const rank = this.rankBy((other) => this.#compare(other, place) < 0)
    let at = Math.max(0, this.#chunkOf(rank))
    let chunk = this.#chunks[at]
    // At the border of two chunks it goes to the end of the first, if that has room.
    if (chunk && at > 0 && rank === this.#before[at] && (this.#chunks[at - 1] as Chunk).size < CAPACITY) {
      chunk = this.#chunks[--at]
    }
    if (!chunk) {
      chunk = { places: new Uint32Array(SMALLEST), size: 0 }
      this.#chunks.push(chunk)
    }
    let index = rank - (this.#before[at] ?? 0)
    if (chunk.size === CAPACITY) {
      // What grows at its end only stays full.
      const isEnd = at === this.#chunks.length - 1 && index === CAPACITY
      const kept = isEnd ? CAPACITY : CAPACITY / 2
      const next: Chunk = { places: new Uint32Array(CAPACITY), size: CAPACITY - kept }
      next.places.set(chunk.places.subarray(kept))
      chunk.size = kept
      this.#chunks.splice(at + 1, 0, next)
      this.#recount(at)
      if (index > kept || isEnd) {
        index -= kept
        at++
        chunk = next
      }
    }
    if (chunk.size === chunk.places.length) grow(chunk, chunk.size + 1)
    chunk.places.copyWithin(index + 1, index, chunk.size)
    chunk.places[index] = place
    chunk.size++
    this.#size++
    this.#recount(at)
    return rank
  }

  /** A place that it holds, its order unchanged since. Returns the rank that it had. */
  remove(place: number): number {
    const rank = this.rankOf(place)
    const at = this.#chunkOf(rank)
    const chunk = this.#chunks[at] as Chunk
    const index = rank - (this.#before[at] as number)
    if (chunk.places[index] !== place) throw new Error(`place ${place} is not where it belongs in an index`)
    chunk.places.copyWithin(index, index + 1, chunk.size)
    chunk.size--
    this.#size--
    this.#recount(at)
    const next = this.#chunks[at + 1]
    if (chunk.size === 0) this.#chunks.splice(at, 1)
    else if (next && chunk.size + next.size < CAPACITY / 2) {
      grow(chunk, chunk.size + next.size)
      chunk.places.set(next.places.subarray(0, next.size), chunk.size)
      chunk.size += next.size
      this.#chunks.splice(at + 1, 1)
    }
    return rank
  }

  rankOf(place: number): number {
    return this.rankBy((other) => this.#compare(other, place) < 0)
  }

  at(rank: number): number {
    const at = this.#chunkOf(rank)
    return (this.#chunks[at] as Chunk).places[rank - (this.#before[at] as number)] as number
  }

  /** How many come first of which it holds; once it does not, it holds for none that follow. */
  rankBy(holds: (place: number) => boolean): number {
    let low = 0
    let high = this.#chunks.length
    // The last chunk whose first place holds.
    while (low < high) {
      const middle = (low + high) >>> 1
      if (holds((this.#chunks[middle] as Chunk).places[0] as number)) low = middle + 1
      else high = middle
    }
    if (low === 0) return 0
    const at = low - 1
    const { places, size } = this.#chunks[at] as Chunk
    low = 1
    high = size
    while (low < high) {
      const middle = (low + high) >>> 1
      if (holds(places[middle] as number)) low = middle + 1
      else high = middle
    }
    this.#count()
    return (this.#before[at] as number) + low
  }

  /** The places of the ranks from `from` up to, not including, `to`, put one after the other. */
  copy(from: number, to: number, target: Uint32Array, offset = 0): void {
    if (to <= from) return
    let at = this.#chunkOf(from)
    let index = from - (this.#before[at] as number)
    for (let done = 0; done < to - from; at++) {
      const { places, size } = this.#chunks[at] as Chunk
      const part = places.subarray(index, Math.min(size, index + to - from - done))
      target.set(part, offset + done)
      done += part.length
      index = 0
    }
  }

  /** The same in a list, which for a page costs less: an array of numbers has its memory elsewhere. */
  list(from: number, to: number, found: number[] = []): number[] {
    if (to <= from) return found
    let at = this.#chunkOf(from)
    let index = from - (this.#before[at] as number)
    for (let left = to - from; left > 0; at++) {
      const { places, size } = this.#chunks[at] as Chunk
      for (; index < size && left > 0; index++, left--) found.push(places[index] as number)
      index = 0
    }
    return found
  }

  slice(from: number, to: number): Uint32Array {
    const places = new Uint32Array(Math.max(0, to - from))
    this.copy(from, to, places)
    return places
  }

  #recount(chunk: number): void {
    if (this.#counted > chunk + 1) this.#counted = chunk + 1
  }

  #count(): void {
    for (; this.#counted < this.#chunks.length; this.#counted++) {
      const last = this.#counted - 1
      this.#before[this.#counted] = last < 0 ? 0 : (this.#before[last] as number) + (this.#chunks[last] as Chunk).size
    }
  }

  /** The chunk that has the rank; for one after all, the last; -1 where there is none. */
  #chunkOf(rank: number): number {
    this.#count()
    let low = 0
    let high = this.#chunks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if ((this.#before[middle] as number) <= rank) low = middle
      else high = middle - 1
    }
    return high < 0 ? -1 : low
  }
}

function roomFor(count: number): number {
  let room = SMALLEST
  while (room < count) room *= 2
  return room
}

/** Gives a chunk room for so many, if it has not. */
function grow(chunk: Chunk, count: number): void {
  if (count <= chunk.places.length) return
  const { places } = chunk
  chunk.places = new Uint32Array(roomFor(count))
  chunk.places.set(places)
}
