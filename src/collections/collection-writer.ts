import type { ItemId, Position } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { HIGHEST, numberedKey, positionOf, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { FoldedItems } from './collection.ts'
import { blockOf } from './gaps.ts'
import {
  decodeTombstone,
  type EventMetadata,
  encodeItem,
  type Item,
  idInRecord,
  integerAfter,
  isTombstone,
  keyOf,
  metadataOf,
  setSince,
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
}

/** Receives changes of the items of some tables, in the transactions that write them. */
export interface TableObserver {
  isObserved(table: number, collection: string): boolean
  changed(change: TableChange): void
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
  readonly #observers: readonly TableObserver[]
  #table: Table
  /** The numbers of empty places in the blocks where these have changed since readers last saw them. */
  #gaps = new Map<number, number>()
  /** False if they may have changed in other blocks, too. */
  #areGapsKnown = true
  /** Blocks that are not stored yet. */
  readonly #unsaved = new Set<number>()
  /** The item that was looked up last, until it is put or removed. */
  #found: ItemLocation | undefined

  constructor(store: Store, facts: CollectionFacts, observers: readonly TableObserver[]) {
    this.#store = store
    this.#observers = observers
    this.facts = { ...facts }
    this.#table = new Table(store, facts.table)
  }

  /** Numbers of empty places in changed blocks; undefined if any may have changed. */
  get gaps(): ReadonlyMap<number, number> | undefined {
    return this.#areGapsKnown ? this.#gaps : undefined
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

  /** The position of the event before an item's last one; 0 if there is none. */
  priorOf(key: string): Position {
    return this.#locate(key).prior
  }

  #locate(key: string): ItemLocation {
    if (this.#found?.key === key) return this.#found
    const isNew = isUnused(key, this.facts.unusedId)
    const { place, record } = (isNew ? undefined : this.#table.find(key, HIGHEST, this.facts.places)) ?? {}
    const isThere = record && !isTombstone(record)
    const { since, prior } = record ? metadataOf(record) : { since: 0, prior: 0 }
    const position = record ? positionOf(record) : 0
    this.#found = { key, place, id: isThere ? idInRecord(record) : undefined, since, prior, position }
    return this.#found
  }

  put(item: Item, metadata: EventMetadata, document: Document): void {
    const { key } = item
    const found = this.#location(key)
    const isThere = found.id !== undefined
    const place = isThere ? (found.place as number) : this.facts.places++
    const since = isThere ? found.since : item.position
    this.#notifyObservers(key, place, isThere, document)
    if (isThere) {
      if (found.position > since) this.#table.removeChange(found.position)
      this.#table.putChange(place, item.position)
    }
    const record = encodeItem(item, { since, ...metadata })
    if (isThere) this.#table.putRecord(place, record)
    else {
      this.#table.addRecord(place, record)
      this.facts.size++
      this.#table.putPlace(key, place, found.place !== undefined, item.position)
    }
    this.facts.unusedId = Math.max(this.facts.unusedId, integerAfter(item.id))
  }

  remove(id: ItemId, tombstone: Tombstone, { prior }: EventMetadata): void {
    const found = this.#location(keyOf(id))
    const { place, since } = found
    if (found.id === undefined || place === undefined) return
    const { position } = tombstone
    this.#notifyObservers(found.key, place, true)
    if (found.position > since) this.#table.removeChange(found.position)
    this.#table.removeRecord(place, position)
    this.#table.addTombstone(place, { id, ...tombstone, since, prior })
    this.facts.size--
    this.#countEmpty(place)
  }

  /**
   * Moves the items with these ids in their order, then all others, into a new table, which becomes the collection's with the
   * last step. Each step writes little, within the caller's transaction. `position` is that of the event that orders them.
   */
  *reorder(ids: readonly ItemId[], newTable: number, position: Position): Generator<undefined, void> {
    const before = this.#table
    const table = new Table(this.#store, newTable)
    const gaps = new Map<number, number>()
    let places = 0
    const move = (key: string, record: Buffer): void => {
      const place = places++
      if (isTombstone(record)) {
        gaps.set(blockOf(place), (gaps.get(blockOf(place)) ?? 0) + 1)
        table.addTombstone(place, { ...decodeTombstone(record), since: position })
      } else table.addRecord(place, setSince(record, position))
      table.putPlace(key, place, false, position)
    }
    const isMoved = (key: string): boolean => table.placeOf(key, HIGHEST, places) !== undefined
    for (const id of ids) {
      const key = keyOf(id)
      const place = isMoved(key) ? undefined : before.placeOf(key, HIGHEST, this.facts.places)
      const record = place === undefined ? undefined : before.copyAt(place, HIGHEST)
      if (!record || isTombstone(record)) continue
      move(key, record)
      yield
    }
    // Deleted items come after all others.
    for (const areTombstones of [false, true]) {
      for (let place = 0; place < this.facts.places; place++) {
        const record = before.copyAt(place, HIGHEST)
        if (isTombstone(record) === areTombstones) {
          const key = keyOf(idInRecord(record))
          // An item that was created again left a tombstone at its earlier place, which is dropped.
          const isLatest = before.placeOf(key, HIGHEST, this.facts.places) === place
          if (isLatest && !isMoved(key)) move(key, record)
        }
        yield
      }
    }
    this.#table = table
    this.facts.table = newTable
    this.facts.ordered = position
    this.#gaps = gaps
    this.#unsaved.clear()
    for (const block of gaps.keys()) this.#unsaved.add(block)
    this.facts.places = places
  }

  /** Stores the properties that are not in the rows of items. */
  save(number: number): void {
    this.#store.set(numberedKey(TAG.collection, 0, number), Buffer.from(encodeFacts(this.facts)))
    for (const block of this.#unsaved) {
      const value = Buffer.allocUnsafe(2)
      value.writeUInt16BE(this.#gaps.get(block) as number)
      this.#store.set(numberedKey(TAG.gaps, this.#table.number, block), value)
    }
    this.#unsaved.clear()
    this.#table.saveTombstones()
  }

  /** Where the item of a key is, before it is put or removed. */
  #location(key: string): ItemLocation {
    const found = this.#locate(key)
    this.#found = undefined
    return found
  }

  #notifyObservers(key: string, place: number, wasThere: boolean, after?: Document): void {
    const { number } = this.#table
    let before: Document | undefined
    for (const observer of this.#observers) {
      if (!observer.isObserved(number, this.facts.name)) continue
      if (wasThere) before ??= new Document((this.#table.itemAt(place, HIGHEST) as Item).text)
      observer.changed({ table: number, collection: this.facts.name, place, key, before, after })
    }
  }

  #countEmpty(place: number): void {
    const block = blockOf(place)
    const known = this.#gaps.get(block)
    const empty = known ?? this.#store.newest(numberedKey(TAG.gaps, this.#table.number, block))?.readUInt16BE(0) ?? 0
    this.#gaps.set(block, empty + 1)
    this.#unsaved.add(block)
  }
}

/** As releases before objects and resets stored them, unless the collection uses these; `nextId` is the unused id. */
type StoredFacts = Omit<CollectionFacts, 'isObject' | 'unusedId'> & {
  readonly isObject?: true
  readonly resetNextId?: number
}

function encodeFacts(facts: CollectionFacts): string {
  // Each property is named: an object spread takes ten times as long, and every write stores its collection.
  const { name, exists, textIds, position, size, places, table, ordered, nextId, unusedId } = facts
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
  }
  return JSON.stringify(stored satisfies Record<keyof StoredFacts, unknown>)
}

/** The stored collections by number, in the order of their creation. */
export function storedCollections(store: Store): Map<number, CollectionFacts> {
  const prefix = tableKey(TAG.collection, 0)
  const found = new Map<number, CollectionFacts>()
  for (const { key, value } of store.rows(prefix, prefixEnd(prefix))) {
    const { isObject = false, resetNextId, ...facts } = JSON.parse(value.toString()) as StoredFacts
    const nextId = resetNextId ?? facts.nextId
    found.set(positionOf(key, prefix.length), { ...facts, isObject, nextId, unusedId: facts.nextId })
  }
  return found
}
