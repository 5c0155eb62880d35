import { type Fault, Refusal } from '../errors.ts'
import { pointer } from '../json/pointer.ts'

/** Mistakes of a data file that are listed. */
const MOST_MISTAKES = 20
/** Longer names are not repeated in a message. */
const MOST_CHARACTERS = 40

/** The mistakes of a data file: gathered, so that all of them can be mended at once. */
export class FileMistakes {
  readonly #faults: Fault[] = []

  get any(): boolean {
    return this.#faults.length > 0
  }

  /** @throws {Refusal} When there are as many as are listed. */
  add(fault: Fault): void {
    this.#faults.push(fault)
    if (this.#faults.length >= MOST_MISTAKES) this.throwAny()
  }

  /** Does what may refuse a part of the file; undefined when it did. */
  *catching<Step, Result>(work: Generator<Step, Result>): Generator<Step, Result | undefined> {
    try {
      return yield* work
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      for (const fault of error.faults) this.add(fault)
      return undefined
    }
  }

  /** @throws {Refusal} When there is one. */
  throwAny(): void {
    if (this.any) throw refusalOf(this.#faults)
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

/** The refusal for one fault of a data file. */
export function invalid(place: string, message: string): Refusal {
  return refusalOf([{ pointer: place, message }])
}

/** What a JSON value is, by its first byte. */
export function kindOf(byte: number | undefined): string {
  switch (String.fromCharCode(byte ?? 0)) {
    case '{':
      return 'an object'
    case '[':
      return 'a list'
    case '"':
      return 'text'
    case 't':
    case 'f':
      return 'true or false'
    case 'n':
      return 'null'
    default:
      return 'a number'
  }
}

export function noObject(kind: string): Refusal {
  return invalid('', `the file must be an object of collections, not ${kind}: write {"items": [{"id": 1}]}`)
}

/** What stands in the place of a collection or a single object. */
export function noCollection(name: string, kind: string): Fault {
  const shown = name.length > MOST_CHARACTERS ? '"…"' : JSON.stringify(name)
  const message = `a member must be a list of objects or an object, not ${kind}: write ${shown}: [{"value": …}] or {"value": …}`
  return { pointer: pointer([name]), message }
}

/** What stands in the place of an item. */
export function noItem(collection: string, index: number, kind: string): Fault {
  const message = `an item must be an object, not ${kind}: write each value of the list as {"value": …}`
  return { pointer: pointer([collection, index]), message }
}

export function sameIdTwice(collection: string, index: number, key: string): Fault {
  const message = `another item has the id ${JSON.stringify(key)} too: change one of them, or remove it to have one assigned`
  return { pointer: pointer([collection, index, 'id']), message }
}
