import type { CollectionState } from '../collections/collection.ts'
import type { FileItems } from '../collections/file-items.ts'
import { keyOf } from '../collections/item.ts'
import { PlaceMap } from '../collections/place-map.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Steps } from '../runtime/time-slices.ts'

/**
 * The ids of a collection in the order of an edited file, followed by the items that are not in it; undefined if they
 * have that order already. `first` is the index of the collection's first event in this write.
 */
export function* mergedOrder(
  file: FileItems,
  collection: CollectionState,
  events: List<DomainEvent>,
  first: number,
): Steps<readonly ItemId[] | undefined> {
  const deleted = new PlaceMap()
  const created = new ChunkedList<ItemId>()
  for (let at = first; at < events.length; at++) {
    const event = events.at(at) as DomainEvent
    if (event.type === 'ItemDeleted' || event.type === 'ObjectDeleted') deleted.set(event.id, 0)
    else if (event.type === 'ItemCreated') created.push(event.id)
    yield
  }
  // The existing ids in order: those of the file, with assigned ones.
  const ids = new ChunkedList<ItemId>()
  const present = new PlaceMap()
  const add = (id: ItemId): void => {
    const inFile = file.indexOf(id)
    present.set(id, ids.length)
    ids.push((inFile === undefined ? undefined : file.idAt(inFile)) ?? id)
  }
  for (const { id } of collection.items()) {
    if (deleted.of(id) === undefined) add(id)
    yield
  }
  for (const id of created) {
    add(id)
    yield
  }
  const ordered = new ChunkedList<ItemId>()
  for (const id of file.ids()) {
    if (id !== undefined && present.of(id) !== undefined) ordered.push(id)
    yield
  }
  for (const id of ids) {
    if (file.indexOf(id) === undefined) ordered.push(id)
    yield
  }
  for (let at = 0; at < ids.length; at++, yield) {
    if (isSameId(ids.at(at) as ItemId, ordered.at(at))) continue
    return ordered.slice(0)
  }
  return undefined
}

export function isSameId(a: ItemId, b: ItemId | undefined): boolean {
  return a === b || (b !== undefined && keyOf(a) === keyOf(b))
}
