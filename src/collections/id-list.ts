import type { ItemId } from '../events/event.ts'
import { isIndex } from './place-map.ts'

const CHUNK = 4096
/** Stands for an unknown id. */
const NONE = -1

/** Consecutive integers. */
interface Run {
  readonly first: number
}

type Chunk = Run | Int32Array | (ItemId | undefined)[]

/** A list of ids, known or not. Integers of up to 31 bits take four bytes, and none if they are consecutive. */
export class IdList implements Iterable<ItemId | undefined> {
  readonly #chunks: Chunk[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  push(id: ItemId | undefined): void {
    if (this.#length % CHUNK === 0) this.#chunks.push(new Int32Array(CHUNK))
    this.set(this.#length++, id)
    if (this.#length % CHUNK === 0) this.#chunks.push(runOf(this.#chunks.pop() as Chunk))
  }

  set(index: number, id: ItemId | undefined): void {
    const number = Math.floor(index / CHUNK)
    let chunk = this.#chunks[number] as Chunk
    if ('first' in chunk) chunk = Int32Array.from({ length: CHUNK }, (_, at) => (chunk as Run).first + at)
    if (chunk instanceof Int32Array && !(id === undefined || isIndex(id))) chunk = Array.from(chunk, known)
    chunk[index % CHUNK] = chunk instanceof Int32Array ? ((id as number | undefined) ?? NONE) : id
    this.#chunks[number] = chunk
  }

  at(index: number): ItemId | undefined {
    const chunk = this.#chunks[Math.floor(index / CHUNK)]
    if (!chunk || index >= this.#length) return undefined
    if ('first' in chunk) return chunk.first + (index % CHUNK)
    return chunk instanceof Int32Array ? known(chunk[index % CHUNK] as number) : chunk[index % CHUNK]
  }

  *[Symbol.iterator](): Generator<ItemId | undefined> {
    for (let index = 0; index < this.#length; index++) yield this.at(index)
  }
}

function known(id: number): number | undefined {
  return id === NONE ? undefined : id
}

function runOf(chunk: Chunk): Chunk {
  if (!(chunk instanceof Int32Array)) return chunk
  const first = chunk[0] as number
  return first !== NONE && chunk.every((id, at) => id === first + at) ? { first } : chunk
}
