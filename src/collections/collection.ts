import { type DomainEvent, existsAfter, type ItemId, isItemEvent, OBJECT_ID, type Position } from '../events/event.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { positionOf } from '../store/bytes.ts'
import { prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Pin, Store } from '../store/store.ts'
import { BLOCK, blockOf, Gaps } from './gaps.ts'
import { canonicalInteger, Item, integerOf, keyOf, type Tombstone } from './item.ts'
import type { ItemCache } from './item-cache.ts'
import { idOf, isTombstone, metadataOf } from './item-record.ts'
import { Table } from './table.ts'

/** The state of a collection that can be queried. */
export interface CollectionState {
  readonly name: string
  /** False before its creation and after its removal; former ids are remembered nevertheless. */
  readonly exists: boolean
  /** Whether it is a single object, or was one when it was removed. */
  readonly isObject: boolean
  /** The integer that the next POST gets: one above the highest ever used. */
  readonly nextId: number
  /** Number of items with a text id. */
  readonly textIds: number
  /** Position of the last event that concerned it. */
  readonly position: Position
  /** The item, or the remains of a deleted one; undefined if it never existed. */
  get(key: string): Item | Tombstone | undefined
  /** The key of the item that has a natural key. */
  holderOf(naturalKey: string): string | undefined
  /** The items in order. */
  items(): Iterable<Item>
}

/** Where the natural keys of collections are looked up. */
export interface NaturalKeyLookup {
  find(collection: string, naturalKey: string): string | undefined
}

/** The time of an event, and the item's previous event. */
export interface Moment {
  readonly prior: Position
  /** Milliseconds since 1970. */
  readonly timeMs: number
}

/** The state that `evolve` changes. */
export interface FoldTarget {
  exists: boolean
  isObject: boolean
  nextId: number
  textIds: number
  position: Position
  /** The id of the item with this key, if it exists. */
  idOf(key: string): ItemId | undefined
  put(item: Item, moment: Moment): void
  remove(id: ItemId, tombstone: Tombstone, moment: Moment): void
}

export function isItem(entry: Item | Tombstone | undefined): entry is Item {
  return entry instanceof Item
}

/** Whether the items are those of a single object. */
export function holdsObject(items: { item(key: string): Item | undefined }): boolean {
  return items.item(OBJECT_ID) !== undefined
}

/** Applies an event to its collection, except CollectionOrdered. Commands and projections share this function. */
export function evolve(target: FoldTarget, event: DomainEvent, position: Position, timeMs: number): void {
  target.position = position
  const exists = existsAfter(event)
  if (exists !== undefined) target.exists = exists
  if (exists) target.isObject = event.type === 'ObjectCreated'
  if (isItemEvent(event)) {
    const { id, revision, prior } = event
    if (typeof target.idOf(keyOf(id)) === 'string') target.textIds--
    if (!('item' in event)) {
      target.remove(id, { revision, position }, { prior, timeMs })
      return
    }
    if (typeof id === 'string') target.textIds++
    target.nextId = Math.max(target.nextId, (integerOf(id) ?? -1) + 1)
    target.put(new Item(id, event.item, revision, position, timeMs), { prior, timeMs })
  }
}

/** The stored properties of a collection, without its items. */
export interface CollectionFacts {
  readonly name: string
  readonly exists: boolean
  /** Undefined for a list of items, so that its stored text is that of versions without objects. */
  readonly isObject: true | undefined
  readonly nextId: number
  readonly textIds: number
  readonly position: Position
  /** Number of items. */
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  /** The number of the table with its items. */
  readonly table: number
  /** Position of the event since which the items have this order; 0 for the original order. */
  readonly ordered: Position
}

/** The record at a place, of an item or of a deleted one. */
export interface ItemMetadata {
  readonly id: ItemId
  /** The position of the item's last event. */
  readonly position: Position
  /** The position of its event before that one, 0 if there is none. */
  readonly prior: Position
  /** The position since which the item has this place. */
  readonly since: Position
  readonly isTombstone: boolean
}

/** The items of a collection at one moment. */
export interface CollectionItems {
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  itemAt(place: number): Item | undefined
  /** The item at a place, for scans: bypasses the cache. */
  uncachedAt(place: number): Item | undefined
  /** The first place at or after `place` that has an item; `places` if there is none. */
  seek(place: number): number
  /** The place of the nth item, counting from 0; `places` if there is none. */
  nth(nth: number): Steps<number>
  /** The place of an item; undefined if it does not exist. */
  placeOf(id: ItemId): number | undefined
  item(key: string): Item | undefined
}

/** The items of a collection as of one position, until released. */
export class PinnedCollection implements CollectionItems {
  readonly facts: CollectionFacts
  readonly #table: Table
  readonly #gaps: Gaps
  readonly #pin: Pin

  constructor(facts: CollectionFacts, table: Table, gaps: Gaps, pin: Pin) {
    this.facts = facts
    this.#table = table
    this.#gaps = gaps
    this.#pin = pin
  }

  get name(): string {
    return this.facts.name
  }

  get size(): number {
    return this.facts.size
  }

  /** Above the places of all items. */
  get places(): number {
    return this.facts.places
  }

  /** The position at which it is read. */
  get at(): Position {
    return this.#pin.position
  }

  get(key: string): Item | Tombstone | undefined {
    return this.#table.entryOf(key, this.at, this.places)
  }

  item(key: string): Item | undefined {
    return this.#table.itemOf(key, this.at, this.places)
  }

  itemAt(place: number): Item | undefined {
    return place < this.places ? this.#table.itemAt(place, this.at) : undefined
  }

  uncachedAt(place: number): Item | undefined {
    return this.#table.uncachedAt(place, this.at)
  }

  /** The id, the last event and the position of arrival of the item at a place, existing or deleted. */
  metadataAt(place: number): ItemMetadata {
    const record = this.#table.recordAt(place, this.at)
    if (!record) throw this.#table.lacking(place)
    const { prior, since } = metadataOf(record)
    return {
      id: idOf(record),
      position: positionOf(record),
      prior,
      since,
      isTombstone: isTombstone(record),
    }
  }

  /** Number of items below a place. */
  below(place: number): number {
    const block = blockOf(place)
    let count = this.#gaps.before(block)
    for (let at = this.seek(block * BLOCK); at < place; at = this.seek(at + 1)) count++
    return count
  }

  placeOf(id: ItemId): number | undefined {
    return this.#table.placeOfItem(id, this.at, this.places)
  }

  seek(place: number): number {
    return seek(this.#table, this.#gaps, place, this.places, this.at)
  }

  // biome-ignore lint/correctness/useYield: a collection as it was takes longer
  *nth(nth: number): Steps<number> {
    if (nth >= this.size) return this.places
    const { block, before } = this.#gaps.blockWith(nth, this.places)
    if (this.#gaps.of(block) === 0) return block * BLOCK + nth - before
    let place = this.seek(block * BLOCK)
    for (let passed = before; passed < nth; passed++) place = this.seek(place + 1)
    return place
  }

  items(): Generator<Item> {
    return itemsIn(this)
  }

  release(): void {
    this.#pin.release()
  }
}

/** All items in order. */
export function* itemsIn(items: CollectionItems): Generator<Item> {
  for (let place = items.seek(0); place < items.places; place = items.seek(place + 1)) {
    yield items.uncachedAt(place) as Item
  }
}

/** A collection at the position that readers see. Its items have places, in its order. */
export class Collection implements CollectionState {
  readonly name: string
  readonly #store: Store
  readonly #at: () => Position
  readonly #cache: ItemCache
  readonly #naturalKeys: NaturalKeyLookup
  #facts: CollectionFacts
  #table: Table
  #gaps: Gaps

  /** `at` returns the position that readers see. */
  constructor(
    store: Store,
    facts: CollectionFacts,
    at: () => Position,
    cache: ItemCache,
    naturalKeys: NaturalKeyLookup,
  ) {
    this.name = facts.name
    this.#store = store
    this.#at = at
    this.#cache = cache
    this.#naturalKeys = naturalKeys
    this.#facts = facts
    this.#table = new Table(store, facts.table, cache)
    this.#gaps = gapsOf(store, facts.table)
  }

  get facts(): CollectionFacts {
    return this.#facts
  }

  get exists(): boolean {
    return this.#facts.exists
  }

  get isObject(): boolean {
    return this.#facts.isObject === true
  }

  get nextId(): number {
    return this.#facts.nextId
  }

  get textIds(): number {
    return this.#facts.textIds
  }

  get position(): Position {
    return this.#facts.position
  }

  get size(): number {
    return this.#facts.size
  }

  get places(): number {
    return this.#facts.places
  }

  get(key: string): Item | Tombstone | undefined {
    return isUnused(key, this.nextId) ? undefined : this.#table.entryOf(key, this.#at(), this.places)
  }

  item(key: string): Item | undefined {
    return this.#table.itemOf(key, this.#at(), this.places)
  }

  holderOf(naturalKey: string): string | undefined {
    return this.#naturalKeys.find(this.name, naturalKey)
  }

  itemAt(place: number): Item | undefined {
    return place < this.places ? this.#table.itemAt(place, this.#at()) : undefined
  }

  /** The place of an item. */
  placeOf(id: ItemId): number | undefined {
    return this.#table.placeOfItem(id, this.#at(), this.places)
  }

  *items(): Generator<Item> {
    for (let place = this.seek(0); place < this.places; place = this.seek(place + 1)) {
      yield this.#table.uncachedAt(place, this.#at()) as Item
    }
  }

  /** The first place at or after `place` that has an item; `places` if there is none. */
  seek(place: number): number {
    return seek(this.#table, this.#gaps, place, this.places, this.#at())
  }

  /** The current items, readable until released. */
  held(): PinnedCollection {
    return this.pinned(this.#store.pin(this.#at()))
  }

  /** The current items, readable until the pin is released. */
  pinned(pin: Pin): PinnedCollection {
    return new PinnedCollection(this.#facts, this.#table, this.#gaps.copy(), pin)
  }

  /**
   * Makes stored changes visible to readers. Undefined gaps or changes mean that any block or place may have changed.
   */
  show(
    facts: CollectionFacts,
    gaps: ReadonlyMap<number, number> | undefined,
    changes: ReadonlyMap<number, Item | undefined> | undefined,
  ): void {
    const isOther = facts.table !== this.#facts.table
    if (isOther) this.#table = new Table(this.#store, facts.table, this.#cache)
    if (!changes) this.#cache.deleteTable(facts.table)
    else for (const [place, item] of changes) this.#cache.replace(facts.table, place, item)
    if (isOther || !gaps) this.#gaps = gapsOf(this.#store, facts.table)
    else for (const [block, empty] of gaps) this.#gaps.set(block, empty)
    this.#facts = facts
  }
}

/** Whether a key spells an integer that was never assigned; `nextId` is above all assigned ones. */
export function isUnused(key: string, nextId: number): boolean {
  return (canonicalInteger(key) ?? -1) >= nextId
}

/** The first place at or after `place` that has an item, skipping empty blocks; `places` if there is none. */
function seek(table: Table, gaps: Gaps, place: number, places: number, at: Position): number {
  for (let from = place; from < places; ) {
    const block = blockOf(from)
    const empty = gaps.of(block)
    if (empty === 0) return from
    const end = Math.min(places, (block + 1) * BLOCK)
    const found = empty === BLOCK ? end : table.seek(from, end, at)
    if (found < end) return found
    from = end
  }
  return places
}

function gapsOf(store: Store, table: number): Gaps {
  const gaps = new Gaps()
  const prefix = tableKey(TAG.gaps, table)
  for (const { key, value } of store.rows(prefix, prefixEnd(prefix))) {
    gaps.set(positionOf(key, prefix.length), value.readUInt16BE(0))
  }
  return gaps
}
