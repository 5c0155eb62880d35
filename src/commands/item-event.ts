import type { Item, Tombstone } from '../collections/item.ts'
import { type ItemId, OBJECT_ID, type Position } from '../events/event.ts'
import { type JsonObject, type JsonValue, own } from '../json/value.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { Rules } from './rules.ts'

/** Members copied in one step. */
const STEP_MEMBERS = 4096

/** The revision of the item's next event, and the position of its previous event. */
export function stamp(
  collection: string,
  id: ItemId,
  before: Item | Tombstone | undefined,
): { readonly collection: string; readonly id: ItemId; readonly revision: number; readonly prior: Position } {
  return { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
}

/** The item with its id: at the position that the body has, otherwise first. A single object has no id. */
export function* withId(body: JsonObject, id: ItemId, { idField }: Rules): Steps<JsonObject> {
  if (id === OBJECT_ID || own(body, idField) === id) return body
  const names = Object.keys(body)
  const hasId = Object.hasOwn(body, idField)
  if (names.length <= STEP_MEMBERS) return hasId ? { ...body, [idField]: id } : { [idField]: id, ...body }
  yield
  const item: Record<string, JsonValue> = hasId ? {} : { [idField]: id }
  let members = 0
  for (const name of names) {
    item[name] = name === idField ? id : (body[name] as JsonValue)
    if (++members % STEP_MEMBERS === 0) yield
  }
  return item
}
