import { countOfExpired, type ItemId, type ItemsExpired, type Position } from '../events/event.ts'
import { Document } from '../json/document.ts'
import {
  HIGHEST,
  itemEventKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  TAG,
  tableKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { FoldedItems } from './collection.ts'
import { ExpiredIds } from './expired-ids.ts'
import {
  BLOCK,
  blockOf,
  type EmptyPlaces,
  type GapChanges,
  saveFirstBlock,
  saveGaps,
  storedEmptyPlaces,
  storedFirstBlock,
} from './gaps.ts'
import {
  canonicalInteger,
  decodeTombstone,
  type EventMetadata,
  type Item,
  idInRecord,
  integerAfter,
  isTombstone,
  keyOf,
  metadataOf,
  recordIn,
  recordOf,
  type Tombstone,
} from './item.ts'
import { type CollectionFacts, isUnused } from './stored-items.ts'
import { Table } from './table.ts'

/** The item at a place is created, replaced or removed. */
export interface TableChange {
  readonly table: number
  readonly collection: string
  readonly place: number
  readonly key: string
  readonly before: Document | undefined
  readonly after: Document | undefined
  /** The time of the event, in milliseconds since 1970. */
  readonly timeMs: number
}

/** Receives changes of the items of some tables, in the transactions that write them. */
export interface TableObserver {
  isObserved(table: number, collection: string): boolean
  changed(change: TableChange): void
}

/** An item, existing or deleted, with its place in a new table. */
interface MovedItem {
  readonly key: string
  readonly place: number
  readonly record: Buffer
}

/** Where the item of a key is, or was. */
interface ItemLocation {
  readonly key: string
  readonly place: number | undefined
  /** Undefined if it is deleted. */
  readonly id: ItemId | undefined
  readonly since: Position
  readonly prior: Position
  readonly position: Position
}

/**
 * A collection while it is written: `evolve` stores changes here, which readers do not see until their position has
 * passed. In transactions.
 */
export class CollectionWriter implements FoldedItems {
  /** With all changes so far. */
  readonly facts: { -readonly [Name in keyof CollectionFacts]: CollectionFacts[Name] }
  readonly #store: Store
  readonly #number: number
  readonly #observers: readonly TableObserver[]
  readonly #expiredIds: ExpiredIds
  #table: Table
  /** The first block that may have items. */
  #firstBlock: number
  /** The empty places in the blocks where these have changed since readers last saw them. */
  #gaps = new Map<number, EmptyPlaces>()
  /** False if they may have changed in other blocks, too. */
  #areGapsKnown = true
  /** Blocks that are not stored yet. */
  readonly #unsaved = new Set<number>()
  /** The item that was looked up last, until it is put or removed. */
  #found: ItemLocation | undefined

  /** @param number that of the collection in the store */
  constructor(store: Store, number: number, facts: CollectionFacts, observers: readonly TableObserver[]) {
    this.#store = store
    this.#number = number
    this.#observers = observers
    this.#expiredIds = new ExpiredIds(store, number)
    this.facts = { ...facts }
    this.#table = new Table(store, facts.table)
    this.#table.firstId = facts.firstId
    this.#firstBlock = storedFirstBlock(store, facts.table)
  }

  /** The empty places in changed blocks; undefined if any may have changed. */
  get gaps(): GapChanges | undefined {
    return this.#areGapsKnown ? { first: this.#firstBlock, blocks: this.#gaps } : undefined
  }

  /** Called when readers see all changes so far. */
  markVisible(): void {
    this.#gaps = new Map()
    this.#areGapsKnown = true
  }

  /** Continues a write of which a part was stored earlier: the changed blocks are unknown. */
  withUnknownGaps(): this {
    this.#areGapsKnown = false
    return this
  }

  idOf(key: string): ItemId | undefined {
    return this.#locate(key).id
  }

  #locate(key: string): ItemLocation {
    if (this.#found?.key === key) return this.#found
    const isNew = isUnused(key, this.facts.unusedId)
    const { place, record } = (isNew ? undefined : this.#table.find(key, HIGHEST, this.facts.places)) ?? {}
    const { since, prior } = record ? metadataOf(record) : { since: 0, prior: 0 }
    const position = record ? positionOf(record) : 0
    const id = record && !isTombstone(record) ? idInRecord(record) : undefined
    // It may have been deleted, created again, and have expired.
    const expired = isNew || id !== undefined ? undefined : this.#expiredIds.find(key, HIGHEST)
    const last = expired && expired.position > position ? expired : { position, prior }
    this.#found = { key, place, id, since, prior: last.prior, position: last.position }
    return this.#found
  }

  put(item: Item, metadata: EventMetadata, document: Document): void {
    const { key } = item
    const found = this.#location(key)
    const isThere = found.id !== undefined
    const place = isThere ? (found.place as number) : this.facts.places++
    const since = isThere ? found.since : item.position
    this.#notifyObservers(key, place, isThere, item.timeMs, document)
    this.#putEarlierEvent(found)
    if (isThere) {
      if (found.position > since) this.#table.removeChange(found.position)
      this.#table.putChange(place, item.position)
    }
    const record = recordOf(item, { since, ...metadata })
    if (isThere) this.#table.putRecord(place, record)
    else {
      this.#table.addRecord(place, record)
      this.facts.size++
      if (place === 0) this.facts.firstId = this.#table.firstId = canonicalInteger(key) ?? -1
      this.#table.putPlace(key, place, found.place !== undefined, item.position)
    }
    this.facts.unusedId = Math.max(this.facts.unusedId, integerAfter(item.id))
  }

  remove(id: ItemId, tombstone: Tombstone, { prior, timeMs }: EventMetadata, hasExpired: boolean): void {
    const found = this.#location(keyOf(id))
    const { key, place, since } = found
    if (found.id === undefined || place === undefined) return
    const { position, revision } = tombstone
    this.#notifyObservers(key, place, true, timeMs)
    this.#putEarlierEvent(found)
    if (found.position > since) this.#table.removeChange(found.position)
    if (hasExpired) {
      // An earlier version did not store it.
      this.facts.firstId ??= this.#table.firstId
      this.#table.removeExpired(key, place, position)
      this.#expiredIds.add(key, { revision, position, prior })
    } else {
      this.#table.removeRecord(place, position)
      this.#table.addTombstone(place, { id, ...tombstone, since, prior })
    }
    this.facts.size--
    this.#countEmpty(place, hasExpired)
  }

  /** After the items of the event were removed. */
  noteExpiry(event: ItemsExpired, position: Position): void {
    this.facts.rule = event.rule
    this.#table.putExpiry(position, countOfExpired(event))
  }

  /** An item has the positions of its last two events. Earlier ones have rows, each with the position of the next one. */
  #putEarlierEvent({ key, prior, position }: ItemLocation): void {
    if (prior === 0) return
    const next = Buffer.allocUnsafe(POSITION_BYTES)
    putPosition(next, 0, position)
    this.#store.set(itemEventKey(this.#number, key, prior), next)
  }

  /**
   * Moves the items with these ids in their order, then all others, into a new table, which becomes the collection's with the
   * last step. Each step writes little, within the caller's transaction, and yields the item that it moved, if any. `position` is
   * of the event that orders them.
   */
  *reorder(ids: readonly ItemId[], newTable: number, position: Position): Generator<MovedItem | undefined, void> {
    const before = this.#table
    const table = new Table(this.#store, newTable)
    const gaps = new Map<number, EmptyPlaces>()
    let places = 0
    const move = (key: string, record: Buffer): MovedItem => {
      const place = places++
      if (isTombstone(record)) {
        gaps.set(blockOf(place), { empty: (gaps.get(blockOf(place))?.empty ?? 0) + 1, expired: 0 })
        table.addTombstone(place, { ...decodeTombstone(record), since: position })
      } else table.addRecord(place, { ...recordIn(record), since: position })
      if (place === 0) table.firstId = canonicalInteger(key) ?? -1
      table.putPlace(key, place, false, position)
      return { key, place, record }
    }
    const isMoved = (key: string): boolean => table.placeOf(key, HIGHEST, places) !== undefined
    for (const id of ids) {
      const key = keyOf(id)
      const place = isMoved(key) ? undefined : before.placeOf(key, HIGHEST, this.facts.places)
      const record = place === undefined ? undefined : before.copyAt(place, HIGHEST)
      if (!record || isTombstone(record)) continue
      yield move(key, record)
    }
    // Deleted items come after all others.
    for (const areTombstones of [false, true]) {
      for (let place = before.next(0); place !== undefined; place = before.next(place + 1)) {
        const record = before.copyAt(place, HIGHEST)
        let moved: MovedItem | undefined
        if (isTombstone(record) === areTombstones) {
          const key = keyOf(idInRecord(record))
          // An item that was created again left a tombstone at its earlier place, which is dropped.
          const isLatest = before.placeOf(key, HIGHEST, this.facts.places) === place
          if (isLatest && !isMoved(key)) moved = move(key, record)
        }
        yield moved
      }
    }
    this.#table = table
    this.facts.table = newTable
    this.facts.firstId = table.firstId
    this.facts.ordered = position
    this.#firstBlock = 0
    this.#gaps = gaps
    this.#unsaved.clear()
    for (const block of gaps.keys()) this.#unsaved.add(block)
    this.facts.places = places
  }

  /** Stores the properties that are not in the rows of items. */
  save(): void {
    this.#store.set(numberedKey(TAG.collection, 0, this.#number), Buffer.from(encodeFacts(this.facts)))
    const changed = [...this.#unsaved].filter((block) => block >= this.#firstBlock)
    saveGaps(
      this.#store,
      this.#table.number,
      changed.map((block) => [block, this.#gaps.get(block) as EmptyPlaces] as const),
    )
    this.#unsaved.clear()
    this.#table.save()
    this.#expiredIds.save()
  }

  /** Where the item of a key is, before it is put or removed. */
  #location(key: string): ItemLocation {
    const found = this.#locate(key)
    this.#found = undefined
    return found
  }

  #notifyObservers(key: string, place: number, wasThere: boolean, timeMs: number, after?: Document): void {
    const { number } = this.#table
    let before: Document | undefined
    for (const observer of this.#observers) {
      if (!observer.isObserved(number, this.facts.name)) continue
      if (wasThere) before ??= new Document((this.#table.itemAt(place, HIGHEST) as Item).text)
      observer.changed({ table: number, collection: this.facts.name, place, key, before, after, timeMs })
    }
  }

  #countEmpty(place: number, hasExpired: boolean): void {
    const block = blockOf(place)
    const { empty, expired } = this.#emptyIn(block)
    this.#gaps.set(block, { empty: empty + 1, expired: hasExpired ? expired + 1 : expired })
    this.#unsaved.add(block)
    if (!hasExpired) return
    const before = this.#firstBlock
    while (this.#emptyIn(this.#firstBlock).empty === BLOCK) this.#firstBlock++
    if (this.#firstBlock > before) saveFirstBlock(this.#store, this.#table.number, before, this.#firstBlock)
  }

  #emptyIn(block: number): EmptyPlaces {
    return this.#gaps.get(block) ?? storedEmptyPlaces(this.#store, this.#table.number, block)
  }
}

/** As releases before objects and resets stored them, unless the collection uses these; `nextId` is the unused id. */
type StoredFacts = Omit<CollectionFacts, 'isObject' | 'unusedId' | 'firstId' | 'rule'> & {
  readonly isObject?: true
  readonly resetNextId?: number
  readonly firstId?: number
  readonly rule?: string
}

function encodeFacts(facts: CollectionFacts): string {
  // Each property is named: an object spread takes ten times as long, and every write stores its collection.
  const { name, exists, textIds, position, size, places, table, ordered, nextId, unusedId, firstId, rule } = facts
  const isObject = facts.isObject || undefined
  const resetNextId = nextId < unusedId ? nextId : undefined
  const stored = {
    name,
    exists,
    textIds,
    position,
    size,
    places,
    table,
    ordered,
    isObject,
    nextId: unusedId,
    resetNextId,
    firstId,
    rule,
  }
  return JSON.stringify(stored satisfies Record<keyof StoredFacts, unknown>)
}

/** The stored collections by number, in the order of their creation. */
export function storedCollections(store: Store): Map<number, CollectionFacts> {
  const prefix = tableKey(TAG.collection, 0)
  const found = new Map<number, CollectionFacts>()
  for (const { key, value } of store.rows(prefix, prefixEnd(prefix))) {
    const { isObject = false, resetNextId, firstId, rule, ...facts } = JSON.parse(value.toString()) as StoredFacts
    const nextId = resetNextId ?? facts.nextId
    found.set(positionOf(key, prefix.length), { ...facts, isObject, nextId, unusedId: facts.nextId, firstId, rule })
  }
  return found
}
