import { Item, keyOf } from '../../src/collections/item.ts'
import { type Base, type BaseItems, Difference } from '../../src/commands/difference.ts'
import { type Edit, HeldCharacters } from '../../src/commands/edit.ts'
import { type ItemId, OBJECT_ID } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { isArray, type JsonObject } from '../../src/json/value.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'

/** Lists of items and single objects, by name. */
type Objects = Iterable<readonly [string, readonly JsonObject[] | JsonObject]>

/** The edit that a data file with these collections is, when it was edited from others; all items of those have an id. */
export function editOf(file: Objects, from: Objects = []): Promise<Edit> {
  const held = new HeldCharacters(2 ** 30, () => new Refusal('Unprocessable', 'too many'))
  const difference = new Difference({ base: baseOf(from), idField: 'id', kind: 'edit', held, keeps: 'ids' })
  for (const [name, collection] of file) {
    const compared = difference.collection(name, !isArray(collection))
    for (const { id, object } of withIds(collection)) compared.add(id, JSON.stringify(object))
  }
  return difference.end(ENDLESS)
}

/** A state with these collections. */
export function baseOf(collections: Objects): Base {
  return new Map(Array.from(collections, ([name, items]) => [name, baseItems(items)]))
}

function baseItems(collection: readonly JsonObject[] | JsonObject): BaseItems {
  const items = withIds(collection).map(({ id, object }) => new Item(id as ItemId, Document.of(object), 0, 0))
  const places = new Map(items.map(({ key }, place) => [key, place]))
  return {
    size: items.length,
    places: items.length,
    itemAt: (place) => items[place],
    seek: (place) => Math.min(place, items.length),
    placeOf: (id) => places.get(keyOf(id)),
    item: (key) => items[places.get(key) ?? -1],
  }
}

function withIds(collection: readonly JsonObject[] | JsonObject) {
  const isList = isArray(collection)
  const objects = isList ? (collection as readonly JsonObject[]) : [collection]
  return objects.map((object) => ({ id: isList ? (object.id as ItemId | undefined) : OBJECT_ID, object }))
}
