import { Refusal } from '../errors.ts'
import { hasIntegerBeyond2to53, violationOf } from '../json/parse.ts'
import { pointer } from '../json/pointer.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { faultOfId, faultOfName, keyOf } from './item.ts'

/** The items of every collection, in order: what a data file holds. It shares its items with whatever made it. */
export type Snapshot = ReadonlyMap<string, readonly JsonObject[]>

/** The same, as the texts of the items, in `JSON.stringify`'s own form: it costs little to have. */
export type Picture = ReadonlyMap<string, Iterable<{ readonly text: string }>>

/**
 * Reads a data file's JSON: an object of arrays of objects. Anything else is refused with its place; `text` is
 * what the JSON was parsed from. Items may still lack their `id`.
 */
export function parseSnapshot(root: JsonValue, text: string): Snapshot {
  if (!isObject(root)) throw invalid('', 'the root must be an object whose members are the collections')
  const snapshot = new Map<string, readonly JsonObject[]>()
  let rounded: boolean | undefined
  const wasRounded = (): boolean => {
    rounded ??= hasIntegerBeyond2to53(text)
    return rounded
  }
  for (const [name, items] of Object.entries(root) as [string, JsonValue][]) {
    const place = pointer(name)
    const badName = faultOfName(name, "a collection's name")
    if (badName) throw invalid(place, badName)
    if (!isArray(items)) throw invalid(place, 'a collection must be an array of items')
    const keys = new Set<string>()
    for (const [index, item] of items.entries()) {
      if (!isObject(item)) throw invalid(pointer(name, index), 'an item must be an object')
      const violation = violationOf(item, wasRounded)
      if (violation) throw invalid(pointer(name, index) + violation.pointer, violation.message)
      const id = own(item, 'id')
      if (id === undefined) continue
      // What POST assigned beyond the highest id that a client may choose stands in the file, too.
      const badId = faultOfId(id, Number.MAX_SAFE_INTEGER)
      if (badId) throw invalid(pointer(name, index, 'id'), badId)
      const key = keyOf(id as string | number)
      if (keys.has(key)) throw invalid(pointer(name, index, 'id'), `another item has the id ${JSON.stringify(key)} too`)
      keys.add(key)
    }
    snapshot.set(name, items as readonly JsonObject[])
  }
  return snapshot
}

export function hasAllIds(snapshot: Snapshot): boolean {
  for (const items of snapshot.values()) if (!items.every((item) => Object.hasOwn(item, 'id'))) return false
  return true
}

function invalid(place: string, why: string): Refusal {
  const message = `At ${place || 'the root'}: ${why}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: place, message: why }])
}
