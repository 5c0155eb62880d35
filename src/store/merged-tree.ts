import type { Turn } from '../runtime/turns.ts'
import { POSITION_BYTES, positionOf } from './keys.ts'
import { type Cursor, type KeyCursor, type OrderedKeys, type Tree, tupleOf } from './tree.ts'

/**
 * A tree as it was before a few items changed: some of its keys are skipped, and others are added. Both are lists in memory,
 * so that counting them between two keys is a binary search.
 */
export class MergedTree implements OrderedKeys {
  readonly #tree: Tree
  /** Skipped keys, in order. */
  readonly #without: readonly Buffer[]
  /** Added keys, in order. None of them is in the tree, except among the skipped ones. */
  readonly #added: readonly Buffer[]

  private constructor(tree: Tree, without: readonly Buffer[], added: readonly Buffer[]) {
    this.#tree = tree
    this.#without = without
    this.#added = added
  }

  /** Both lists must be in order. */
  static of(tree: Tree, without: readonly Buffer[], added: readonly Buffer[]): OrderedKeys {
    return without.length + added.length === 0 ? tree : new MergedTree(tree, without, added)
  }

  async count(from: Buffer, to: Buffer, turn: Turn): Promise<number> {
    if (from.compare(to) >= 0) return 0
    const changed = between(this.#added, from, to) - between(this.#without, from, to)
    return changed + (await this.#tree.count(from, to, turn))
  }

  async seek(from: Buffer, turn: Turn, skipped = 0): Promise<KeyCursor> {
    // Changed keys before `from`, which are not counted.
    const added = below(this.#added, from)
    const without = below(this.#without, from)
    const { cursor, before } = await this.#tree.find(from, skipped, turn, {
      shiftAt: (key) => below(this.#added, key) - added - (below(this.#without, key) - without),
      removed: this.#without.length - without,
    })
    const { key } = cursor
    // Before the cursor lie `before - removed` keys that remain. The rest of `skipped` are added ones.
    const removed = (key ? below(this.#without, key) : this.#without.length) - without
    const next = Math.min(this.#added.length, added + skipped - (before - removed))
    return new MergedCursor(cursor, this.#without, this.#added, next)
  }
}

/**
 * Merges the keys of the tree with the added ones. Between two calls, neither `#cursor` nor `#added[#next]` is before the
 * current key, which is the lower of the two, and `#cursor` is at no skipped key.
 */
class MergedCursor implements KeyCursor {
  readonly #cursor: Cursor
  readonly #without: readonly Buffer[]
  readonly #added: readonly Buffer[]
  /** Index of the first added key at or after the cursor. */
  #next: number

  constructor(cursor: Cursor, without: readonly Buffer[], added: readonly Buffer[], next: number) {
    this.#cursor = cursor
    this.#without = without
    this.#added = added
    this.#next = next
    this.#pass('next')
  }

  get key(): Buffer | undefined {
    const ours = this.#added[this.#next]
    const theirs = this.#cursor.key
    return this.#isOurs(ours, theirs) ? ours : theirs
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
    if (this.#isOurs(this.#added[this.#next], this.#cursor.key)) this.#next++
    else {
      this.#cursor.next()
      this.#pass('next')
    }
  }

  previous(): void {
    // Both candidates lie before the current key: the tree's previous key, and the added key before `#next`.
    this.#cursor.previous()
    this.#pass('previous')
    const ours = this.#added[this.#next - 1]
    const theirs = this.#cursor.key
    // The higher of the two is the previous key.
    if (!ours || (theirs && theirs.compare(ours) > 0)) {
      if (!theirs) this.#next = -1
      return
    }
    // The added key is the current one now, so the tree's cursor returns to where it was.
    this.#next--
    this.#cursor.next()
    this.#pass('next')
  }

  #isOurs(ours: Buffer | undefined, theirs: Buffer | undefined): boolean {
    return ours !== undefined && (theirs === undefined || ours.compare(theirs) < 0)
  }

  /** Skips keys in the given direction. */
  #pass(to: 'next' | 'previous'): void {
    for (let { key } = this.#cursor; key && has(this.#without, key); { key } = this.#cursor) this.#cursor[to]()
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
