import type { ItemId } from '../events/event.ts'
import { checkValues } from '../json/item-size.ts'
import { parseChecked, ViolationError } from '../json/parse.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonObject, own } from '../json/value.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import { invalid } from './file-mistakes.ts'
import { faultOfId, faultOfName } from './item.ts'

/** An item in a data file. The id is undefined until it is assigned. */
export interface FileItem {
  readonly id: ItemId | undefined
  /** In the format of `JSON.stringify`. */
  readonly text: string
}

export function faultOfCollection(name: string): Fault | undefined {
  const message = faultOfName(name, "a collection's name")
  return message === undefined ? undefined : { pointer: pointer([name]), message: `${message}: give it another name` }
}

/**
 * Parses an object of a data file.
 * @throws {Refusal} with the place, if it has what a body may not have.
 * @throws {Malformed}
 */
export function parseObject(text: string, place: readonly (string | number)[]): JsonObject {
  try {
    const value = parseChecked(text)
    if (!isObject(value)) throw new Error('what begins with a brace is an object')
    return value
  } catch (error) {
    if (!(error instanceof ViolationError)) throw error
    const { violation } = error
    throw invalid(pointer(place) + violation.pointer, violation.message)
  }
}

/** @throws {Refusal} `Invalid` with the place, if the item has more values than `most`. */
export function checkItemValues(text: string, most: number, place: readonly (string | number)[]): void {
  try {
    checkValues(text, most, 'the item')
  } catch (error) {
    const [fault] = error instanceof Refusal ? error.faults : []
    throw fault ? invalid(pointer(place) + fault.pointer, fault.message) : error
  }
}

/**
 * The id of an item, which may lack it.
 * @throws {Refusal} if it is not valid.
 */
export function idIn(item: JsonObject, place: readonly (string | number)[], idField: string): ItemId | undefined {
  const id = own(item, idField)
  // POST may have assigned ids beyond the highest one that clients may choose.
  const fault = id === undefined ? undefined : faultOfId(id, Number.MAX_SAFE_INTEGER)
  if (fault) throw invalid(pointer([...place, idField]), `${fault}: change it, or remove it to have one assigned`)
  return id as ItemId | undefined
}
