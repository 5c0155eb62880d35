import type { ItemId } from '../events/event.ts'

const CHUNK = 4096
/** Stands for an id that is not known. */
const NONE = -1

/** Ids in order, some of which are not known yet. An integer of up to 31 bits takes four bytes. */
export class IdList implements Iterable<ItemId | undefined> {
  /** A typed array where all ids are small integers, else an array. */
  readonly #chunks: (Int32Array | (ItemId | undefined)[])[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  push(id: ItemId | undefined): void {
    if (this.#length % CHUNK === 0) this.#chunks.push(new Int32Array(CHUNK))
    this.set(this.#length++, id)
  }

  /** Replaces an id that is there. */
  set(index: number, id: ItemId | undefined): void {
    const number = Math.floor(index / CHUNK)
    let chunk = this.#chunks[number] as Int32Array | (ItemId | undefined)[]
    if (chunk instanceof Int32Array) {
      if (id === undefined || isSmall(id)) {
        chunk[index % CHUNK] = id ?? NONE
        return
      }
      chunk = Array.from(chunk, known)
      this.#chunks[number] = chunk
    }
    chunk[index % CHUNK] = id
  }

  at(index: number): ItemId | undefined {
    if (index >= this.#length) return undefined
    const chunk = this.#chunks[Math.floor(index / CHUNK)]
    const id = chunk?.[index % CHUNK]
    return chunk instanceof Int32Array ? known(id as number) : id
  }

  *[Symbol.iterator](): Generator<ItemId | undefined> {
    for (let index = 0; index < this.#length; index++) yield this.at(index)
  }
}

function isSmall(id: ItemId): id is number {
  return typeof id === 'number' && id >= 0 && (id | 0) === id
}

function known(id: number): number | undefined {
  return id === NONE ? undefined : id
}
