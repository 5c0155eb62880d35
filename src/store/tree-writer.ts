import { Corruption } from '../errors.ts'
import { POSITION_BYTES, positionOf } from './bytes.ts'
import {
  type Child,
  childAt,
  childEntry,
  childFor,
  childNode,
  emptyNode,
  entryAt,
  inserted,
  joined,
  levelOf,
  lowerBound,
  putChild,
  removed,
  separatorAt,
  sizeOf,
  summaryOf,
  without,
} from './node.ts'
import { ROOT } from './tree.ts'

/** A node of more bytes is divided: one page of the store. */
const MOST_BYTES = 4000
/** One of fewer is joined with its neighbour, */
const FEW_BYTES = 1000
/** when both together are no longer than this. */
const JOINED_BYTES = 3000

/** No key is longer, so that a full node has at least three. */
export const MOST_KEY_BYTES = 1000

/** Where the nodes of a tree are kept, in the transaction that writes them. */
export interface Nodes {
  /** Not to be changed. */
  get(number: number): Buffer
  /** One that may be changed, as it is to be kept. */
  own(number: number): Buffer
  put(number: number, node: Buffer): void
  /** The number of a node that is not used. */
  take(): number
  /** The number is not used any more. */
  free(number: number): void
}

interface Step {
  readonly number: number
  readonly index: number
}

/** Puts keys into a tree, and takes them out. In transactions. */
export class TreeWriter {
  readonly #nodes: Nodes

  constructor(nodes: Nodes) {
    this.#nodes = nodes
  }

  /** A tree without keys. */
  begin(): void {
    this.#nodes.put(ROOT, emptyNode(0))
  }

  /** False when the key was there. */
  insert(key: Buffer): boolean {
    const { path, leaf: number } = this.#descend(key)
    const leaf = this.#nodes.get(number)
    const index = lowerBound(leaf, key)
    if (index < sizeOf(leaf) && entryAt(leaf, index).equals(key)) return false
    const place = positionOf(key, key.length - POSITION_BYTES)
    for (const { number, index } of path) {
      const node = this.#nodes.own(number)
      const { node: child, count, low, high } = childAt(node, index)
      putChild(node, index, {
        node: child,
        count: count + 1,
        low: Math.min(low, place),
        high: Math.max(high, place),
      })
    }
    this.#grow(path, number, inserted(leaf, index, key), index)
    return true
  }

  /** @throws {Corruption} when the key is not there */
  remove(key: Buffer): void {
    const { path, leaf: number } = this.#descend(key)
    const leaf = this.#nodes.get(number)
    const index = lowerBound(leaf, key)
    if (index === sizeOf(leaf) || !entryAt(leaf, index).equals(key)) {
      throw new Corruption(`An index lacks an entry of place ${positionOf(key, key.length - POSITION_BYTES)}.`)
    }
    for (const { number, index } of path) {
      const node = this.#nodes.own(number)
      const child = childAt(node, index)
      putChild(node, index, { ...child, count: child.count - 1 })
    }
    this.#shrink(path, number, removed(leaf, index))
  }

  #descend(key: Buffer): { readonly path: Step[]; readonly leaf: number } {
    const path: Step[] = []
    let number = ROOT
    for (let node = this.#nodes.get(number); levelOf(node) > 0; node = this.#nodes.get(number)) {
      const index = childFor(node, key)
      path.push({ number, index })
      number = childNode(node, index)
    }
    return { path, leaf: number }
  }

  /** Keeps a node that has got an entry more, `at` its index; divided if it is too long. */
  #grow(path: Step[], number: number, node: Buffer, at: number): void {
    if (node.length <= MOST_BYTES) {
      this.#nodes.put(number, node)
      return
    }
    const size = sizeOf(node)
    // What grows at one point, as times do, leaves full nodes behind.
    const from = at >= size >>> 1 ? Math.min(at + 1, size - 1) : size >>> 1
    const left = without(node, from, size)
    const right = without(node, 0, from)
    const separator = levelOf(node) === 0 ? separating(left, right) : Buffer.from(separatorAt(right, 0))
    const next = this.#nodes.take()
    this.#nodes.put(next, right)
    const parent = path.pop()
    if (!parent) {
      // The root stays the root.
      const first = this.#nodes.take()
      this.#nodes.put(first, left)
      const entries = [
        childEntry(Buffer.alloc(0), { node: first, ...summaryOf(left) }),
        childEntry(separator, { node: next, ...summaryOf(right) }),
      ]
      const root = emptyNode(levelOf(node) + 1)
      this.#nodes.put(
        ROOT,
        entries.reduce((made, entry, index) => inserted(made, index, entry), root),
      )
      return
    }
    this.#nodes.put(number, left)
    const above = this.#nodes.own(parent.number)
    putChild(above, parent.index, { node: number, ...summaryOf(left) })
    const entry = childEntry(separator, { node: next, ...summaryOf(right) })
    this.#grow(path, parent.number, inserted(above, parent.index + 1, entry), parent.index + 1)
  }

  /** Keeps a node that has lost an entry; one that has none is freed, one of few is joined with its neighbour. */
  #shrink(path: Step[], number: number, node: Buffer): void {
    this.#nodes.put(number, node)
    const parent = path.pop()
    if (!parent) {
      this.#lowerRoot()
      return
    }
    const above = this.#nodes.get(parent.number)
    if (sizeOf(node) === 0) {
      this.#nodes.free(number)
      this.#shrink(path, parent.number, removed(above, parent.index))
      return
    }
    if (node.length >= FEW_BYTES) return
    const index = parent.index > 0 ? parent.index - 1 : 0
    if (index + 1 >= sizeOf(above)) return
    const [left, right] = [childAt(above, index), childAt(above, index + 1)]
    const both = this.#joined(left, right, separatorAt(above, index + 1))
    if (!both) return
    this.#nodes.put(left.node, both)
    this.#nodes.free(right.node)
    const joinedAbove = removed(above, index + 1)
    putChild(joinedAbove, index, { node: left.node, ...summaryOf(both) })
    this.#shrink(path, parent.number, joinedAbove)
  }

  #joined({ node: left }: Child, { node: right }: Child, separator: Buffer): Buffer | undefined {
    const [l, r] = [this.#nodes.get(left), this.#nodes.get(right)]
    if (l.length + r.length + separator.length > JOINED_BYTES) return undefined
    if (levelOf(r) === 0) return joined(l, r)
    // The first child's keys need not be as high as what stands there; those of the one before it end below its parent's.
    const first = childEntry(separator, childAt(r, 0))
    return joined(l, inserted(removed(r, 0), 0, first))
  }

  /** A root with one child becomes what that is. */
  #lowerRoot(): void {
    for (;;) {
      const root = this.#nodes.get(ROOT)
      if (levelOf(root) === 0) return
      if (sizeOf(root) === 0) {
        this.begin()
        return
      }
      if (sizeOf(root) > 1) return
      const child = childNode(root, 0)
      this.#nodes.put(ROOT, Buffer.from(this.#nodes.get(child)))
      this.#nodes.free(child)
    }
  }
}

/** The shortest bytes that are above all keys of one leaf and not above those of the other. */
function separating(left: Buffer, right: Buffer): Buffer {
  const last = entryAt(left, sizeOf(left) - 1)
  const first = entryAt(right, 0)
  let same = 0
  while (last[same] === first[same]) same++
  return Buffer.from(first.subarray(0, same + 1))
}
