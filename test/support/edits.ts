import { isDeepStrictEqual } from 'node:util'
import { type FileContents, FileItems } from '../../src/collections/file-items.ts'
import { Item, keyOf } from '../../src/collections/item.ts'
import type { Base, BaseCollection } from '../../src/data-file/base.ts'
import { type ItemId, OBJECT_ID } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { isArray, type JsonObject } from '../../src/json/value.ts'

/** Lists of items and single objects, by name. */
type Objects = Iterable<readonly [string, readonly JsonObject[] | JsonObject]>

/** The edit that a data file with these collections is, when it was edited from others; all items of those have an id. */
export function editOf(file: Objects, from: Objects = []): { readonly file: FileContents; readonly base: Base } {
  const base = baseOf(from)
  return { file: new Map(Array.from(file, ([name, items]) => [name, fileItems(items, base.get(name))])), base }
}

/** A state with these collections. */
export function baseOf(collections: Objects): Base {
  return new Map(Array.from(collections, ([name, items]) => [name, baseCollection(items)]))
}

function baseCollection(collection: readonly JsonObject[] | JsonObject): BaseCollection {
  const items = withIds(collection).map(({ id, object }) => new Item(id as ItemId, Document.of(object), 0, 0))
  const places = new Map(items.map(({ key }, place) => [key, place]))
  return {
    size: items.length,
    places: items.length,
    uncachedAt: (place) => items[place],
    seek: (place) => Math.min(place, items.length),
    placeOf: (id) => places.get(keyOf(id)),
    item: (key) => items[places.get(key) ?? -1],
    items: () => items,
  }
}

/** As a reading of the file finds them. */
function fileItems(collection: readonly JsonObject[] | JsonObject, base: BaseCollection | undefined): FileItems {
  const items = new FileItems()
  const places: number[] = []
  for (const { id, object } of withIds(collection)) {
    const before = id === undefined ? undefined : base?.item(keyOf(id))
    if (!isDeepStrictEqual(before?.value, object)) items.edit(items.length, { id, text: JSON.stringify(object) })
    places.push(before && id !== undefined ? (base?.placeOf(id) ?? -1) : Number.POSITIVE_INFINITY)
    items.add(id)
  }
  const matched = places.filter(Number.isFinite).length
  const isInOrder = places.every((place, index) => index === 0 || place >= (places[index - 1] as number))
  items.matched = { isAll: matched === (base?.size ?? 0), isInOrder }
  return items
}

function withIds(collection: readonly JsonObject[] | JsonObject) {
  const isList = isArray(collection)
  const objects = isList ? (collection as readonly JsonObject[]) : [collection]
  return objects.map((object) => ({ id: isList ? (object.id as ItemId | undefined) : OBJECT_ID, object }))
}
