import { LRUCache } from 'lru-cache'
import type { Position } from '../events/event.ts'
import { Corruption } from '../runtime/errors.ts'
import { numberedKey, POSITION_BYTES, positionOf, putPosition, TAG, tableKey } from './keys.ts'
import { summaryOf } from './node.ts'
import type { Store } from './store.ts'
import { ROOT, Tree } from './tree.ts'
import { type Nodes, TreeWriter } from './tree-writer.ts'

/** Highest number of cached nodes. */
const CACHED_NODES = 4096
/** Offset in a free node, after its position, of the number of the next free node. */
const NEXT = POSITION_BYTES
const NONE = 0

/** Recently used nodes in their committed state, by tree and number. */
export class NodeCache {
  readonly #nodes = new LRUCache<number, Buffer>({ max: CACHED_NODES })

  get(tree: number, node: number): Buffer | undefined {
    return this.#nodes.get(tree * 2 ** 32 + node)
  }

  set(tree: number, node: number, bytes: Buffer): void {
    this.#nodes.set(tree * 2 ** 32 + node, bytes)
  }
}

/** Which node numbers are free. */
interface Allocation {
  /** The lowest number that was never used. */
  readonly next: number
  /** The first of the free list; NONE if it is empty. */
  readonly free: number
}

/**
 * A tree (tree.ts) whose nodes are versioned rows of the store. A transaction changes copies of nodes: `save` writes them,
 * and after its end `commit` or `rollBack` must follow. The cache has committed nodes alone, the newest version of each.
 */
export class StoredTree implements Nodes {
  readonly number: number
  readonly #store: Store
  readonly #cache: NodeCache
  readonly #writer = new TreeWriter(this)
  /** Nodes changed by the current transaction. */
  readonly #changed = new Map<number, Buffer>()
  #allocation: Allocation | undefined
  /** Whether the current transaction has changed `#allocation`. */
  #isAllocationChanged = false

  constructor(store: Store, number: number, cache: NodeCache) {
    this.#store = store
    this.number = number
    this.#cache = cache
  }

  /** The tree as of a position, without keys at the place `below` or higher. */
  at(position: Position, below?: number): Tree {
    return new Tree((number) => this.#nodeAt(number, position), below)
  }

  /** Makes the tree empty. This and the following methods need a transaction. */
  clear(): void {
    this.#setAllocation({ next: 1, free: NONE })
    this.#writer.clear()
  }

  /** Inserts different keys in ascending order. Skips those that exist. */
  insert(keys: readonly Buffer[]): void {
    this.#writer.insert(keys)
  }

  /** Removes keys in ascending order, which must exist. */
  remove(keys: readonly Buffer[]): void {
    try {
      this.#writer.remove(keys)
    } catch (error) {
      throw error instanceof Corruption ? this.#store.damage(error) : error
    }
  }

  /** Writes the changed nodes. `isRead`: old versions may be needed by pins. */
  save(position: Position, isRead: boolean): void {
    for (const [number, node] of this.#changed) {
      putPosition(node, 0, position)
      const key = numberedKey(TAG.node, this.number, number)
      if (isRead) this.#store.write(key, node)
      else this.#store.set(key, node)
    }
    if (!this.#isAllocationChanged) return
    this.#store.set(tableKey(TAG.tree, this.number), Buffer.from(JSON.stringify(this.#allocation)))
  }

  /** Called after the transaction has committed. */
  commit(): void {
    for (const [number, node] of this.#changed) this.#cache.set(this.number, number, node)
    this.#changed.clear()
    this.#isAllocationChanged = false
  }

  /** Drops the changes since the last commit. */
  rollBack(): void {
    this.#changed.clear()
    this.#allocation = undefined
    this.#isAllocationChanged = false
  }

  get(number: number): Buffer {
    return this.#changed.get(number) ?? this.#newest(number)
  }

  own(number: number): Buffer {
    const changed = this.#changed.get(number)
    if (changed) return changed
    const copy = Buffer.from(this.#newest(number))
    this.#changed.set(number, copy)
    return copy
  }

  put(number: number, node: Buffer): void {
    this.#changed.set(number, node)
  }

  allocate(): number {
    const { next, free } = this.#knownAllocation()
    if (free === NONE) {
      this.#setAllocation({ next: next + 1, free })
      return next
    }
    this.#setAllocation({ next, free: positionOf(this.get(free), NEXT) })
    return free
  }

  free(number: number): void {
    const { next, free } = this.#knownAllocation()
    const node = Buffer.alloc(NEXT + POSITION_BYTES)
    putPosition(node, NEXT, free)
    this.#changed.set(number, node)
    this.#setAllocation({ next, free: number })
  }

  /** Number of keys. */
  get size(): number {
    return this.nodes === 0 ? 0 : summaryOf(this.get(ROOT)).count
  }

  /** Number of nodes including free ones; 0 before `clear`. */
  get nodes(): number {
    return this.#loadAllocation()?.next ?? 0
  }

  #setAllocation(allocation: Allocation): void {
    this.#allocation = allocation
    this.#isAllocationChanged = true
  }

  #knownAllocation(): Allocation {
    const allocation = this.#loadAllocation()
    if (!allocation) throw this.#damaged()
    return allocation
  }

  #loadAllocation(): Allocation | undefined {
    if (this.#allocation) return this.#allocation
    const found = this.#store.newest(tableKey(TAG.tree, this.number))
    this.#allocation = found && (JSON.parse(found.toString()) as Allocation)
    return this.#allocation
  }

  #nodeAt(number: number, at: Position): Buffer {
    const newest = this.#newest(number)
    if (positionOf(newest) <= at) return newest
    // The node has changed since, and the store has kept the version of a pinned position.
    const then = this.#store.read(numberedKey(TAG.node, this.number, number), at)
    if (!then) throw this.#damaged()
    return Buffer.from(then)
  }

  #newest(number: number): Buffer {
    const cached = this.#cache.get(this.number, number)
    if (cached) return cached
    const found = this.#store.newest(numberedKey(TAG.node, this.number, number))
    if (!found) throw this.#damaged()
    const copy = Buffer.from(found)
    this.#cache.set(this.number, number, copy)
    return copy
  }

  #damaged(): Error {
    return this.#store.damage(new Corruption('The store lacks a part of an index.'))
  }
}
