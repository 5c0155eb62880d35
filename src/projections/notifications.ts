import { type DomainEvent, type ItemId, isItemEvent, OBJECT_ID, type Position } from '../events/event.ts'
import type { Recorded } from '../events/journal.ts'
import { collectionPath, itemPath } from './address.ts'

/** The notification of an event to all clients, which may then read the path. */
export interface Updated {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly collection: string
  /** As stored, number or text; null for an event of a whole collection. */
  readonly itemId: ItemId | null
  readonly position: Position
}

const METHODS: Readonly<Record<DomainEvent['type'], Updated['method']>> = {
  ItemCreated: 'POST',
  ItemReplaced: 'PUT',
  ItemPatched: 'PATCH',
  ItemDeleted: 'DELETE',
  ObjectCreated: 'POST',
  ObjectDeleted: 'DELETE',
  CollectionCreated: 'POST',
  CollectionRemoved: 'DELETE',
  CollectionOrdered: 'PUT',
  IdsReset: 'PUT',
}

export function* notificationsOf(recorded: Recorded): Generator<Updated> {
  let { position } = recorded
  for (const event of recorded.events) {
    const { collection } = event
    const itemId = isItemEvent(event) && event.id !== OBJECT_ID ? event.id : null
    yield {
      method: METHODS[event.type],
      path: itemId === null ? collectionPath(collection) : itemPath(collection, String(itemId)),
      collection,
      itemId,
      position: position++,
    }
  }
}
