import { isItem } from '../collections/collection.ts'
import type { JsonObject } from '../json/value.ts'
import type { Accepted } from './decide.ts'
import type { Rules } from './rules.ts'
import { type Edit, type TakenIn, takeIn } from './take-in.ts'

/** What is to be as it was: whole collections, or one item. Undefined: there was none. */
export type Restoration =
  | { readonly type: 'collections'; readonly collections: ReadonlyMap<string, readonly JsonObject[] | undefined> }
  | {
      readonly type: 'item'
      readonly collection: string
      readonly key: string
      readonly item: JsonObject | undefined
    }

/** Undo is an edit like one by hand, made from the state that is accepted now: only what differs becomes events. */
export function restore(restoration: Restoration, accepted: Accepted, rules: Rules): TakenIn {
  return takeIn(editOf(restoration, accepted), accepted, rules, isSameText)
}

/** What comes back comes back byte for byte. */
function isSameText(a: JsonObject | undefined, b: JsonObject | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && JSON.stringify(a) === JSON.stringify(b))
}

/** Of one item it is about that item alone, whatever there is beside it; one that comes back is the last. */
function editOf(restoration: Restoration, accepted: Accepted): Edit {
  const base = new Map<string, readonly JsonObject[]>()
  const file = new Map<string, readonly JsonObject[]>()
  if (restoration.type === 'item') {
    const { collection: name, key, item } = restoration
    const collection = accepted.collection(name)
    const now = collection.get(key)
    if (collection.exists) base.set(name, isItem(now) ? [now.value] : [])
    if (collection.exists || item) file.set(name, item ? [item] : [])
    return { base, file }
  }
  for (const [name, items] of restoration.collections) {
    const collection = accepted.collection(name)
    if (collection.exists)
      base.set(
        name,
        Array.from(collection.items(), ({ value }) => value),
      )
    if (items) file.set(name, items)
  }
  return { base, file }
}
