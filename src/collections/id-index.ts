import type { ItemId } from '../events/event.ts'
import { integerOf } from './item.ts'

const PAGE = 1024
/** Integers are in pages while these have at most SPREAD places for each id, and SPARSE. */
const SPREAD = 4
const SPARSE = 1024

/** A power of two. */
const PARTS = 256
/** Characters at the end of a key that are hashed: all of most keys. */
const HASHED_CHARACTERS = 48

/**
 * A map from ids to numbers for any number of ids, where `1` and `"1"` are the same id. An integer takes four bytes. The
 * others are in many maps, because a `Map` of a million keys blocks the event loop for 200 ms when it grows.
 */
export class IdIndex {
  /** The numbers plus one; 0 if there is none. */
  readonly #pages = new Map<number, Uint32Array>()
  readonly #parts: Map<string, number>[] = []
  #inPages = 0

  get(id: ItemId): number | undefined {
    const integer = integerOf(id)
    const paged = integer === undefined ? 0 : (this.#pages.get(Math.floor(integer / PAGE))?.[integer % PAGE] ?? 0)
    if (paged > 0) return paged - 1
    return this.#parts.length > 0 ? this.#parts[partOf(String(id))]?.get(String(id)) : undefined
  }

  has(id: ItemId): boolean {
    return this.get(id) !== undefined
  }

  set(id: ItemId, number: number): void {
    const integer = integerOf(id)
    if (integer !== undefined && integer < SPREAD * (this.#inPages + SPARSE)) {
      const at = Math.floor(integer / PAGE)
      const page = this.#pages.get(at) ?? new Uint32Array(PAGE)
      if (page[integer % PAGE] === 0) this.#inPages++
      page[integer % PAGE] = number + 1
      this.#pages.set(at, page)
      return
    }
    const part = partOf(String(id))
    this.#parts[part] ??= new Map()
    this.#parts[part].set(String(id), number)
  }
}

function partOf(key: string): number {
  let hash = key.length
  for (let at = Math.max(0, key.length - HASHED_CHARACTERS); at < key.length; at++) {
    hash = (hash * 31 + key.charCodeAt(at)) | 0
  }
  return (hash ^ (hash >>> 8)) & (PARTS - 1)
}
