import { type DomainEvent, existsAfter, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import { Item, integerAfter, keyOf, type Tombstone } from './item.ts'
import type { EventMetadata } from './item-record.ts'

export interface FoldTarget {
  exists: boolean
  isObject: boolean
  nextId: number
  textIds: number
  position: Position
  /** The id of the item with this key, if it exists. */
  idOf(key: string): ItemId | undefined
  /** `document` has the text of the item. */
  put(item: Item, metadata: EventMetadata, document: Document): void
  remove(id: ItemId, tombstone: Tombstone, metadata: EventMetadata): void
}

/** Applies an event to its collection, except CollectionOrdered. Commands and projections share this function. */
export function evolve(target: FoldTarget, event: DomainEvent, position: Position, timeMs: number): void {
  target.position = position
  const exists = existsAfter(event)
  if (exists !== undefined) target.exists = exists
  if (exists) target.isObject = event.type === 'ObjectCreated'
  if (event.type === 'IdsReset') target.nextId = event.nextId
  if (isItemEvent(event)) {
    const { id, revision, prior } = event
    if (target.textIds > 0 && typeof target.idOf(keyOf(id)) === 'string') target.textIds--
    if (!('item' in event)) {
      target.remove(id, { revision, position }, { prior, timeMs })
      return
    }
    if (typeof id === 'string') target.textIds++
    target.put(new Item(id, event.item, revision, position, timeMs), { prior, timeMs }, event.item)
    target.nextId = Math.max(target.nextId, integerAfter(id))
  }
}
