import type { MemberTable } from './members.ts'

/** An LRU cache of inflated members, for the readers of one journal. */
export class InflatedMembers {
  readonly #most: number
  /** Least recently used first. */
  readonly #texts = new Map<string, Buffer>()
  readonly #numbers = new WeakMap<MemberTable, number>()
  #next = 0
  #bytes = 0

  /** @param most The size of the cache in bytes of text. */
  constructor(most = 8 * 1024 * 1024) {
    this.#most = most
  }

  get bytes(): number {
    return this.#bytes
  }

  get(segment: MemberTable, offset: number): Buffer | undefined {
    const key = this.#key(segment, offset)
    const text = this.#texts.get(key)
    if (!text) return undefined
    this.#texts.delete(key)
    this.#texts.set(key, text)
    return text
  }

  /** A text longer than the cache is not cached. */
  set(segment: MemberTable, offset: number, text: Buffer): void {
    const key = this.#key(segment, offset)
    if (text.length > this.#most || this.#texts.has(key)) return
    this.#texts.set(key, text)
    this.#bytes += text.length
    for (const [oldest, { length }] of this.#texts) {
      if (this.#bytes <= this.#most) return
      this.#texts.delete(oldest)
      this.#bytes -= length
    }
  }

  #key(segment: MemberTable, offset: number): string {
    let number = this.#numbers.get(segment)
    if (number === undefined) {
      number = this.#next++
      this.#numbers.set(segment, number)
    }
    return `${number}:${offset}`
  }
}
