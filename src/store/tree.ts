import type { Turn } from '../runtime/turns.ts'
import { HIGHEST, POSITION_BYTES } from './bytes.ts'
import {
  childAt,
  childFor,
  childNode,
  entryAt,
  isEntry,
  levelOf,
  lowerBound,
  placeAt,
  separatorAt,
  sizeOf,
} from './node.ts'

/** The number of every tree's root. */
export const ROOT = 0

/** An ordered set of keys. */
export interface OrderedKeys {
  /** Number of keys from `from` to before `to`. */
  count(from: Buffer, to: Buffer, turn: Turn): Promise<number>
  /** A cursor at the first key that is not below `from`, or `skipped` keys after it; past the end if there is none. */
  seek(from: Buffer, turn: Turn, skipped?: number): Promise<KeyCursor>
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

/** Keys that are counted though they are not in a tree, and keys of it that are not counted. */
export interface KeyChanges {
  /** The number of the former minus that of the latter, from where a search begins to before `key`. */
  shiftAt(key: Buffer): number
  /** The number of all the latter, from where the search begins. */
  readonly removed: number
}

export interface Found {
  readonly cursor: Cursor
  /** Number of the tree's keys from where the search began to before the cursor. */
  readonly before: number
}

interface Level {
  readonly node: Buffer
  index: number
}

/**
 * A B+-tree of keys that end with a place (6 bytes), with counts: the keys between two keys are counted on their paths
 * from the root. Reads the tree as of one position. With `below`, keys at this place or a higher one are skipped, as
 * their items were created later; nodes with places on both sides are then counted, once for each object.
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

  async count(from: Buffer, to: Buffer, turn: Turn): Promise<number> {
    return from.compare(to) < 0 ? this.#countIn(this.#nodeOf(ROOT), turn, from, to) : 0
  }

  async seek(from: Buffer, turn: Turn, skipped = 0): Promise<Cursor> {
    return (await this.find(from, skipped, turn)).cursor
  }

  /**
   * The first key that is not below `from` and has at least `skipped` keys between it and `from`, as counted with
   * `changes`; keys that these do not count may be passed over. Takes one path from the root.
   */
  async find(from: Buffer, skipped: number, turn: Turn, changes?: KeyChanges): Promise<Found> {
    const levels: Level[] = []
    /** Keys from `from` to before the node. */
    let before = 0
    /** Whether the path is that of `from`. */
    let isAtFrom = true
    let node = this.#nodeOf(ROOT)
    while (levelOf(node) > 0) {
      let index = isAtFrom ? childFor(node, from) : 0
      if (skipped > 0) {
        const start = isAtFrom ? index + 1 : index
        const within = isAtFrom ? await this.#countIn(this.#nodeOf(childNode(node, index)), turn, from) : 0
        const most = skipped + (changes?.removed ?? 0) - before - within
        const sums = await this.#sumsOf(node, start, most, sizeOf(node), turn)
        const base = before + within - (sums[start] as number)
        // The last child with at most `skipped` keys before it.
        for (let high = sizeOf(node) - 1; index < high; ) {
          const middle = (index + high + 1) >>> 1
          const shift = changes?.shiftAt(separatorAt(node, middle)) ?? 0
          if (base + (sums[middle] as number) + shift > skipped) high = middle - 1
          else index = middle
        }
        if (index >= start) {
          before = base + (sums[index] as number)
          isAtFrom = false
        }
      }
      levels.push({ node, index })
      node = this.#nodeOf(childNode(node, index))
    }
    const first = isAtFrom ? lowerBound(node, from) : 0
    let index = first
    for (let high = sizeOf(node); index < high; ) {
      const middle = (index + high) >>> 1
      const shift = changes?.shiftAt(entryAt(node, middle)) ?? 0
      if (before + this.#countKeys(node, first, middle) + shift < skipped) index = middle + 1
      else high = middle
    }
    before += this.#countKeys(node, first, index)
    levels.push({ node, index })
    const cursor = new Cursor(this.#nodeOf, this.#below, levels)
    // The key is in another leaf, or the next visible one.
    if (index === sizeOf(node) || placeAt(node, index) >= this.#below) cursor.next()
    return { cursor, before }
  }

  /** Number of visible keys below a node, from `from` to before `to`, if given. */
  async #countIn(node: Buffer, turn: Turn, from?: Buffer, to?: Buffer): Promise<number> {
    if (levelOf(node) === 0) {
      return this.#countKeys(node, from ? lowerBound(node, from) : 0, to ? lowerBound(node, to) : sizeOf(node))
    }
    const first = from ? childFor(node, from) : -1
    const last = to ? childFor(node, to) : sizeOf(node)
    if (first === last) return this.#countIn(this.#nodeOf(childNode(node, first)), turn, from, to)
    let count = 0
    if (from) count += await this.#countIn(this.#nodeOf(childNode(node, first)), turn, from)
    const sums = await this.#sumsOf(node, first + 1, Number.POSITIVE_INFINITY, last, turn)
    count += (sums[last] as number) - (sums[first + 1] as number)
    if (to) count += await this.#countIn(this.#nodeOf(childNode(node, last)), turn, undefined, to)
    return count
  }

  /** Number of visible keys below a child. */
  async #countAt(parent: Buffer, index: number, turn: Turn): Promise<number> {
    const { count, low, high, node } = childAt(parent, index)
    if (high < this.#below) return count
    if (low >= this.#below) return 0
    const known = this.#counts.get(node)
    if (known !== undefined) return known
    if (turn.isOver) await turn.next()
    const counted = await this.#countIn(this.#nodeOf(node), turn)
    this.#counts.set(node, counted)
    return counted
  }

  /**
   * Prefix sums of the visible keys below the children of a node. Only valid from child `from` up to child `to`. After
   * they have grown by more than `most`, later ones may be infinite.
   */
  async #sumsOf(node: Buffer, from: number, most: number, to: number, turn: Turn): Promise<Float64Array> {
    const { high, sums } = totalsOf(node)
    if (high < this.#below) return sums
    const visible = new Float64Array(sums.length).fill(Number.POSITIVE_INFINITY)
    visible[from] = 0
    for (let index = from, sum = 0; index < to && sum <= most; index++) {
      sum += await this.#countAt(node, index, turn)
      visible[index + 1] = sum
    }
    return visible
  }

  /** Number of visible keys of a leaf from one index to before another. */
  #countKeys(leaf: Buffer, from: number, to: number): number {
    if (this.#below === HIGHEST) return to - from
    let count = 0
    for (let index = from; index < to; index++) if (placeAt(leaf, index) < this.#below) count++
    return count
  }
}

interface Totals {
  /** Element n is the number of keys below the first n children. */
  readonly sums: Float64Array
  /** No key below the node has a higher place. */
  readonly high: number
}

/** By node, since its bytes never change. */
const totals = new WeakMap<Buffer, Totals>()

function totalsOf(node: Buffer): Totals {
  const known = totals.get(node)
  if (known) return known
  const size = sizeOf(node)
  const sums = new Float64Array(size + 1)
  let high = 0
  for (let index = 0; index < size; index++) {
    const child = childAt(node, index)
    sums[index + 1] = (sums[index] as number) + child.count
    high = Math.max(high, child.high)
  }
  const made = { sums, high }
  totals.set(node, made)
  return made
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
