import type { Steps } from '../runtime/steps.ts'
import { POSITION_BYTES, positionOf } from './bytes.ts'
import { type Cursor, type KeyCursor, type OrderedKeys, type Tree, tupleOf } from './tree.ts'

/** A tree as it was before a few items changed: some of its keys are skipped, and others are added. */
export class MergedTree implements OrderedKeys {
  readonly #tree: Tree
  /** Skipped keys, in order. */
  readonly #without: readonly Buffer[]
  /** For each skipped key, its rank in the tree. */
  readonly #ranks: readonly number[]
  /** Added keys, in order. None of them is in the tree, except among the skipped ones. */
  readonly #added: readonly Buffer[]

  private constructor(tree: Tree, without: readonly Buffer[], ranks: readonly number[], added: readonly Buffer[]) {
    this.#tree = tree
    this.#without = without
    this.#ranks = ranks
    this.#added = added
  }

  /** Both lists must be in order. */
  static *of(tree: Tree, without: readonly Buffer[], added: readonly Buffer[]): Steps<OrderedKeys> {
    if (without.length + added.length === 0) return tree
    const ranks: number[] = []
    for (const key of without) {
      ranks.push(yield* tree.rank(key))
      yield
    }
    return new MergedTree(tree, without, ranks, added)
  }

  *rank(key: Buffer): Steps<number> {
    return (yield* this.#tree.rank(key)) - below(this.#without, key) + below(this.#added, key)
  }

  *nth(rank: number): Steps<KeyCursor> {
    // Binary search for the number of added keys before the result.
    let low = 0
    let high = this.#added.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const key = this.#added[middle] as Buffer
      if (middle + (yield* this.#tree.rank(key)) - below(this.#without, key) < rank) low = middle + 1
      else high = middle
    }
    return this.#cursor(yield* this.#tree.nth(this.#rankOf(rank - low)), low)
  }

  *from(key: Buffer): Steps<KeyCursor> {
    return this.#cursor(yield* this.#tree.from(key), below(this.#added, key))
  }

  #cursor(cursor: Cursor, added: number): KeyCursor {
    return new MergedCursor(cursor, this.#without, this.#added, added)
  }

  /** Converts the rank among the keys that are not skipped into the rank in the tree. */
  #rankOf(nth: number): number {
    let low = 0
    let high = this.#ranks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#ranks[middle] as number) - middle <= nth) low = middle + 1
      else high = middle
    }
    return nth + low
  }
}

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
    this.#cursor.previous()
    this.#pass('previous')
    const ours = this.#added[this.#next - 1]
    const theirs = this.#cursor.key
    // The higher of the two is the previous key.
    if (!ours || (theirs && theirs.compare(ours) > 0)) {
      if (!theirs) this.#next = -1
      return
    }
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

function has(keys: readonly Buffer[], key: Buffer): boolean {
  return keys[below(keys, key)]?.equals(key) ?? false
}
