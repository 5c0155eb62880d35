import { Corruption } from '../runtime/errors.ts'
import { HIGHEST, POSITION_BYTES, positionOf } from './keys.ts'
import {
  type Child,
  childAt,
  childEntry,
  childFor,
  childNode,
  emptyNode,
  entryAt,
  entryBytes,
  entryCount,
  isEntry,
  joinNodes,
  levelOf,
  lowerBound,
  putChild,
  separatorAt,
  summaryOf,
  withEntries,
  withEntry,
  withoutEntries,
} from './node.ts'
import { ROOT } from './tree.ts'

/** A larger node is split. This is one page of the store. */
const MOST_BYTES = 4000
/** A smaller node is joined with its neighbour, unless both together would exceed `MOST_JOINED_BYTES`. */
const FEW_BYTES = 2000
const MOST_JOINED_BYTES = 3600

/** Highest size of a key, so that a full node has at least three. */
export const MOST_KEY_BYTES = 1000

/** The nodes of a tree within a transaction. */
export interface Nodes {
  /** The result must not be changed. */
  get(number: number): Buffer
  /** A copy that may be changed, and is stored. */
  own(number: number): Buffer
  put(number: number, node: Buffer): void
  /** Allocates a node number. */
  allocate(): number
  /** Frees a node number. */
  free(number: number): void
}

/** A node on the path from the root, and the index of the child to which the path goes on. */
interface Step {
  readonly number: number
  readonly index: number
}

/**
 * Inserts and removes keys of a tree (tree.ts) in a transaction. It changes counts and places on the path from the root
 * first, and then the leaf, from which splits and joins go up the path again.
 */
export class TreeWriter {
  readonly #nodes: Nodes

  constructor(nodes: Nodes) {
    this.#nodes = nodes
  }

  /** Makes the tree empty. */
  clear(): void {
    this.#nodes.put(ROOT, emptyNode(0))
  }

  /** Inserts different keys in ascending order, those of one leaf together. Skips those that exist. */
  insert(keys: readonly Buffer[]): void {
    for (let at = 0; at < keys.length; ) at = this.#insertInLeaf(keys, at)
  }

  /**
   * Inserts keys from an index on into one leaf until it must be split, but at least one: a leaf that was split before a
   * long key can still be too large. Returns the index of the next key.
   */
  #insertInLeaf(keys: readonly Buffer[], from: number): number {
    const { path, leaf: number, end } = this.#descend(keys[from] as Buffer)
    const leaf = this.#nodes.get(number)
    const size = entryCount(leaf)
    const indexes: number[] = []
    const added: Buffer[] = []
    let [low, high] = [HIGHEST, 0]
    let bytes = leaf.length
    let at = from
    // Invariant: `added` are the keys from `from` to before `at` that the leaf lacks, and `bytes` is its size with them.
    for (; at < keys.length && (at === from || bytes <= MOST_BYTES); at++) {
      const key = keys[at] as Buffer
      // It belongs into a later leaf.
      if (end && key.compare(end) >= 0) break
      const index = lowerBound(leaf, key)
      if (index < size && isEntry(leaf, index, key, 0)) continue
      indexes.push(index)
      added.push(key)
      bytes += entryBytes(key)
      const place = positionOf(key, key.length - POSITION_BYTES)
      low = Math.min(low, place)
      high = Math.max(high, place)
    }
    if (added.length === 0) return at
    for (const { number, index } of path) {
      const node = this.#nodes.own(number)
      const child = childAt(node, index)
      const places = { low: Math.min(child.low, low), high: Math.max(child.high, high) }
      putChild(node, index, { node: child.node, count: child.count + added.length, ...places })
    }
    const last = (indexes.at(-1) as number) + added.length - 1
    this.#grow(path, number, withEntries(leaf, indexes, added), last)
    return at
  }

  /**
   * Removes keys in ascending order, those of one leaf together.
   * @throws {Corruption} if one does not exist
   */
  remove(keys: readonly Buffer[]): void {
    for (let at = 0; at < keys.length; ) at = this.#removeFromLeaf(keys, at)
  }

  /** Removes those keys from an index on that are in one leaf. Returns the index of the next key. */
  #removeFromLeaf(keys: readonly Buffer[], from: number): number {
    const { path, leaf: number, end } = this.#descend(keys[from] as Buffer)
    const leaf = this.#nodes.get(number)
    const size = entryCount(leaf)
    const indexes: number[] = []
    let at = from
    for (; at < keys.length; at++) {
      const key = keys[at] as Buffer
      if (end && key.compare(end) >= 0) break
      const index = lowerBound(leaf, key)
      if (index === size || !isEntry(leaf, index, key, 0)) {
        throw new Corruption(`An index lacks an entry of place ${positionOf(key, key.length - POSITION_BYTES)}.`)
      }
      indexes.push(index)
    }
    for (const { number, index } of path) {
      const node = this.#nodes.own(number)
      const child = childAt(node, index)
      putChild(node, index, { ...child, count: child.count - indexes.length })
    }
    this.#shrink(path, number, withoutEntries(leaf, indexes))
    return at
  }

  /** The path to the leaf of a key. Keys from `end` on belong to leaves after it. */
  #descend(key: Buffer): { readonly path: Step[]; readonly leaf: number; readonly end: Buffer | undefined } {
    const path: Step[] = []
    let number = ROOT
    let end: Buffer | undefined
    for (let node = this.#nodes.get(number); levelOf(node) > 0; node = this.#nodes.get(number)) {
      const index = childFor(node, key)
      path.push({ number, index })
      if (index + 1 < entryCount(node)) end = separatorAt(node, index + 1)
      number = childNode(node, index)
    }
    return { path, leaf: number, end }
  }

  /** Stores a node that got entries, the last of them at index `last`; splits it if it is too large. */
  #grow(path: Step[], number: number, node: Buffer, last: number): void {
    if (node.length <= MOST_BYTES) {
      this.#nodes.put(number, node)
      return
    }
    const size = entryCount(node)
    // Appending keys, as growing times do, leaves full nodes behind.
    const from = last >= size >>> 1 ? Math.min(last + 1, size - 1) : size >>> 1
    const left = withoutEntries(node, indexesFrom(from, size))
    const right = withoutEntries(node, indexesFrom(0, from))
    const separator = levelOf(node) === 0 ? separatorBetween(left, right) : Buffer.from(separatorAt(right, 0))
    const next = this.#nodes.allocate()
    this.#nodes.put(next, right)
    const parent = path.pop()
    if (!parent) {
      // The root keeps its number.
      const first = this.#nodes.allocate()
      this.#nodes.put(first, left)
      const entries = [
        childEntry(Buffer.alloc(0), { node: first, ...summaryOf(left) }),
        childEntry(separator, { node: next, ...summaryOf(right) }),
      ]
      this.#nodes.put(ROOT, withEntries(emptyNode(levelOf(node) + 1), [0, 0], entries))
      return
    }
    this.#nodes.put(number, left)
    const above = this.#nodes.own(parent.number)
    putChild(above, parent.index, { node: number, ...summaryOf(left) })
    const entry = childEntry(separator, { node: next, ...summaryOf(right) })
    this.#grow(path, parent.number, withEntry(above, parent.index + 1, entry), parent.index + 1)
  }

  /** Stores a node that lost entries. Frees it if it is empty, joins it with its neighbour if it is small. */
  #shrink(path: Step[], number: number, node: Buffer): void {
    this.#nodes.put(number, node)
    const parent = path.pop()
    if (!parent) {
      this.#lowerRoot()
      return
    }
    const above = this.#nodes.get(parent.number)
    if (entryCount(node) === 0) {
      this.#nodes.free(number)
      this.#shrink(path, parent.number, withoutEntries(above, [parent.index]))
      return
    }
    if (node.length >= FEW_BYTES) return
    const index = parent.index > 0 ? parent.index - 1 : 0
    if (index + 1 >= entryCount(above)) return
    const [left, right] = [childAt(above, index), childAt(above, index + 1)]
    const both = this.#joined(left, right, separatorAt(above, index + 1))
    if (!both) return
    // The joined node keeps the number of the left one.
    this.#nodes.put(left.node, both)
    this.#nodes.free(right.node)
    const joinedAbove = withoutEntries(above, [index + 1])
    putChild(joinedAbove, index, { node: left.node, ...summaryOf(both) })
    this.#shrink(path, parent.number, joinedAbove)
  }

  /** A node with the entries of both children; undefined if it would be too large. */
  #joined({ node: left }: Child, { node: right }: Child, separator: Buffer): Buffer | undefined {
    const [leftNode, rightNode] = [this.#nodes.get(left), this.#nodes.get(right)]
    if (leftNode.length + rightNode.length + separator.length > MOST_JOINED_BYTES) return undefined
    if (levelOf(rightNode) === 0) return joinNodes(leftNode, rightNode)
    // The separator of the first child may be too high; the one from the parent is a correct bound.
    const first = childEntry(separator, childAt(rightNode, 0))
    return joinNodes(leftNode, withEntry(withoutEntries(rightNode, [0]), 0, first))
  }

  /** Replaces a root with a single child by that child. */
  #lowerRoot(): void {
    for (;;) {
      const root = this.#nodes.get(ROOT)
      if (levelOf(root) === 0) return
      if (entryCount(root) === 0) {
        this.clear()
        return
      }
      if (entryCount(root) > 1) return
      const child = childNode(root, 0)
      this.#nodes.put(ROOT, Buffer.from(this.#nodes.get(child)))
      this.#nodes.free(child)
    }
  }
}

function indexesFrom(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from }, (_, at) => from + at)
}

/** The shortest separator above all keys of the left leaf and not above those of the right one. */
function separatorBetween(left: Buffer, right: Buffer): Buffer {
  const last = entryAt(left, entryCount(left) - 1)
  const first = entryAt(right, 0)
  let same = 0
  while (last[same] === first[same]) same++
  return Buffer.from(first.subarray(0, same + 1))
}
