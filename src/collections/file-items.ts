import type { ItemId } from '../events/event.ts'
import { checkValues, parseChecked, ViolationError } from '../json/parse.ts'
import { pointer, type Tokens } from '../json/paths.ts'
import { isObject, type JsonObject, own } from '../json/value.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
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
export function parseObject(text: string, place: Tokens): JsonObject {
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
export function checkItemValues(text: string, most: number, place: Tokens): void {
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
export function idIn(item: JsonObject, place: Tokens, idField: string): ItemId | undefined {
  const id = own(item, idField)
  // POST may have assigned ids beyond the highest one that clients may choose.
  const fault = id === undefined ? undefined : faultOfId(id, Number.MAX_SAFE_INTEGER)
  if (fault) throw invalid(pointer([...place, idField]), `${fault}: change it, or remove it to have one assigned`)
  return id as ItemId | undefined
}

/** Highest number of reported mistakes of a data file. */
const MOST_MISTAKES = 20
/** Longer names are not quoted in messages. */
const MOST_CHARACTERS = 40

/** Collects the mistakes of a data file, so that all of them can be corrected at once. */
export class FileMistakes {
  readonly #faults: Fault[] = []

  /** @throws {Refusal} when the highest number is reached. */
  add(fault: Fault): void {
    this.#faults.push(fault)
    if (this.#faults.length >= MOST_MISTAKES) this.throwAny()
  }

  /** Runs work that may refuse a part of the file; undefined if it did. */
  catching<Result>(work: () => Result): Result | undefined {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      for (const fault of error.faults) this.add(fault)
      return undefined
    }
  }

  /** @throws {Refusal} if there is a mistake. */
  throwAny(): void {
    if (this.#faults.length > 0) throw refusalOf(this.#faults)
  }
}

function refusalOf(faults: readonly Fault[]): Refusal {
  return new Refusal('Invalid', messagesOf(faults).join(' '), faults)
}

/** A sentence for each mistake, with its place. */
export function messagesOf(faults: readonly Fault[]): readonly string[] {
  const messages = faults.map(({ pointer: place, message }) => `At ${place || 'the root'}: ${message}.`)
  return faults.length < MOST_MISTAKES ? messages : [...messages, 'Further mistakes are not listed.']
}

/** The refusal for a single mistake in a data file. */
export function invalid(place: string, message: string): Refusal {
  return refusalOf([{ pointer: place, message }])
}

const KINDS: Readonly<Record<string, string>> = {
  '{': 'an object',
  '[': 'a list',
  '"': 'text',
  t: 'true or false',
  f: 'true or false',
  n: 'null',
}

/** The type of a JSON value, by its first byte. */
export function kindOf(byte: number | undefined): string {
  return KINDS[String.fromCharCode(Math.max(0, byte ?? 0))] ?? 'a number'
}

export function noObject(kind: string): Refusal {
  return invalid('', `the file must be an object of collections, not ${kind}: write {"items": [{"id": 1}]}`)
}

/** The mistake of a member that is neither a collection nor a single object. */
export function noCollection(name: string, kind: string): Fault {
  const shown = name.length > MOST_CHARACTERS ? '"…"' : JSON.stringify(name)
  const message = `a member must be a list of objects or an object, not ${kind}: write ${shown}: [{"value": …}] or {"value": …}`
  return { pointer: pointer([name]), message }
}

export function sameNameTwice(name: string): Fault {
  const message = 'another member has this name too: give one of them another name, or put all items into one list'
  return { pointer: pointer([name]), message }
}

export function noItem(collection: string, index: number, kind: string): Fault {
  const message = `an item must be an object, not ${kind}: write each value of the list as {"value": …}`
  return { pointer: pointer([collection, index]), message }
}

/** `first` and `second` are the indexes of the two items. */
export function sameIdTwice(collection: string, first: number, second: number, key: string, idField: string): Fault {
  const other = pointer([collection, first])
  const message = `another item has the id ${JSON.stringify(key)} too, ${other}: change one of them, or remove it to have one assigned`
  return { pointer: pointer([collection, second, idField]), message }
}
