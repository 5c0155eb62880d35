/*
 * An index is a B+-tree with counts. Its keys are in the leaves, in order; each ends with the place of an item, so that no
 * two are equal. A node above the leaves has for each child a separator, the number of keys below the child, and the
 * lowest and highest place of these keys. A separator is above all keys of the child before, and not above those of its
 * own child; that of the first child is not used. So the keys between two keys are counted, and the key at a rank is
 * found, on paths from the root.
 *
 * Nodes are rows of the store, by their numbers; the root has number 0. A changed node is written under the same number,
 * and the store keeps its earlier version while a pinned position needs it. So readers share no lock with the writer: a
 * reader gets each node as of its position, in bytes that never change.
 *
 * | File | |
 * |---|---|
 * | `node.ts` | the bytes of a node: reads entries, and makes copies with other entries |
 * | `tree.ts` | counts and finds keys in nodes that it is given by number |
 * | `tree-writer.ts` | inserts and removes keys: splits, joins and frees nodes in a transaction |
 * | `stored-tree.ts` | keeps the nodes in the store: versions, a cache, free numbers. Opens a `Tree` as of a position |
 * | `merged-tree.ts` | a tree with some keys removed and others added: an index as it was before a few items changed |
 */

import type { Turn } from '../runtime/turns.ts'
import { HIGHEST, POSITION_BYTES } from './keys.ts'
import {
  childAt,
  childFor,
  childNode,
  entryAt,
  entryBeginsWith,
  entryCount,
  isEntry,
  levelOf,
  lowerBound,
  placeAt,
  separatorAt,
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

/** Added keys, which are counted though they are not in a tree, and removed ones, which are in it and not counted. */
interface KeyChanges {
  /** The number of added keys minus that of removed ones, from where a search begins to before `key`. */
  shiftAt(key: Buffer): number
  /** The number of removed keys from where the search begins. */
  readonly removed: number
}

interface Found {
  readonly cursor: Cursor
  /** Number of the tree's keys from where the search began to before the cursor. */
  readonly before: number
}

/** A node on the path from the root, and the index of an entry in it. */
interface Step {
  readonly node: Buffer
  index: number
}

/**
 * Reads a tree as of one position. With `below`, keys at this place or a higher one are invisible, as their items were
 * created later. The count of a node with places on both sides of it is then not in its parent: its keys are counted, once
 * for each object.
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
    return skipped === 0 ? this.first(from) : (await this.find(from, skipped, turn)).cursor
  }

  /** A cursor at the first key that is not below `from`. Nothing need be counted for it. */
  first(from: Buffer): Cursor {
    const path: Step[] = []
    let node = this.#nodeOf(ROOT)
    while (levelOf(node) > 0) {
      const index = childFor(node, from)
      path.push({ node, index })
      node = this.#nodeOf(childNode(node, index))
    }
    const index = lowerBound(node, from)
    path.push({ node, index })
    const cursor = new Cursor(this.#nodeOf, this.#below, path)
    // The key is in another leaf, or the next visible one.
    if (index === entryCount(node) || placeAt(node, index) >= this.#below) cursor.next()
    return cursor
  }

  /**
   * The first key that is not below `from` and has at least `skipped` keys between it and `from`, as counted with
   * `changes`; keys that these do not count may be passed over. Takes one path from the root.
   */
  async find(from: Buffer, skipped: number, turn: Turn, changes?: KeyChanges): Promise<Found> {
    const path: Step[] = []
    /** Visible keys from `from` to before the node. */
    let before = 0
    /** Whether `from` belongs below the node; otherwise all keys of the node are behind it. */
    let isAtFrom = true
    let node = this.#nodeOf(ROOT)
    // Invariant: the result is below the node, or is the first key behind it. At most `skipped` keys lie before the node.
    while (levelOf(node) > 0) {
      let index = isAtFrom ? childFor(node, from) : 0
      if (skipped > 0) {
        // The child of `from` has keys on both sides of it. Children from `start` on are counted as a whole.
        const start = isAtFrom ? index + 1 : index
        const within = isAtFrom ? await this.#countIn(this.#nodeOf(childNode(node, index)), turn, from) : 0
        // Keys that `changes` removes are in the sums, so these are needed up to a higher number.
        const most = skipped + (changes?.removed ?? 0) - before - within
        const sums = await this.#sumsOf(node, start, most, entryCount(node), turn)
        // `base + sums[n]` keys lie before child n.
        const base = before + within - (sums[start] as number)
        // The last child with at most `skipped` keys before it. Invariant: child `index` has so few, and those above `high` more.
        for (let high = entryCount(node) - 1; index < high; ) {
          const middle = (index + high + 1) >>> 1
          const shift = changes?.shiftAt(separatorAt(node, middle)) ?? 0
          if (base + (sums[middle] as number) + shift > skipped) high = middle - 1
          else index = middle
        }
        // The path leaves that of `from`.
        if (index >= start) {
          before = base + (sums[index] as number)
          isAtFrom = false
        }
      }
      path.push({ node, index })
      node = this.#nodeOf(childNode(node, index))
    }
    const first = isAtFrom ? lowerBound(node, from) : 0
    let index = first
    // Invariant: entries before `index` have fewer than `skipped` keys before them, and those from `high` on as many or more.
    for (let high = entryCount(node); index < high; ) {
      const middle = (index + high) >>> 1
      const shift = changes?.shiftAt(entryAt(node, middle)) ?? 0
      if (before + this.#countKeys(node, first, middle) + shift < skipped) index = middle + 1
      else high = middle
    }
    before += this.#countKeys(node, first, index)
    path.push({ node, index })
    const cursor = new Cursor(this.#nodeOf, this.#below, path)
    // The key is in another leaf, or the next visible one.
    if (index === entryCount(node) || placeAt(node, index) >= this.#below) cursor.next()
    return { cursor, before }
  }

  /** Number of visible keys below a node, from `from` to before `to`, if given. */
  async #countIn(node: Buffer, turn: Turn, from?: Buffer, to?: Buffer): Promise<number> {
    if (levelOf(node) === 0) {
      return this.#countKeys(node, from ? lowerBound(node, from) : 0, to ? lowerBound(node, to) : entryCount(node))
    }
    const first = from ? childFor(node, from) : -1
    const last = to ? childFor(node, to) : entryCount(node)
    // The paths of `from` and `to` part at this node, or further down. The children between the two are counted as a whole.
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
    // Some keys of the child are visible. It is read with all nodes below it that are like that.
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
    // The sum that exceeds `most` ends the counting: a search never goes beyond it.
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
  const size = entryCount(node)
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
  readonly #path: Step[]

  constructor(nodeOf: (number: number) => Buffer, below: number, path: Step[]) {
    this.#nodeOf = nodeOf
    this.#below = below
    this.#path = path
  }

  /** The bytes do not change. Undefined before the first key and after the last. */
  get key(): Buffer | undefined {
    const { node, index } = this.#path.at(-1) as Step
    return index >= 0 && index < entryCount(node) ? entryAt(node, index) : undefined
  }

  /** The place at the end of the key. */
  get place(): number {
    const { node, index } = this.#path.at(-1) as Step
    return placeAt(node, index)
  }

  hasTupleOf(key: Buffer): boolean {
    const { node, index } = this.#path.at(-1) as Step
    return index >= 0 && index < entryCount(node) && isEntry(node, index, key, POSITION_BYTES)
  }

  beginsWith(prefix: Buffer): boolean {
    const { node, index } = this.#path.at(-1) as Step
    return index >= 0 && index < entryCount(node) && entryBeginsWith(node, index, prefix)
  }

  next(): void {
    this.#move(1)
  }

  previous(): void {
    this.#move(-1)
  }

  #move(by: 1 | -1): void {
    let leaf = this.#path.at(-1) as Step
    // Steps over invisible keys.
    do {
      leaf.index += by
      // The cursor is outside its leaf. Without a further leaf it stays there, and `key` is undefined.
      while (leaf.index < 0 || leaf.index >= entryCount(leaf.node)) {
        if (!this.#enterNextLeaf(by)) {
          leaf.index = by > 0 ? entryCount(leaf.node) : -1
          return
        }
        leaf = this.#path.at(-1) as Step
        leaf.index += by
      }
    } while (placeAt(leaf.node, leaf.index) >= this.#below)
  }

  /** Moves to just before the first key of the next leaf, or, backwards, after the last one; false without one. */
  #enterNextLeaf(by: 1 | -1): boolean {
    // Goes up to the lowest node with a further child, and from that down to its first leaf (backwards: the last one).
    for (let depth = this.#path.length - 2; depth >= 0; depth--) {
      const step = this.#path[depth] as Step
      const at = this.#nextChild(step, by)
      if (at === undefined) continue
      step.index = at
      this.#path.length = depth + 1
      let node = this.#nodeOf(childNode(step.node, at))
      while (levelOf(node) > 0) {
        // Without a visible child, any will do: `#move` steps over the keys below it.
        const outside = { node, index: by > 0 ? -1 : entryCount(node) }
        const index = this.#nextChild(outside, by) ?? (by > 0 ? 0 : entryCount(node) - 1)
        this.#path.push({ node, index })
        node = this.#nodeOf(childNode(node, index))
      }
      this.#path.push({ node, index: by > 0 ? -1 : entryCount(node) })
      return true
    }
    return false
  }

  /** The next child with visible places. */
  #nextChild({ node, index }: Step, by: 1 | -1): number | undefined {
    const size = entryCount(node)
    for (let at = index + by; at >= 0 && at < size; at += by) {
      if (this.#below === HIGHEST || childAt(node, at).low < this.#below) return at
    }
    return undefined
  }
}
