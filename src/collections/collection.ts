import { type DomainEvent, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import { positionOf } from '../store/bytes.ts'
import { prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Pin, Store } from '../store/store.ts'
import { BLOCK, blockOf, Gaps } from './gaps.ts'
import { canonicalInteger, type Gone, Item, integerOf, keyOf } from './item.ts'
import type { ItemCache } from './item-cache.ts'
import { isGone } from './item-record.ts'
import { Table } from './table.ts'

/** A collection as it may be asked. */
export interface CollectionState {
  readonly name: string
  /** False before its creation and after its removal; the ids it once had are remembered all the same. */
  readonly exists: boolean
  /** The integer that the next POST gets: one above the highest ever used. */
  readonly nextId: number
  /** How many of its items have an id that is text. */
  readonly textIds: number
  /** Of the last event that concerned it. */
  readonly position: Position
  /** The item, or what is left of it after its deletion; undefined when there never was one. */
  get(key: string): Item | Gone | undefined
  /** The items in their order. */
  items(): Iterable<Item>
}

/** When an event happened, and which event of the item came before it. */
export interface Moment {
  readonly prior: Position
  /** Milliseconds since 1970. */
  readonly timeMs: number
}

/** What the fold needs in order to write. */
export interface FoldTarget {
  exists: boolean
  nextId: number
  textIds: number
  position: Position
  /** The id of the item that has this key, if there is one. */
  idOf(key: string): ItemId | undefined
  put(item: Item, moment: Moment): void
  remove(id: ItemId, gone: Gone, moment: Moment): void
}

export function isItem(entry: Item | Gone | undefined): entry is Item {
  return entry instanceof Item
}

/** The one fold, for commands and projections alike: what an event makes of its collection, but for its order. */
export function evolve(target: FoldTarget, event: DomainEvent, position: Position, timeMs: number): void {
  target.position = position
  if (isItemEvent(event)) {
    const { id, revision, prior } = event
    if (typeof target.idOf(keyOf(id)) === 'string') target.textIds--
    if (event.type === 'ItemDeleted') {
      target.remove(id, { revision, position }, { prior, timeMs })
      return
    }
    if (typeof id === 'string') target.textIds++
    target.nextId = Math.max(target.nextId, (integerOf(id) ?? -1) + 1)
    target.put(new Item(id, event.item, revision, position), { prior, timeMs })
    return
  }
  switch (event.type) {
    case 'CollectionCreated':
      target.exists = true
      return
    case 'CollectionRemoved':
      target.exists = false
      return
    case 'CollectionOrdered':
      // The order is not a matter of one item.
      return
    default:
      event satisfies never
  }
}

/** Hears of every change of a collection, after it. */
export interface CollectionObserver {
  /** There is another item at the place, or the first. */
  put(place: number, item: Item): void
  removed(place: number): void
  /** Every item has another place now. */
  reordered(): void
}

/** What the store keeps of a collection, but for the items themselves. */
export interface CollectionFacts {
  readonly name: string
  readonly exists: boolean
  readonly nextId: number
  readonly textIds: number
  readonly position: Position
  /** How many items it has. */
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  /** Where its items are in the store. */
  readonly table: number
}

/** The items of a collection as they were at one position, whatever comes later, until it is released. */
export class PinnedCollection {
  readonly name: string
  readonly size: number
  /** Above the places of all items. */
  readonly places: number
  readonly #table: Table
  readonly #gaps: Gaps
  readonly #pin: Pin

  constructor({ name, size, places, table }: CollectionFacts, gaps: Gaps, store: Store, pin: Pin) {
    this.name = name
    this.size = size
    this.places = places
    this.#table = new Table(store, table)
    this.#gaps = gaps
    this.#pin = pin
  }

  get(key: string): Item | Gone | undefined {
    return this.#table.entryOf(key, this.#pin.position)
  }

  item(key: string): Item | undefined {
    return this.#table.itemOf(key, this.#pin.position)
  }

  itemAt(place: number): Item | undefined {
    return place < this.places ? this.#table.itemAt(place, this.#pin.position) : undefined
  }

  placeOf(id: ItemId): number | undefined {
    return this.#table.placeOfItem(id, this.#pin.position)
  }

  seek(place: number): number {
    return seek(this.#table, this.#gaps, place, this.places, this.#pin.position)
  }

  *items(): Generator<Item> {
    for (let place = this.seek(0); place < this.places; place = this.seek(place + 1)) {
      yield this.itemAt(place) as Item
    }
  }
}

/** A collection as the events up to the position that readers see have made it. Its items stand at places, in its order. */
export class Collection implements CollectionState {
  readonly name: string
  readonly #store: Store
  readonly #at: () => Position
  readonly #cache: ItemCache
  #facts: CollectionFacts
  #table: Table
  #gaps: Gaps
  #observer: CollectionObserver | undefined

  /** `at` is the position that readers see. */
  constructor(store: Store, facts: CollectionFacts, at: () => Position, cache: ItemCache) {
    this.name = facts.name
    this.#store = store
    this.#at = at
    this.#cache = cache
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

  get(key: string): Item | Gone | undefined {
    return isUnused(key, this.nextId) ? undefined : this.#table.entryOf(key, this.#at())
  }

  item(key: string): Item | undefined {
    return this.#table.itemOf(key, this.#at())
  }

  itemAt(place: number): Item | undefined {
    return place < this.places ? this.#table.itemAt(place, this.#at()) : undefined
  }

  /** The position of the last event of the item at a place; undefined where there is no item. */
  positionAt(place: number): Position | undefined {
    const record = this.#table.recordAt(place, this.#at())
    return record && !isGone(record) ? positionOf(record) : undefined
  }

  /** Where an item stands. */
  placeOf(id: ItemId): number | undefined {
    return this.#table.placeOfItem(id, this.#at())
  }

  *items(): Generator<Item> {
    for (let place = this.seek(0); place < this.places; place = this.seek(place + 1)) {
      yield this.#table.uncachedAt(place, this.#at()) as Item
    }
  }

  /** The items from the nth on, the first being 0. */
  slice(offset: number, size: number): Item[] {
    const found: Item[] = []
    if (offset >= this.size || size <= 0) return found
    const { block, before } = this.#gaps.blockWith(offset, this.places)
    let place = block * BLOCK
    if (this.#gaps.of(block) === 0) place += offset - before
    else for (let passed = before; passed <= offset; passed++) place = this.seek(passed === before ? place : place + 1)
    for (; place < this.places && found.length < size; place = this.seek(place + 1)) {
      found.push(this.itemAt(place) as Item)
    }
    return found
  }

  /** The first place from here on that has an item; `places` when there is none. */
  seek(place: number): number {
    return seek(this.#table, this.#gaps, place, this.places, this.#at())
  }

  /** The items as they are now, whatever comes later, until the pin of now is released. */
  pinned(pin: Pin): PinnedCollection {
    return new PinnedCollection(this.#facts, this.#gaps.copy(), this.#store, pin)
  }

  /** From now on one observer hears of the changes. */
  observe(observer: CollectionObserver): void {
    this.#observer = observer
  }

  /** Readers see what was written to the store; what is undefined of the blocks and places may be any of them. */
  show(
    facts: CollectionFacts,
    gaps: ReadonlyMap<number, number> | undefined,
    changes: readonly Change[] | undefined,
  ): void {
    const isOther = facts.table !== this.#facts.table
    if (isOther) this.#table = new Table(this.#store, facts.table, this.#cache)
    if (!changes) this.#cache.deleteTable(facts.table)
    else for (const { place } of changes) this.#cache.delete(facts.table, place)
    if (isOther || !gaps) this.#gaps = gapsOf(this.#store, facts.table)
    else for (const [block, empty] of gaps) this.#gaps.set(block, empty)
    this.#facts = facts
    if (!this.#observer) return
    if (!changes) this.#observer.reordered()
    else {
      for (const { place, item } of changes) {
        if (item) this.#observer.put(place, item)
        else this.#observer.removed(place)
      }
    }
  }
}

/** Whether a key spells an integer that no item has had yet; `nextId` is above all that were. */
export function isUnused(key: string, nextId: number): boolean {
  return (canonicalInteger(key) ?? -1) >= nextId
}

/** There is another item at a place, or none any more. */
export interface Change {
  readonly place: number
  readonly item: Item | undefined
}

/** The first place from one on that has an item, without a look at blocks that have none; `places` when there is none. */
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
