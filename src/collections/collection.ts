import {
  type DomainEvent,
  existsAfter,
  type ItemChange,
  type ItemId,
  isItemEvent,
  itemChanges,
  type Position,
} from '../events/event.ts'
import type { Document } from '../json/document.ts'
import type { Pin, Store } from '../store/store.ts'
import { ExpiredIds } from './expired-ids.ts'
import { type GapChanges, type Gaps, gapsOf } from './gaps.ts'
import { type EventMetadata, Item, integerAfter, keyOf, type Tombstone } from './item.ts'
import { type CollectionFacts, type CollectionItems, PinnedCollection, StoredItems } from './stored-items.ts'
import { type ItemCache, Table } from './table.ts'

/** The state of a collection that can be queried. */
export interface CollectionState extends Readonly<FoldedFacts> {
  readonly name: string
  /** Above all integer ids that were ever assigned. */
  readonly unusedId: number
  /** The item, or the remains of a deleted one; undefined if it never existed. */
  get(key: string): Item | Tombstone | undefined
  /** The key of the item that has a natural key, or has lost it since the last flush while no other item got it. */
  holderOf(naturalKey: string): string | undefined
  /** The items in order. */
  items(): Iterable<Item>
  /** The items at their places. */
  readonly stored: CollectionItems
}

/** Where the natural keys of collections are looked up. */
interface NaturalKeyLookup {
  /** `table` is the one that readers see. */
  find(collection: string, table: number, naturalKey: string): string | undefined
}

/** A collection at the position that readers see. Its items have places, in its order. */
export class Collection extends StoredItems implements CollectionState {
  readonly #store: Store
  readonly #at: () => Position
  readonly #cache: ItemCache
  readonly #naturalKeys: NaturalKeyLookup
  #facts: CollectionFacts
  protected table: Table
  protected gaps: Gaps
  protected readonly expiredIds: ExpiredIds

  /** `at` returns the position that readers see, `number` is that of the collection in the store. */
  constructor(
    store: Store,
    number: number,
    facts: CollectionFacts,
    at: () => Position,
    cache: ItemCache,
    naturalKeys: NaturalKeyLookup,
  ) {
    super()
    this.#store = store
    this.#at = at
    this.#cache = cache
    this.#naturalKeys = naturalKeys
    this.#facts = facts
    this.table = new Table(store, facts.table, cache)
    this.table.firstId = facts.firstId
    this.expiredIds = new ExpiredIds(store, number)
    this.gaps = gapsOf(store, facts.table)
  }

  get facts(): CollectionFacts {
    return this.#facts
  }

  get at(): Position {
    return this.#at()
  }

  get exists(): boolean {
    return this.#facts.exists
  }

  get isObject(): boolean {
    return this.#facts.isObject
  }

  get nextId(): number {
    return this.#facts.nextId
  }

  get unusedId(): number {
    return this.#facts.unusedId
  }

  get textIds(): number {
    return this.#facts.textIds
  }

  get position(): Position {
    return this.#facts.position
  }

  get stored(): CollectionItems {
    return this
  }

  holderOf(naturalKey: string): string | undefined {
    return this.#naturalKeys.find(this.name, this.#facts.table, naturalKey)
  }

  /** The current items, readable until released. */
  held(): PinnedCollection {
    return this.pinned(this.#store.pin(this.at))
  }

  /** The current items, readable until the pin is released. */
  pinned(pin: Pin): PinnedCollection {
    return new PinnedCollection(this.#facts, this.table, this.gaps.copy(), this.expiredIds, pin)
  }

  /** Makes stored changes visible to readers. Undefined gaps: they may have changed in any block. */
  show(facts: CollectionFacts, gaps: GapChanges | undefined): void {
    const isOther = facts.table !== this.#facts.table
    if (isOther) this.table = new Table(this.#store, facts.table, this.#cache)
    if (isOther || !gaps) this.gaps = gapsOf(this.#store, facts.table)
    else {
      this.gaps.begin(gaps.first)
      for (const [block, { empty }] of gaps.blocks) this.gaps.set(block, empty)
    }
    this.table.firstId ??= facts.firstId
    this.#facts = facts
  }
}

/** The properties of a collection that its events change. */
export type FoldedFacts = {
  -readonly [Name in 'exists' | 'isObject' | 'nextId' | 'textIds' | 'position']: CollectionFacts[Name]
}

export interface FoldedItems {
  /** The id of the item with this key, if it exists. */
  idOf(key: string): ItemId | undefined
  /** `document` has the text of the item. */
  put(item: Item, metadata: EventMetadata, document: Document): void
  remove(id: ItemId, tombstone: Tombstone, metadata: EventMetadata, hasExpired: boolean): void
}

/** Applies an event to its collection, except its order. Commands and projections share this function. */
export function evolve(
  facts: FoldedFacts,
  items: FoldedItems,
  event: DomainEvent,
  position: Position,
  timeMs: number,
): void {
  facts.position = position
  if (isItemEvent(event)) evolveItem(facts, items, event, position, timeMs)
  else for (const change of itemChanges(event)) evolveItem(facts, items, change, position, timeMs)
  const exists = existsAfter(event)
  if (exists !== undefined) facts.exists = exists
  if (exists) facts.isObject = event.type === 'ObjectCreated'
  if (event.type === 'IdsReset') facts.nextId = event.nextId
}

export function evolveItem(
  facts: FoldedFacts,
  items: FoldedItems,
  change: ItemChange,
  position: Position,
  timeMs: number,
): void {
  const { id, revision, prior } = change
  if (facts.textIds > 0 && typeof items.idOf(keyOf(id)) === 'string') facts.textIds--
  if (!('item' in change)) {
    items.remove(id, { revision, position }, { prior, timeMs }, change.type === 'ItemExpired')
    return
  }
  if (typeof id === 'string') facts.textIds++
  items.put(new Item(id, change.item, revision, position, timeMs), { prior, timeMs }, change.item)
  facts.nextId = Math.max(facts.nextId, integerAfter(id))
}
