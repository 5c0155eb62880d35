import { LRUCache } from 'lru-cache'
import type { Position } from './event.ts'

/** Bytes of cached text. */
const MOST_BYTES = 8 * 1024 * 1024

/** An LRU cache of inflated members of one journal, by the first position of their segment and their offset in its file. */
export class InflatedMembers {
  readonly #texts = new LRUCache<string, Buffer>({ maxSize: MOST_BYTES, sizeCalculation: ({ length }) => length })

  get(first: Position, offset: number): Buffer | undefined {
    return this.#texts.get(`${first}:${offset}`)
  }

  /** A text longer than the cache is not cached. */
  set(first: Position, offset: number, text: Buffer): void {
    this.#texts.set(`${first}:${offset}`, text)
  }
}
