import type { Key } from './entries.ts'
import { compareKeys, type Entry, isNumeric, SECTIONS } from './entries.ts'

/** Of many entries few chunks, so that the way to them stays in the processor's caches. */
const BITS = 13
const CHUNK = 1 << BITS
const MASK = CHUNK - 1
/** Units of a long key, */
const LONG = 10_000
/** of which so many take no time. */
const FEW = 16
/** What a chunk has room for at first. */
const SMALLEST = 1024

interface Chunk {
  /** By place; 0 where there is nothing. */
  sections: Uint8Array
  numbers: Float64Array | undefined
  others: (Key | undefined)[] | undefined
  size: number
}

/** The entry of each place: 9 bytes for a number; for text as much, and the text where no other place has it. */
export class Column {
  readonly #chunks: (Chunk | undefined)[] = []
  /** How many of each section. */
  readonly counts = new Array<number>(SECTIONS).fill(0)
  #bytes = 0
  #longKeys = 0

  /** To compare two of its keys may often take as much as to compare thousands of others. */
  get hasLongKeys(): boolean {
    return this.#longKeys > FEW
  }

  /** Those of the texts not included. */
  get bytes(): number {
    return this.#bytes
  }

  /** Above all places that have an entry. */
  get places(): number {
    return this.#chunks.length * CHUNK
  }

  set(place: number, { section, key }: Entry): void {
    const index = place & MASK
    const chunk = this.#chunks[place >>> BITS] ?? this.#newChunk(place >>> BITS)
    if (index >= chunk.sections.length) this.#grow(chunk, index)
    else this.#forget(chunk, index)
    chunk.sections[index] = section
    chunk.size++
    this.counts[section] = (this.counts[section] as number) + 1
    if (isNumeric(section)) {
      if (!chunk.numbers) {
        // A chunk in which all keys are 0 needs none.
        if (key === 0) return
        chunk.numbers = new Float64Array(chunk.sections.length)
        this.#bytes += chunk.numbers.byteLength
      }
      chunk.numbers[index] = key as number
    } else {
      if (!chunk.others) {
        chunk.others = new Array<Key | undefined>(chunk.sections.length).fill(undefined)
        this.#bytes += chunk.others.length * 8
      }
      chunk.others[index] = key
      if (typeof key === 'string' && key.length > LONG) this.#longKeys++
    }
  }

  remove(place: number): void {
    const chunk = this.#chunks[place >>> BITS]
    if (!chunk) return
    this.#forget(chunk, place & MASK)
    if (chunk.size > 0) return
    this.#bytes -= bytesOf(chunk)
    this.#chunks[place >>> BITS] = undefined
  }

  /** 0 where there is nothing. */
  section(place: number): number {
    return this.#chunks[place >>> BITS]?.sections[place & MASK] ?? 0
  }

  key(place: number): Key {
    const chunk = this.#chunks[place >>> BITS]
    const index = place & MASK
    if (!chunk) return 0
    return isNumeric(chunk.sections[index] as number) ? (chunk.numbers?.[index] ?? 0) : (chunk.others?.[index] as Key)
  }

  /** The key of a place in a section of numbers. */
  number(place: number): number {
    return this.#chunks[place >>> BITS]?.numbers?.[place & MASK] ?? 0
  }

  /** How the key of a place lies to a key of its section. */
  compare(place: number, section: number, key: Key): number {
    return isNumeric(section) ? this.number(place) - (key as number) : compareKeys(section, this.key(place), key)
  }

  /** How the keys of two places of one section lie. */
  compareAt(section: number, a: number, b: number): number {
    return isNumeric(section) ? this.number(a) - this.number(b) : compareKeys(section, this.key(a), this.key(b))
  }

  #newChunk(at: number): Chunk {
    const chunk: Chunk = { sections: new Uint8Array(SMALLEST), numbers: undefined, others: undefined, size: 0 }
    while (this.#chunks.length < at) this.#chunks.push(undefined)
    this.#chunks[at] = chunk
    this.#bytes += bytesOf(chunk)
    return chunk
  }

  /** Gives a chunk room for an index. */
  #grow(chunk: Chunk, index: number): void {
    let size = chunk.sections.length
    while (size <= index) size *= 2
    this.#bytes -= bytesOf(chunk)
    const { sections, numbers, others } = chunk
    chunk.sections = new Uint8Array(size)
    chunk.sections.set(sections)
    if (numbers) {
      chunk.numbers = new Float64Array(size)
      chunk.numbers.set(numbers)
    }
    if (others) while (others.length < size) others.push(undefined)
    this.#bytes += bytesOf(chunk)
  }

  #forget(chunk: Chunk, index: number): void {
    const section = chunk.sections[index] as number
    if (section === 0) return
    this.counts[section] = (this.counts[section] as number) - 1
    chunk.sections[index] = 0
    chunk.size--
    if (chunk.numbers) chunk.numbers[index] = 0
    if (chunk.others) chunk.others[index] = undefined
  }
}

function bytesOf({ sections, numbers, others }: Chunk): number {
  return sections.length * (1 + (numbers ? 8 : 0) + (others ? 8 : 0))
}
