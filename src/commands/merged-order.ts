import type { CollectionState } from '../collections/collection.ts'
import { IdIndex } from '../collections/id-index.ts'
import { keyOf } from '../collections/item.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Turn } from '../runtime/turns.ts'

/**
 * The ids of a collection in the order of an edited file, followed by the items that are not in it; undefined if they
 * have that order already. `first` is the index of the collection's first event in this write.
 */
export async function mergedOrder(
  file: Iterable<ItemId>,
  collection: CollectionState,
  events: List<DomainEvent>,
  first: number,
  turn: Turn,
): Promise<readonly ItemId[] | undefined> {
  const present = await idsAfter(collection, events, first, turn)
  const places = new IdIndex()
  for (let place = 0; place < present.length; place++) {
    if (turn.isOver) await turn.next()
    places.set(present.at(place) as ItemId, place)
  }
  const ordered = new ChunkedList<ItemId>()
  const isInFile = new Uint8Array(present.length)
  for (const id of file) {
    if (turn.isOver) await turn.next()
    const place = places.get(id)
    if (place === undefined) continue
    isInFile[place] = 1
    ordered.push(id)
  }
  for (let place = 0; place < present.length; place++) {
    if (turn.isOver) await turn.next()
    if (isInFile[place] === 0) ordered.push(present.at(place) as ItemId)
  }
  for (let at = 0; at < present.length; at++) {
    if (turn.isOver) await turn.next()
    if (keyOf(present.at(at) as ItemId) !== keyOf(ordered.at(at) as ItemId)) return ordered.slice(0)
  }
  return undefined
}

/** The ids of a collection in its own order after the events from `first` on. */
async function idsAfter(
  collection: CollectionState,
  events: List<DomainEvent>,
  first: number,
  turn: Turn,
): Promise<List<ItemId>> {
  const deleted = new IdIndex()
  const created = new ChunkedList<ItemId>()
  for (let at = first; at < events.length; at++) {
    if (turn.isOver) await turn.next()
    const event = events.at(at) as DomainEvent
    if (event.type === 'ItemDeleted' || event.type === 'ObjectDeleted') deleted.set(event.id, at)
    else if (event.type === 'ItemCreated') created.push(event.id)
  }
  const ids = new ChunkedList<ItemId>()
  for (const { id } of collection.items()) {
    if (turn.isOver) await turn.next()
    if (!deleted.has(id)) ids.push(id)
  }
  for (const id of created) {
    if (turn.isOver) await turn.next()
    ids.push(id)
  }
  return ids
}
