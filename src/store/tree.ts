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

/** An ordered set of keys. */
export interface OrderedKeys {
  /** Number of keys from `from` to before `to`. */
  count(from: Buffer, to: Buffer): Steps<number>
  /** A cursor at the first key that is not below `from`, or `skipped` keys after it; past the end if there is none. */
  seek(from: Buffer, skipped?: number): Steps<KeyCursor>
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
 * A B+-tree of keys that end with a place (6 bytes), with counts: the keys between two keys are counted on their paths
 * from the root. Reads the tree as of one position. With `below`, keys at this place or a higher one are skipped, as
 * their items were created later; nodes with places on both sides are then counted in steps, once for each object.
 */
export class Tree implements OrderedKeys {
  readonly #nodeOf: (number: number) => Buffer
  readonly #below: number
  /** With `below`: the counts of nodes with places on both sides, by number. */
  readonly #counts = new Map<number, number>()

  /** `nodeOf` returns the bytes of a node, which must not change. */
  constructor(nodeOf: (number: number) => Buffer, below: number = HIGHEST) {
    this.#nodeOf = nodeOf
    this.#below = below
  }

  *count(from: Buffer, to: Buffer): Steps<number> {
    return from.compare(to) < 0 ? yield* this.#countIn(this.#nodeOf(ROOT), from, to) : 0
  }

  *seek(from: Buffer, skipped = 0): Steps<Cursor> {
    const levels: Level[] = []
    // Applies as long as the path is that of `from`.
    let bound: Buffer | undefined = from
    let left = skipped
    let node = this.#nodeOf(ROOT)
    while (levelOf(node) > 0) {
      const size = sizeOf(node)
      let index = bound ? childFor(node, bound) : 0
      if (bound && left > 0) {
        const within = yield* this.#countIn(this.#nodeOf(childNode(node, index)), bound)
        if (left >= within) {
          left -= within
          bound = undefined
          index++
        }
      }
      if (!bound) {
        const child = yield* this.#childWith(node, index, left)
        left = child.left
        index = child.index
        // Past the end: descend to the end of the last child.
        if (index === size) left = Number.POSITIVE_INFINITY
        index = Math.min(index, size - 1)
      }
      levels.push({ node, index })
      node = this.#nodeOf(childNode(node, index))
    }
    const size = sizeOf(node)
    let index = bound ? lowerBound(node, bound) : 0
    if (this.#below === HIGHEST) index = Math.min(index + left, size)
    else for (; index < size; index++) if (placeAt(node, index) < this.#below && left-- <= 0) break
    levels.push({ node, index })
    const cursor = new Cursor(this.#nodeOf, this.#below, levels)
    // The next key is in another leaf.
    if (bound && index === size) cursor.next()
    return cursor
  }

  /** The child at or after `index` with the key after `left` others, of which some are left there; the number of children if there is none. */
  *#childWith(node: Buffer, index: number, left: number): Steps<{ readonly index: number; readonly left: number }> {
    if (this.#below === HIGHEST) {
      const sums = sumsOf(node)
      const rank = (sums[index] as number) + left
      const child = childWithRank(sums, rank)
      return { index: child, left: rank - (sums[child] as number) }
    }
    const size = sizeOf(node)
    if (left === Number.POSITIVE_INFINITY) return { index: size, left }
    let at = index
    let more = left
    for (; at < size; at++) {
      const count = yield* this.#countAt(node, at)
      if (more < count) break
      more -= count
    }
    return { index: at, left: more }
  }

  /** Number of visible keys below a node, from `from` to before `to`, if given. */
  *#countIn(node: Buffer, from?: Buffer, to?: Buffer): Steps<number> {
    if (levelOf(node) === 0) {
      return this.#countKeys(node, from ? lowerBound(node, from) : 0, to ? lowerBound(node, to) : sizeOf(node))
    }
    const first = from ? childFor(node, from) : -1
    const last = to ? childFor(node, to) : sizeOf(node)
    if (first === last) return yield* this.#countIn(this.#nodeOf(childNode(node, first)), from, to)
    let count = 0
    if (from) count += yield* this.#countIn(this.#nodeOf(childNode(node, first)), from)
    if (this.#below === HIGHEST) count += (sumsOf(node)[last] as number) - (sumsOf(node)[first + 1] as number)
    else for (let index = first + 1; index < last; index++) count += yield* this.#countAt(node, index)
    if (to) count += yield* this.#countIn(this.#nodeOf(childNode(node, last)), undefined, to)
    return count
  }

  /** Number of visible keys below a child. */
  *#countAt(parent: Buffer, index: number): Steps<number> {
    const { count, low, high, node } = childAt(parent, index)
    if (high < this.#below) return count
    if (low >= this.#below) return 0
    const known = this.#counts.get(node)
    if (known !== undefined) return known
    yield
    const counted = yield* this.#countIn(this.#nodeOf(node))
    this.#counts.set(node, counted)
    return counted
  }

  /** Number of visible keys of a leaf from one index to before another. */
  #countKeys(leaf: Buffer, from: number, to: number): number {
    if (this.#below === HIGHEST) return to - from
    let count = 0
    for (let index = from; index < to; index++) if (placeAt(leaf, index) < this.#below) count++
    return count
  }
}

/** Prefix sums of the counts in a node, cached by node, since its bytes never change. */
const sums = new WeakMap<Buffer, Float64Array>()

/** Element n is the number of keys below the first n children. */
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
function childWithRank(sums: Float64Array, rank: number): number {
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

  /** Moves to just before the first key of the next leaf, or, backwards, after the last one; false without one. */
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
