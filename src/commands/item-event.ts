import type { Item, Tombstone } from '../collections/item.ts'
import { type DomainEvent, type ItemId, OBJECT_ID, type Position } from '../events/event.ts'
import { type JsonObject, own } from '../json/value.ts'
import type { Rules } from './rules.ts'

/** The revision of the item's next event, and the position of its previous event. */
export function stamp(
  collection: string,
  id: ItemId,
  before: Item | Tombstone | undefined,
): { readonly collection: string; readonly id: ItemId; readonly revision: number; readonly prior: Position } {
  return { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
}

export function deletionOf(collection: string, item: Pick<Item, 'id' | 'revision' | 'position'>): DomainEvent {
  const type = item.id === OBJECT_ID ? 'ObjectDeleted' : 'ItemDeleted'
  return { type, ...stamp(collection, item.id, item) }
}

/** The item with its id: at the position that the body has, otherwise first. A single object has no id. */
export function withId(body: JsonObject, id: ItemId, { idField }: Rules): JsonObject {
  if (id === OBJECT_ID || own(body, idField) === id) return body
  return Object.hasOwn(body, idField) ? { ...body, [idField]: id } : { [idField]: id, ...body }
}
