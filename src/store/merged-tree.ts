import type { Turn } from '../runtime/turns.ts'
import { POSITION_BYTES, positionOf } from './keys.ts'
import { type Cursor, type KeyCursor, type OrderedKeys, type Tree, tupleOf } from './tree.ts'

/**
 * A tree as it was before a few items changed: some of its keys are removed, and others are added. Both are lists in memory,
 * so that counting them between two keys is a binary search.
 */
export class MergedTree implements OrderedKeys {
  readonly #tree: Tree
  /** Keys of the tree that are skipped, in order. */
  readonly #removed: readonly Buffer[]
  /** Added keys, in order. None of them is in the tree, except among the removed ones. */
  readonly #added: readonly Buffer[]

  private constructor(tree: Tree, removed: readonly Buffer[], added: readonly Buffer[]) {
    this.#tree = tree
    this.#removed = removed
    this.#added = added
  }

  /** Both lists must be in order. */
  static of(tree: Tree, removed: readonly Buffer[], added: readonly Buffer[]): OrderedKeys {
    return removed.length + added.length === 0 ? tree : new MergedTree(tree, removed, added)
  }

  async count(from: Buffer, to: Buffer, turn: Turn): Promise<number> {
    if (from.compare(to) >= 0) return 0
    const changed = between(this.#added, from, to) - between(this.#removed, from, to)
    return changed + (await this.#tree.count(from, to, turn))
  }

  async seek(from: Buffer, turn: Turn, skipped = 0): Promise<KeyCursor> {
    // Changed keys before `from` are not counted.
    const addedBefore = below(this.#added, from)
    const removedBefore = below(this.#removed, from)
    const { cursor, before } = await this.#tree.find(from, skipped, turn, {
      shiftAt: (key) => below(this.#added, key) - addedBefore - (below(this.#removed, key) - removedBefore),
      removed: this.#removed.length - removedBefore,
    })
    const { key } = cursor
    // Before the cursor lie `before - removed` keys that remain. The rest of `skipped` are added ones.
    const removed = (key ? below(this.#removed, key) : this.#removed.length) - removedBefore
    const next = Math.min(this.#added.length, addedBefore + skipped - (before - removed))
    return new MergedCursor(cursor, this.#removed, this.#added, next)
  }
}

/**
 * Merges the keys of the tree with the added ones. Between two calls, neither `#cursor` nor `#added[#next]` is before the
 * current key, which is the lower of the two, and `#cursor` is at no removed key.
 */
class MergedCursor implements KeyCursor {
  readonly #cursor: Cursor
  readonly #removed: readonly Buffer[]
  readonly #added: readonly Buffer[]
  /** Index of the first added key at or after the cursor. */
  #next: number

  constructor(cursor: Cursor, removed: readonly Buffer[], added: readonly Buffer[], next: number) {
    this.#cursor = cursor
    this.#removed = removed
    this.#added = added
    this.#next = next
    this.#passRemoved('next')
  }

  get key(): Buffer | undefined {
    const added = this.#added[this.#next]
    const kept = this.#cursor.key
    return this.#isAddedFirst(added, kept) ? added : kept
  }

  get place(): number {
    const key = this.key as Buffer
    return positionOf(key, key.length - POSITION_BYTES)
  }

  hasTupleOf(other: Buffer): boolean {
    const { key } = this
    return key !== undefined && tupleOf(key).equals(tupleOf(other))
  }

  next(): void {
    if (this.#isAddedFirst(this.#added[this.#next], this.#cursor.key)) this.#next++
    else {
      this.#cursor.next()
      this.#passRemoved('next')
    }
  }

  previous(): void {
    // Both candidates lie before the current key: the tree's previous key, and the added key before `#next`.
    this.#cursor.previous()
    this.#passRemoved('previous')
    const added = this.#added[this.#next - 1]
    const kept = this.#cursor.key
    // The higher of the two is the previous key.
    if (!added || (kept && kept.compare(added) > 0)) {
      if (!kept) this.#next = -1
      return
    }
    // The added key is the current one now, so the tree's cursor returns to where it was.
    this.#next--
    this.#cursor.next()
    this.#passRemoved('next')
  }

  #isAddedFirst(added: Buffer | undefined, kept: Buffer | undefined): boolean {
    return added !== undefined && (kept === undefined || added.compare(kept) < 0)
  }

  /** Moves the tree's cursor over removed keys. */
  #passRemoved(to: 'next' | 'previous'): void {
    for (let { key } = this.#cursor; key && has(this.#removed, key); { key } = this.#cursor) this.#cursor[to]()
  }
}

/** Number of keys below `key`; the keys must be in order. */
function below(keys: readonly Buffer[], key: Buffer): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((keys[middle] as Buffer).compare(key) < 0) low = middle + 1
    else high = middle
  }
  return low
}

function between(keys: readonly Buffer[], from: Buffer, to: Buffer): number {
  return below(keys, to) - below(keys, from)
}

function has(keys: readonly Buffer[], key: Buffer): boolean {
  return keys[below(keys, key)]?.equals(key) ?? false
}
