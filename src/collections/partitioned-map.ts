/** Up to this number of keys one map suffices. */
const FEW = 4096
/** A power of two. */
const PARTS = 256
/** Characters at the end of a key that are hashed: all of most keys. */
const HASHED_CHARACTERS = 48

/**
 * A hash map without size limit, divided into parts. A single `Map` blocks the event loop for 200 ms when it rehashes a
 * million keys, and holds no more than 2 ** 24.
 */
export class PartitionedMap<Value> {
  #parts: Map<string, Value>[] = [new Map()]
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: string): Value | undefined {
    return this.#parts[this.#indexOf(key)]?.get(key)
  }

  set(key: string, value: Value): void {
    const part = this.#parts[this.#indexOf(key)] as Map<string, Value>
    const before = part.size
    part.set(key, value)
    this.#size += part.size - before
    if (this.#size > FEW && this.#parts.length === 1) this.#divide()
  }

  #indexOf(key: string): number {
    return this.#parts.length === 1 ? 0 : hashOf(key)
  }

  #divide(): void {
    const [all] = this.#parts
    this.#parts = Array.from({ length: PARTS }, () => new Map())
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
