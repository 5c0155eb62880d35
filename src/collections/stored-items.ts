import { type ItemId, OBJECT_ID, type Position } from '../events/event.ts'
import { positionOf } from '../store/keys.ts'
import type { Pin } from '../store/store.ts'
import type { ExpiredIds } from './expired-ids.ts'
import { BLOCK, blockOf, type Gaps } from './gaps.ts'
import {
  canonicalInteger,
  type Item,
  idInRecord,
  isItem,
  isTombstone,
  metadataOf,
  type Tombstone,
  type TombstoneAt,
} from './item.ts'
import type { Table } from './table.ts'

/** The stored properties of a collection, without its items. */
export interface CollectionFacts {
  readonly name: string
  /** False before its creation and after its removal; past ids are remembered nevertheless. */
  readonly exists: boolean
  /** Whether it is a single object, or was one when it was removed. */
  readonly isObject: boolean
  /** The integer that the next POST gets: one above the highest used since the last reset of ids. */
  readonly nextId: number
  /** Above all integer ids that were ever assigned, which need no lookup from here on. */
  readonly unusedId: number
  readonly textIds: number
  /** Position of the last event that concerned it. */
  readonly position: Position
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  /** The number of the table with its items. */
  readonly table: number
  /** Position of the event since which the items have this order; 0 for the original order. */
  readonly ordered: Position
  /** The integer id at place 0, -1 for another id; undefined if there is none, or an earlier version did not store it. */
  readonly firstId: number | undefined
  /** The rule with which items expired last, or which was confirmed. */
  readonly rule: string | undefined
}

/** The items of a collection at one moment. */
export interface CollectionItems {
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  itemAt(place: number): Item | undefined
  /** The first place at or after `place` that has an item; `places` if there is none. */
  seek(place: number): number
  /** The place of the nth item, counting from 0; `places` if there is none. */
  nth(nth: number): number
  /** The place of an item; undefined if it does not exist. */
  placeOf(id: ItemId): number | undefined
  item(key: string): Item | undefined
}

export const NO_ITEMS: CollectionItems = {
  size: 0,
  places: 0,
  itemAt: () => undefined,
  seek: () => 0,
  nth: () => 0,
  placeOf: () => undefined,
  item: () => undefined,
}

export function* itemsIn(items: Pick<CollectionItems, 'places' | 'seek' | 'itemAt'>): Generator<Item> {
  for (let place = items.seek(0); place < items.places; place = items.seek(place + 1)) {
    yield items.itemAt(place) as Item
  }
}

/** Whether the items are those of a single object. */
export function holdsObject(items: { item(key: string): Item | undefined }): boolean {
  return items.item(OBJECT_ID) !== undefined
}

/** Reads the items of a collection in the store, as of one position. */
export abstract class StoredItems implements CollectionItems {
  abstract readonly facts: CollectionFacts
  /** The position at which they are read. */
  abstract readonly at: Position
  protected abstract readonly table: Table
  protected abstract readonly gaps: Gaps
  protected abstract readonly expiredIds: ExpiredIds

  get name(): string {
    return this.facts.name
  }

  get size(): number {
    return this.facts.size
  }

  get places(): number {
    return this.facts.places
  }

  get(key: string): Item | Tombstone | undefined {
    if (isUnused(key, this.facts.unusedId)) return undefined
    const entry = this.table.entryOf(key, this.at, this.places)
    if (isItem(entry)) return entry
    const expired = this.expiredIds.find(key, this.at)
    // It may have been deleted, created again, and have expired.
    return expired && expired.position > (entry?.position ?? 0)
      ? { revision: expired.revision, position: expired.position }
      : entry
  }

  /** The positions of the last event of an item, existing or deleted, and of the one before, 0 if there is none. */
  lastEventsOf(key: string): { readonly position: Position; readonly prior: Position } | undefined {
    const { table, at, places } = this
    const place = isUnused(key, this.facts.unusedId) ? undefined : table.placeOf(key, at, places)
    const record = place === undefined ? undefined : table.copyAt(place, at)
    const expired = record && !isTombstone(record) ? undefined : this.expiredIds.find(key, at)
    if (!record || (expired && expired.position > positionOf(record))) return expired
    return { position: positionOf(record), prior: metadataOf(record).prior }
  }

  item(key: string): Item | undefined {
    const entry = this.table.entryOf(key, this.at, this.places)
    return isItem(entry) ? entry : undefined
  }

  itemAt(place: number): Item | undefined {
    return place < this.places ? (this.table.itemAt(place, this.at) ?? this.#checkEmpty(place)) : undefined
  }

  /** Throws if the item was lost: `seek` takes it for granted that a block without empty places has an item at each. */
  #checkEmpty(place: number): undefined {
    if (this.gaps.emptyIn(blockOf(place)) === 0) throw this.table.lostRecord(place)
  }

  placeOf(id: ItemId): number | undefined {
    return this.table.placeOfItem(id, this.at, this.places)
  }

  seek(place: number): number {
    const { table, gaps, places, at } = this
    // Invariant: no place from `place` to before `from` has an item.
    for (let from = Math.max(place, gaps.first * BLOCK); from < places; ) {
      const block = blockOf(from)
      const empty = gaps.emptyIn(block)
      if (empty === 0) return from
      const end = Math.min(places, (block + 1) * BLOCK)
      const found = empty === BLOCK ? end : table.seek(from, end, at)
      if (found < end) return found
      from = end
    }
    return places
  }

  nth(nth: number): number {
    if (nth >= this.size) return this.places
    const { block, before } = this.gaps.blockWith(nth, this.places)
    if (this.gaps.emptyIn(block) === 0) return block * BLOCK + nth - before
    let place = this.seek(block * BLOCK)
    for (let passed = before; passed < nth; passed++) place = this.seek(place + 1)
    return place
  }

  /** The last place before `place` that has an item; undefined if there is none. */
  seekBack(place: number): number | undefined {
    // Invariant: no place from `end` to before `place` has an item.
    for (let end = Math.min(place, this.places); end > this.gaps.first * BLOCK; ) {
      const begin = blockOf(end - 1) * BLOCK
      let last: number | undefined
      if (this.gaps.emptyIn(blockOf(begin)) < BLOCK)
        for (let at = this.seek(begin); at < end; at = this.seek(at + 1)) last = at
      if (last !== undefined) return last
      end = begin
    }
    return undefined
  }

  items(): Generator<Item> {
    return itemsIn(this)
  }
}

/** The items of a collection as of one position, until released. */
export class PinnedCollection extends StoredItems {
  readonly facts: CollectionFacts
  readonly at: Position
  protected readonly table: Table
  protected readonly gaps: Gaps
  protected readonly expiredIds: ExpiredIds
  readonly #pin: Pin

  constructor(facts: CollectionFacts, table: Table, gaps: Gaps, expiredIds: ExpiredIds, pin: Pin) {
    super()
    this.facts = facts
    this.expiredIds = expiredIds
    this.at = pin.position
    this.table = table
    this.gaps = gaps
    this.#pin = pin
  }

  /** The record at a place, of an item or of a deleted one. */
  metadataAt(place: number): Omit<TombstoneAt, 'revision'> & { readonly isTombstone: boolean } {
    const { record } = this.table.headAt(place, this.at) ?? {}
    if (!record) throw this.table.lostRecord(place)
    const { prior, since } = metadataOf(record)
    return { id: idInRecord(record), position: positionOf(record), prior, since, isTombstone: isTombstone(record) }
  }

  /** The places whose last changes have one row: this one, and those of deleted items in its block. */
  placesChangedWith(place: number): Iterable<number> {
    return new Set([place, ...this.table.sharedTombstones(place, this.at).keys()])
  }

  /** The number of items before a place. */
  itemsBefore(place: number): number {
    const block = blockOf(place)
    let count = this.gaps.itemsBefore(block)
    const begin = block * BLOCK
    for (let at = begin < place ? this.seek(begin) : place; at < place; at = this.seek(at + 1)) count++
    return count
  }

  release(): void {
    this.#pin.release()
  }
}

/** Whether a key spells an integer that was never assigned; `unusedId` is above all assigned ones. */
export function isUnused(key: string, unusedId: number): boolean {
  return (canonicalInteger(key) ?? -1) >= unusedId
}
