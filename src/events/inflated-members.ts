import type { Position } from './event.ts'

/** Bytes of cached text. */
const MOST_BYTES = 8 * 1024 * 1024

/** An LRU cache of inflated members of one journal, by the first position of their segment and their offset in its file. */
export class InflatedMembers {
  /** Least recently used first. */
  readonly #texts = new Map<string, Buffer>()
  #bytes = 0

  get(first: Position, offset: number): Buffer | undefined {
    const key = `${first}:${offset}`
    const text = this.#texts.get(key)
    if (!text) return undefined
    this.#texts.delete(key)
    this.#texts.set(key, text)
    return text
  }

  /** A text longer than the cache is not cached. */
  set(first: Position, offset: number, text: Buffer): void {
    const key = `${first}:${offset}`
    if (text.length > MOST_BYTES || this.#texts.has(key)) return
    this.#texts.set(key, text)
    this.#bytes += text.length
    for (const [oldest, { length }] of this.#texts) {
      if (this.#bytes <= MOST_BYTES) return
      this.#texts.delete(oldest)
      this.#bytes -= length
    }
  }
}
