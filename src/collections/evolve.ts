import { type DomainEvent, existsAfter, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import { type EventMetadata, Item, integerAfter, keyOf, type Tombstone } from './item.ts'

/** The properties of a collection that its events change. */
export interface FoldedFacts {
  exists: boolean
  isObject: boolean
  nextId: number
  textIds: number
  position: Position
}

export interface FoldedItems {
  /** The id of the item with this key, if it exists. */
  idOf(key: string): ItemId | undefined
  /** `document` has the text of the item. */
  put(item: Item, metadata: EventMetadata, document: Document): void
  remove(id: ItemId, tombstone: Tombstone, metadata: EventMetadata): void
}

/** Applies an event to its collection, except CollectionOrdered. Commands and projections share this function. */
export function evolve(
  facts: FoldedFacts,
  items: FoldedItems,
  event: DomainEvent,
  position: Position,
  timeMs: number,
): void {
  facts.position = position
  const exists = existsAfter(event)
  if (exists !== undefined) facts.exists = exists
  if (exists) facts.isObject = event.type === 'ObjectCreated'
  if (event.type === 'IdsReset') facts.nextId = event.nextId
  if (isItemEvent(event)) {
    const { id, revision, prior } = event
    if (facts.textIds > 0 && typeof items.idOf(keyOf(id)) === 'string') facts.textIds--
    if (!('item' in event)) {
      items.remove(id, { revision, position }, { prior, timeMs })
      return
    }
    if (typeof id === 'string') facts.textIds++
    items.put(new Item(id, event.item, revision, position, timeMs), { prior, timeMs }, event.item)
    facts.nextId = Math.max(facts.nextId, integerAfter(id))
  }
}
