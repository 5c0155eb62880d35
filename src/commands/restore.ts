import type { Snapshot } from '../collections/snapshot.ts'
import { type JsonObject, own } from '../json/value.ts'
import type { Accepted } from './decide.ts'
import type { Rules } from './rules.ts'
import { type TakenIn, takeIn } from './take-in.ts'

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
  const names = restoration.type === 'item' ? [restoration.collection] : [...restoration.collections.keys()]
  const base = new Map<string, readonly JsonObject[]>()
  for (const name of names) {
    const collection = accepted.collection(name)
    if (collection.exists)
      base.set(
        name,
        Array.from(collection.items(), ({ value }) => value),
      )
  }
  return takeIn({ base, file: targetOf(restoration, base) }, accepted, rules, isSameText)
}

/** What comes back comes back byte for byte. */
function isSameText(a: JsonObject | undefined, b: JsonObject | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && JSON.stringify(a) === JSON.stringify(b))
}

function targetOf(restoration: Restoration, base: Snapshot): Snapshot {
  if (restoration.type === 'collections') {
    const target = new Map<string, readonly JsonObject[]>()
    for (const [name, items] of restoration.collections) if (items) target.set(name, items)
    return target
  }
  const { collection, key, item } = restoration
  const now = base.get(collection)
  if (!now && !item) return base
  const isIt = (other: JsonObject): boolean => String(own(other, 'id')) === key
  const others = (now ?? []).flatMap((other) => (isIt(other) ? (item ? [item] : []) : [other]))
  return new Map([[collection, item && !(now ?? []).some(isIt) ? [...others, item] : others]])
}
