import { lowerBound } from '../runtime/chunked-list.ts'
import {
  leastTimeKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  TAG,
  tableKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/*
 * The rows of a table that count its empty places. A place is empty if its item was deleted or has expired.
 *
 * | Row | Value |
 * |---|---|
 * | of the table | 6 bytes: the first block with items or with places to be assigned; missing: the first block of all |
 * | of a block | 2 bytes: the number of empty places, then, if it is not zero, 2 bytes: the number of those whose items have expired |
 */

/** Places in a block. A block with empty places is scanned to find the nth item in it. */
export const BLOCK = 512

export function blockOf(place: number): number {
  return Math.floor(place / BLOCK)
}

/** The empty places of a block. */
export interface EmptyPlaces {
  readonly empty: number
  /** Those whose items have expired, which have neither a record nor a tombstone. */
  readonly expired: number
}

const NO_EMPTY: EmptyPlaces = { empty: 0, expired: 0 }

/** Changes of the empty places of a table. */
export interface GapChanges {
  readonly first: number
  readonly blocks: ReadonlyMap<number, EmptyPlaces>
}

/** Counts the places without items in each block, so that the nth item is found without visiting those before it. */
export class Gaps {
  /** The first block that may have items. */
  #first = 0
  /** For each block from the first one on. */
  #empty: number[] = []
  /** Items before each of these blocks, valid for the first `#counted` of them. */
  #before: number[] = [0]
  #counted = 1
  /** Whether another instance has the same arrays: they are copied before a change. */
  #areShared = false
  /** Empty places from the first block on. */
  #total = 0

  /** A copy that later changes do not affect. */
  copy(): Gaps {
    const copy = new Gaps()
    this.#areShared = true
    copy.#areShared = true
    copy.#first = this.#first
    copy.#empty = this.#empty
    copy.#before = this.#before
    copy.#counted = this.#counted
    copy.#total = this.#total
    return copy
  }

  get first(): number {
    return this.#first
  }

  emptyIn(block: number): number {
    return block < this.#first ? BLOCK : (this.#empty[block - this.#first] ?? 0)
  }

  set(block: number, empty: number): void {
    if (block < this.#first) return
    this.#own()
    const at = block - this.#first
    while (this.#empty.length <= at) this.#empty.push(0)
    this.#total += empty - (this.#empty[at] as number)
    this.#empty[at] = empty
    this.#counted = Math.min(this.#counted, at + 1)
  }

  /** Blocks before this one have no items any more, and are forgotten. */
  begin(first: number): void {
    const count = first - this.#first
    if (count <= 0) return
    this.#empty = this.#empty.slice(count)
    this.#before = [0]
    this.#counted = 1
    this.#areShared = false
    this.#first = first
    this.#total = this.#empty.reduce((sum, empty) => sum + empty, 0)
  }

  itemsBefore(block: number): number {
    const blocks = Math.max(0, block - this.#first)
    if (this.#total === 0) return blocks * BLOCK
    this.#count(blocks + 1)
    return this.#before[blocks] as number
  }

  /** The block of the nth item, and the number of items before that block; `places` is above all places. */
  blockWith(nth: number, places: number): { readonly block: number; readonly before: number } {
    if (this.#total === 0) {
      const blocks = Math.floor(nth / BLOCK)
      return { block: this.#first + blocks, before: blocks * BLOCK }
    }
    const end = Math.ceil(places / BLOCK) - this.#first
    this.#count(end)
    const at = Math.min(lowerBound(this.#before, nth + 1), end) - 1
    return { block: this.#first + at, before: this.#before[at] as number }
  }

  #count(blocks: number): void {
    for (; this.#counted < blocks; this.#counted++) {
      const last = this.#counted - 1
      this.#before[this.#counted] = (this.#before[last] as number) + BLOCK - (this.#empty[last] ?? 0)
    }
  }

  #own(): void {
    if (!this.#areShared) return
    this.#empty = this.#empty.slice()
    this.#before = this.#before.slice()
    this.#areShared = false
  }
}

/** The empty places of a table, as stored. */
export function gapsOf(store: Store, table: number): Gaps {
  const gaps = new Gaps()
  const prefix = tableKey(TAG.gaps, table)
  for (const { key, value } of store.rows(prefix, prefixEnd(prefix))) {
    if (key.length === prefix.length) gaps.begin(positionOf(value))
    else gaps.set(positionOf(key, prefix.length), value.readUInt16BE(0))
  }
  return gaps
}

/** Whether a place may have no record because its item has expired. */
export function mayHaveExpired(store: Store, table: number, place: number): boolean {
  return storedEmptyPlaces(store, table, blockOf(place)).expired > 0 || blockOf(place) < storedFirstBlock(store, table)
}

export function storedFirstBlock(store: Store, table: number): number {
  const row = store.newest(tableKey(TAG.gaps, table))
  return row ? positionOf(row) : 0
}

export function storedEmptyPlaces(store: Store, table: number, block: number): EmptyPlaces {
  const row = store.newest(gapsKey(table, block))
  if (!row) return NO_EMPTY
  return { empty: row.readUInt16BE(0), expired: row.length > 2 ? row.readUInt16BE(2) : 0 }
}

/** In a transaction. */
export function saveGaps(store: Store, table: number, blocks: Iterable<readonly [number, EmptyPlaces]>): void {
  for (const [block, { empty, expired }] of blocks) {
    const value = Buffer.allocUnsafe(expired > 0 ? 4 : 2)
    value.writeUInt16BE(empty, 0)
    if (expired > 0) value.writeUInt16BE(expired, 2)
    store.set(gapsKey(table, block), value)
  }
}

/** Removes the rows of the blocks before the first one. In a transaction. */
export function saveFirstBlock(store: Store, table: number, before: number, first: number): void {
  for (let block = before; block < first; block++) {
    store.remove(gapsKey(table, block))
    store.remove(leastTimeKey(table, block))
  }
  const value = Buffer.allocUnsafe(POSITION_BYTES)
  putPosition(value, 0, first)
  store.set(tableKey(TAG.gaps, table), value)
}

function gapsKey(table: number, block: number): Buffer {
  return numberedKey(TAG.gaps, table, block)
}
