import type { Position } from './event.ts'

/** An LRU cache of inflated members of one journal, by the first position of their segment and their offset in its file. */
export class InflatedMembers {
  readonly #most: number
  /** Least recently used first. */
  readonly #texts = new Map<string, Buffer>()
  #bytes = 0

  /** @param most The size of the cache in bytes of text. */
  constructor(most = 8 * 1024 * 1024) {
    this.#most = most
  }

  get bytes(): number {
    return this.#bytes
  }

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
    if (text.length > this.#most || this.#texts.has(key)) return
    this.#texts.set(key, text)
    this.#bytes += text.length
    for (const [oldest, { length }] of this.#texts) {
      if (this.#bytes <= this.#most) return
      this.#texts.delete(oldest)
      this.#bytes -= length
    }
  }
}
