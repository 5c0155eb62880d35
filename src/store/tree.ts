import type { Steps } from '../runtime/steps.ts'
import { HIGHEST, POSITION_BYTES } from './bytes.ts'
import {
  childAt,
  childCount,
  childFor,
  childNode,
  entryAt,
  isEntry,
  levelOf,
  lowerBound,
  placeAt,
  sizeOf,
} from './node.ts'

/** The number of every tree's root. */
export const ROOT = 0

/** An ordered set of keys that is read like a tree. */
export interface OrderedKeys {
  /** Number of keys below `key`. */
  rank(key: Buffer): Steps<number>
  /** A cursor at the key with this rank; past the end if there is none. */
  nth(rank: number): Steps<KeyCursor>
  /** A cursor at the first key that is not below `key`. */
  from(key: Buffer): Steps<KeyCursor>
}

/** Iterates over keys in both directions. */
export interface KeyCursor {
  /** Undefined before the first key and after the last. */
  readonly key: Buffer | undefined
  /** The place at the end of the key. */
  readonly place: number
  /** Whether this key and another have the same tuple. */
  hasTupleOf(key: Buffer): boolean
  next(): void
  previous(): void
}

/** A key without its place. */
export function tupleOf(key: Buffer): Buffer {
  return key.subarray(0, key.length - POSITION_BYTES)
}

interface Level {
  readonly node: Buffer
  index: number
}

/**
 * A B+-tree of keys that end with a place (6 bytes), with counts: the rank of a key and the key of a rank are found on
 * one path from the root. Reads the tree as of one position. With `below`, keys at this place or a higher one are skipped,
 * as their items were created later; nodes with places on both sides are then counted in steps, once for each object.
 */
export class Tree implements OrderedKeys {
  readonly #nodeOf: (number: number) => Buffer
  readonly #below: number
  /** With `below`: the prefix sums of inner nodes, by number. */
  readonly #sums = new Map<number, Float64Array>()

  /** `nodeOf` returns the bytes of a node, which must not change. */
  constructor(nodeOf: (number: number) => Buffer, below: number = HIGHEST) {
    this.#nodeOf = nodeOf
    this.#below = below
  }

  *rank(key: Buffer): Steps<number> {
    let number = ROOT
    let node = this.#nodeOf(number)
    let rank = 0
    while (levelOf(node) > 0) {
      const to = childFor(node, key)
      rank += (yield* this.#sumsAt(number, node))[to] as number
      number = childNode(node, to)
      node = this.#nodeOf(number)
    }
    return rank + this.#countIn(node, lowerBound(node, key))
  }

  *nth(rank: number): Steps<Cursor> {
    const levels: Level[] = []
    let left = rank
    let number = ROOT
    let node = this.#nodeOf(number)
    while (levelOf(node) > 0) {
      const size = sizeOf(node)
      const sums = yield* this.#sumsAt(number, node)
      let index = childWith(sums, left)
      left -= sums[index] as number
      // Past the end: descend to the end of the last child.
      if (index === size) left = Number.POSITIVE_INFINITY
      index = Math.min(index, size - 1)
      levels.push({ node, index })
      number = childNode(node, index)
      node = this.#nodeOf(number)
    }
    const size = sizeOf(node)
    let index = 0
    if (this.#below === HIGHEST) index = Math.min(left, size)
    else for (; index < size; index++) if (placeAt(node, index) < this.#below && left-- <= 0) break
    levels.push({ node, index })
    return new Cursor(this.#nodeOf, this.#below, levels)
  }

  *from(key: Buffer): Steps<Cursor> {
    if (this.#below !== HIGHEST) return yield* this.nth(yield* this.rank(key))
    const levels: Level[] = []
    let node = this.#nodeOf(ROOT)
    while (levelOf(node) > 0) {
      const index = childFor(node, key)
      levels.push({ node, index })
      node = this.#nodeOf(childNode(node, index))
    }
    const index = lowerBound(node, key)
    levels.push({ node, index: Math.max(0, index - 1) })
    const cursor = new Cursor(this.#nodeOf, this.#below, levels)
    if (index > 0) cursor.next()
    return cursor
  }

  /** Prefix sums of an inner node: element n is the number of keys in its first n children. */
  *#sumsAt(number: number, node: Buffer): Steps<Float64Array> {
    if (this.#below === HIGHEST) return sumsOf(node)
    const known = this.#sums.get(number)
    if (known) return known
    const size = sizeOf(node)
    const made = new Float64Array(size + 1)
    for (let index = 0; index < size; index++) {
      made[index + 1] = (made[index] as number) + (yield* this.#countAt(node, index))
    }
    this.#sums.set(number, made)
    return made
  }

  *#countAt(node: Buffer, index: number): Steps<number> {
    const { count, low, high, node: number } = childAt(node, index)
    if (high < this.#below) return count
    if (low >= this.#below) return 0
    yield
    const child = this.#nodeOf(number)
    const size = sizeOf(child)
    return levelOf(child) === 0 ? this.#countIn(child, size) : ((yield* this.#sumsAt(number, child))[size] as number)
  }

  /** Number of visible keys among the first `to` entries. */
  #countIn(leaf: Buffer, to: number): number {
    if (this.#below === HIGHEST) return to
    let count = 0
    for (let index = 0; index < to; index++) if (placeAt(leaf, index) < this.#below) count++
    return count
  }
}

/** Prefix sums without `below`, cached by node, since the bytes of a node never change. */
const sums = new WeakMap<Buffer, Float64Array>()

function sumsOf(node: Buffer): Float64Array {
  const known = sums.get(node)
  if (known) return known
  const size = sizeOf(node)
  const made = new Float64Array(size + 1)
  for (let index = 0; index < size; index++) made[index + 1] = (made[index] as number) + childCount(node, index)
  sums.set(node, made)
  return made
}

/** The child with the key of this rank; the number of children if there is none. */
function childWith(sums: Float64Array, rank: number): number {
  let low = 0
  let high = sums.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sums[middle + 1] as number) <= rank) low = middle + 1
    else high = middle
  }
  return low
}

export class Cursor implements KeyCursor {
  readonly #nodeOf: (number: number) => Buffer
  readonly #below: number
  readonly #levels: Level[]

  constructor(nodeOf: (number: number) => Buffer, below: number, levels: Level[]) {
    this.#nodeOf = nodeOf
    this.#below = below
    this.#levels = levels
  }

  /** The bytes do not change. Undefined before the first key and after the last. */
  get key(): Buffer | undefined {
    const { node, index } = this.#levels.at(-1) as Level
    return index >= 0 && index < sizeOf(node) ? entryAt(node, index) : undefined
  }

  /** The place at the end of the key. */
  get place(): number {
    const { node, index } = this.#levels.at(-1) as Level
    return placeAt(node, index)
  }

  hasTupleOf(key: Buffer): boolean {
    const { node, index } = this.#levels.at(-1) as Level
    return index >= 0 && index < sizeOf(node) && isEntry(node, index, key, POSITION_BYTES)
  }

  next(): void {
    this.#move(1)
  }

  previous(): void {
    this.#move(-1)
  }

  #move(by: 1 | -1): void {
    let leaf = this.#levels.at(-1) as Level
    do {
      leaf.index += by
      while (leaf.index < 0 || leaf.index >= sizeOf(leaf.node)) {
        if (!this.#turn(by)) {
          leaf.index = by > 0 ? sizeOf(leaf.node) : -1
          return
        }
        leaf = this.#levels.at(-1) as Level
        leaf.index += by
      }
    } while (placeAt(leaf.node, leaf.index) >= this.#below)
  }

  /**
   * Moves to just before the first key of the next leaf, or, backwards, just after the last one; false if there is
   * none.
   */
  #turn(by: 1 | -1): boolean {
    for (let depth = this.#levels.length - 2; depth >= 0; depth--) {
      const level = this.#levels[depth] as Level
      const at = this.#nextChild(level, by)
      if (at === undefined) continue
      level.index = at
      this.#levels.length = depth + 1
      let node = this.#nodeOf(childNode(level.node, at))
      while (levelOf(node) > 0) {
        const outside = { node, index: by > 0 ? -1 : sizeOf(node) }
        const index = this.#nextChild(outside, by) ?? (by > 0 ? 0 : sizeOf(node) - 1)
        this.#levels.push({ node, index })
        node = this.#nodeOf(childNode(node, index))
      }
      this.#levels.push({ node, index: by > 0 ? -1 : sizeOf(node) })
      return true
    }
    return false
  }

  /** The next child with visible places. */
  #nextChild({ node, index }: Level, by: 1 | -1): number | undefined {
    const size = sizeOf(node)
    for (let at = index + by; at >= 0 && at < size; at += by) {
      if (this.#below === HIGHEST || childAt(node, at).low < this.#below) return at
    }
    return undefined
  }
}
