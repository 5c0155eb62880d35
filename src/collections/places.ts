/** Of many things few chunks, so that the way to them stays in the processor's caches. */
const BITS = 13
const CHUNK = 1 << BITS
const MASK = CHUNK - 1

/** Places are held in 32 bits wherever many of them are. */
export const PLACES = 2 ** 32 - 1

/**
 * Things in the order in which they came, each at a place that it keeps: a number greater than those of all before
 * it. What goes leaves a gap. The nth of those still there is found without passing the others, and a stretch of
 * places of which nothing is left costs nothing.
 */
export class Places<Thing> {
  #chunks: (Chunk<Thing> | undefined)[] = []
  /** How many things stand before each chunk, right up to `#counted` chunks. */
  #before: number[] = []
  #counted = 0
  #next = 0
  /** One more with each snapshot: a chunk of an earlier edition is a snapshot's, too. */
  #edition = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The place that the next thing gets. */
  get next(): number {
    return this.#next
  }

  add(thing: Thing): number {
    const place = this.#next++
    const chunk = this.#toChange(place >>> BITS)
    // Those in between came and went with a chunk that was let go.
    while (chunk.things.length < (place & MASK)) chunk.things.push(undefined)
    chunk.things.push(thing)
    chunk.size++
    this.#size++
    this.#recount(place >>> BITS)
    return place
  }

  get(place: number): Thing | undefined {
    return this.#chunks[place >>> BITS]?.things[place & MASK]
  }

  /** Another thing at a place that has one. */
  replace(place: number, thing: Thing): void {
    this.#toChange(place >>> BITS).things[place & MASK] = thing
  }

  remove(place: number): void {
    if (this.get(place) === undefined) return
    const chunk = this.#toChange(place >>> BITS)
    chunk.things[place & MASK] = undefined
    this.#size--
    if (--chunk.size === 0) this.#chunks[place >>> BITS] = undefined
    this.#recount(place >>> BITS)
  }

  /** The things from the nth on, the first being 0, at most so many. */
  slice(offset: number, size: number): Thing[] {
    const found: Thing[] = []
    if (offset >= this.#size || size <= 0) return found
    let at = this.#chunkOf(offset)
    let toPass = offset - (this.#before[at] as number)
    for (; at < this.#chunks.length && found.length < size; at++) {
      const chunk = this.#chunks[at]
      if (!chunk) continue
      // Without a gap the nth is where it stands.
      let index = chunk.size === chunk.things.length ? toPass : 0
      if (index > 0) toPass = 0
      for (; index < chunk.things.length && found.length < size; index++) {
        const thing = chunk.things[index]
        if (thing === undefined) continue
        if (toPass > 0) toPass--
        else found.push(thing)
      }
    }
    return found
  }

  /** In order; what is added or removed meanwhile is seen or not seen as it then is. */
  *values(): Generator<Thing> {
    for (let at = 0; at < this.#chunks.length; at++) {
      const things = this.#chunks[at]?.things
      if (!things) continue
      for (let index = 0; index < things.length; index++) {
        const thing = things[index]
        if (thing !== undefined) yield thing
      }
    }
  }

  /**
   * The things as they are now, in order, whatever comes later. It costs next to nothing: what changes later
   * is copied before, a chunk at a time.
   */
  snapshot(): Iterable<Thing> {
    this.#edition++
    const chunks = this.#chunks.slice()
    return {
      *[Symbol.iterator]() {
        for (const chunk of chunks) {
          if (!chunk) continue
          for (const thing of chunk.things) if (thing !== undefined) yield thing
        }
      },
    }
  }

  /** The first place from here on that has a thing; `next` when there is none. */
  seek(place: number): number {
    for (let at = place; at < this.#next; ) {
      const things = this.#chunks[at >>> BITS]?.things
      if (!things) at = ((at >>> BITS) + 1) * CHUNK
      else if (things[at & MASK] !== undefined) return at
      else at++
    }
    return this.#next
  }

  /** The same things at the same places; what changes in one is not seen in the other. It costs no more than a snapshot. */
  copy(): Places<Thing> {
    const copy = new Places<Thing>()
    this.#edition++
    copy.#edition = this.#edition
    copy.#chunks = this.#chunks.slice()
    copy.#before = this.#before.slice()
    copy.#counted = this.#counted
    copy.#next = this.#next
    copy.#size = this.#size
    return copy
  }

  /** A chunk that no snapshot sees, made when there is none. */
  #toChange(at: number): Chunk<Thing> {
    const chunk = this.#chunks[at]
    if (chunk?.edition === this.#edition) return chunk
    const changeable = { things: chunk?.things.slice() ?? [], size: chunk?.size ?? 0, edition: this.#edition }
    this.#chunks[at] = changeable
    return changeable
  }

  #recount(chunk: number): void {
    if (this.#counted > chunk + 1) this.#counted = chunk + 1
  }

  #chunkOf(offset: number): number {
    for (; this.#counted < this.#chunks.length; this.#counted++) {
      const last = this.#counted - 1
      this.#before[this.#counted] = last < 0 ? 0 : (this.#before[last] as number) + (this.#chunks[last]?.size ?? 0)
    }
    let low = 0
    let high = this.#chunks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if ((this.#before[middle] as number) <= offset) low = middle
      else high = middle - 1
    }
    return low
  }
}

interface Chunk<Thing> {
  readonly things: (Thing | undefined)[]
  size: number
  readonly edition: number
}
