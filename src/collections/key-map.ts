/** Up to so many keys one map is enough. */
const FEW = 4096
/** A power of two. */
const PARTS = 256
/** Of the end of a key: all of most keys. */
const HASHED_CHARACTERS = 48

/**
 * Values by key, however many. A `Map` makes itself anew whenever it has doubled, which at a million keys holds everybody
 * for 200 ms, and it holds no more than 2 ** 24; so of many keys each map has a part.
 */
export class KeyMap<Value> {
  #parts: Map<string, Value>[] = [new Map()]
  #size = 0
  /** Of the parts that no copy has, too; undefined while there is no copy. */
  #own: Set<number> | undefined

  get size(): number {
    return this.#size
  }

  get(key: string): Value | undefined {
    return this.#parts[this.#indexOf(key)]?.get(key)
  }

  set(key: string, value: Value): void {
    const part = this.#toChange(key)
    const before = part.size
    part.set(key, value)
    this.#size += part.size - before
    if (this.#size > FEW && this.#parts.length === 1) this.#divide()
  }

  delete(key: string): boolean {
    if (!this.#parts[this.#indexOf(key)]?.has(key)) return false
    this.#size--
    return this.#toChange(key).delete(key)
  }

  /** In no particular order; what comes or goes meanwhile is seen or not. */
  *[Symbol.iterator](): Generator<[string, Value]> {
    for (const part of this.#parts) yield* part
  }

  /** Another with the same values; what changes in one is not seen in the other. What changes later is copied before, a part at a time. */
  copy(): KeyMap<Value> {
    const copy = new KeyMap<Value>()
    copy.#parts = this.#parts.slice()
    copy.#size = this.#size
    copy.#own = new Set()
    this.#own = new Set()
    return copy
  }

  #indexOf(key: string): number {
    return this.#parts.length === 1 ? 0 : hashOf(key)
  }

  /** The part of a key, which no copy has, too. */
  #toChange(key: string): Map<string, Value> {
    const at = this.#indexOf(key)
    const part = this.#parts[at] as Map<string, Value>
    if (!this.#own || this.#own.has(at)) return part
    const own = new Map(part)
    this.#parts[at] = own
    this.#own.add(at)
    return own
  }

  #divide(): void {
    const [all] = this.#parts
    this.#parts = Array.from({ length: PARTS }, () => new Map())
    this.#own = undefined
    for (const [key, value] of all ?? []) this.#parts[hashOf(key)]?.set(key, value)
  }
}

function hashOf(key: string): number {
  let hash = key.length
  for (let at = Math.max(0, key.length - HASHED_CHARACTERS); at < key.length; at++) {
    hash = (hash * 31 + key.charCodeAt(at)) | 0
  }
  return (hash ^ (hash >>> 8)) & (PARTS - 1)
}
