import type { Steps } from '../steps.ts'
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

/** Keys in order that are read as those of a tree. */
export interface Keys {
  /** How many keys are lower than one. */
  rank(key: Buffer): Steps<number>
  /** A cursor at the key before which there are so many; past the end when there are not. */
  nth(rank: number): Steps<KeyCursor>
  /** A cursor at the first key that is not below one. */
  from(key: Buffer): Steps<KeyCursor>
}

/** Goes through keys in order, in both directions. */
export interface KeyCursor {
  /** Undefined before the first and after the last. */
  readonly key: Buffer | undefined
  /** The place that the key ends with. */
  readonly place: number
  /** Whether the key here has the same tuple as another one. */
  hasTupleOf(key: Buffer): boolean
  next(): void
  previous(): void
}

/** A key without its place. */
export function tupleOf(key: Buffer): Buffer {
  return key.subarray(0, key.length - POSITION_BYTES)
}

/** Places from here on are passed over: their items came later. */
export type Below = number

interface Level {
  readonly node: Buffer
  index: number
}

/**
 * Keys in order, each of which ends with a place (6 bytes). The number of keys before any one of them, and the key of any
 * number, are found on one way from the root down. It is read as it was at one position, and with `below` as if there
 * were no places from that one on: then nodes with places on both sides are counted, time-sliced, once for each tree object.
 */
export class Tree implements Keys {
  readonly #nodeOf: (number: number) => Buffer
  readonly #below: Below
  /** With `below`: the prefix sums of each inner node, by its number. */
  readonly #sums = new Map<number, Float64Array>()

  /** `nodeOf` gives the bytes of a node, which stay as they are. */
  constructor(nodeOf: (number: number) => Buffer, below: Below = HIGHEST) {
    this.#nodeOf = nodeOf
    this.#below = below
  }

  /** How many keys are lower than one. */
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

  /** A cursor at the key before which there are so many; past the end when there are not. */
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
      // Past the end there is the end of the last one.
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

  /** A cursor at the first key that is not below one. */
  *from(key: Buffer): Steps<Cursor> {
    return yield* this.nth(yield* this.rank(key))
  }

  /** Prefix sums of an inner node: element n is how many keys its first n children have. */
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

  /** Of the first entries of a leaf. */
  #countIn(leaf: Buffer, to: number): number {
    if (this.#below === HIGHEST) return to
    let count = 0
    for (let index = 0; index < to; index++) if (placeAt(leaf, index) < this.#below) count++
    return count
  }
}

/** Prefix sums without `below`. The bytes of a node never change, so they are cached by node. */
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

/** The child that has the key of a number; their number when none has. */
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

/** Goes through keys in order, in both directions. */
export class Cursor implements KeyCursor {
  readonly #nodeOf: (number: number) => Buffer
  readonly #below: Below
  readonly #levels: Level[]

  constructor(nodeOf: (number: number) => Buffer, below: Below, levels: Level[]) {
    this.#nodeOf = nodeOf
    this.#below = below
    this.#levels = levels
  }

  /** The key here, whose bytes stay as they are; undefined before the first and after the last. */
  get key(): Buffer | undefined {
    const { node, index } = this.#levels.at(-1) as Level
    return index >= 0 && index < sizeOf(node) ? entryAt(node, index) : undefined
  }

  /** The place that the key here ends with. */
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

  /** To just before, or just behind, the keys of the next leaf; false when there is none. */
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

  /** The next child with places that are not passed over. */
  #nextChild({ node, index }: Level, by: 1 | -1): number | undefined {
    const size = sizeOf(node)
    for (let at = index + by; at >= 0 && at < size; at += by) {
      if (this.#below === HIGHEST || childAt(node, at).low < this.#below) return at
    }
    return undefined
  }
}
