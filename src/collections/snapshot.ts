import { Refusal } from '../errors.ts'
import type { ItemId } from '../events/event.ts'
import { checkParsed, violationTold } from '../json/parse.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import type { List } from '../long-list.ts'
import type { Steps } from '../slices.ts'
import { faultOfId, faultOfName } from './item.ts'
import type { Keys } from './keys.ts'

/** The items of every collection, in order, as texts in `JSON.stringify`'s own form: it costs little to have. */
export type Texts = ReadonlyMap<string, { items(): Iterable<{ readonly text: string }> }>

/** An item as a data file has it; one without an id is yet to get it. */
export interface FileItem {
  readonly id: ItemId | undefined
  /** As `JSON.stringify` makes it. */
  readonly text: string
}

export interface FileItems {
  readonly items: List<FileItem>
  /** Where those that have an id stand, by its key. */
  readonly indexes: Pick<Keys, 'of'>
}

/** What a data file holds: its collections, in order. */
export type FileContents = ReadonlyMap<string, FileItems>

/** Refuses a name that no collection may have. */
export function checkName(name: string): void {
  const badName = faultOfName(name, "a collection's name")
  if (badName) throw invalid(pointer([name]), badName)
}

/**
 * Parses an item, which may still lack its `id`. Refuses, with its place, what is no item.
 * @throws {Malformed}
 */
export function* parseItem(text: string, collection: string, index: number): Steps<JsonObject> {
  const item = yield* parsedItem(text, collection, index)
  if (!isObject(item)) throw noItem(collection, index)
  const id = own(item, 'id')
  // What POST assigned beyond the highest id that a client may choose stands in the file, too.
  const badId = id === undefined ? undefined : faultOfId(id, Number.MAX_SAFE_INTEGER)
  if (badId) throw invalid(pointer([collection, index, 'id']), badId)
  return item
}

function* parsedItem(text: string, collection: string, index: number): Steps<JsonValue> {
  try {
    return yield* parseSteps(text, checkParsed)
  } catch (error) {
    const violation = violationTold(error)
    throw violation ? invalid(pointer([collection, index]) + violation.pointer, violation.message) : error
  }
}

export function noObject(): Refusal {
  return invalid('', 'the root must be an object whose members are the collections')
}

export function noArray(collection: string): Refusal {
  return invalid(pointer([collection]), 'a collection must be an array of items')
}

export function noItem(collection: string, index: number): Refusal {
  return invalid(pointer([collection, index]), 'an item must be an object')
}

export function sameIdTwice(collection: string, index: number, key: string): Refusal {
  return invalid(pointer([collection, index, 'id']), `another item has the id ${JSON.stringify(key)} too`)
}

function invalid(place: string, why: string): Refusal {
  const message = `At ${place || 'the root'}: ${why}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: place, message: why }])
}
