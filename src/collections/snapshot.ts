import { crc32 } from 'node:zlib'
import type { Fault } from '../errors.ts'
import { type ItemId, OBJECT_ID } from '../events/event.ts'
import { checkParsed, violationTold } from '../json/parse.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { type List, LongList } from '../long-list.ts'
import type { Steps } from '../slices.ts'
import { invalid } from './file-mistakes.ts'
import { IdList } from './id-list.ts'
import { faultOfId, faultOfName, type Item, integerOf } from './item.ts'
import { Keys } from './keys.ts'

/** The items of every collection, in order, as texts in `JSON.stringify`'s own form: it costs little to have. */
export type Texts = ReadonlyMap<
  string,
  { readonly size: number; items(): Iterable<{ readonly text: string }>; item(key: string): Item | undefined }
>

/** An item as a data file has it; one without an id is yet to get it. */
export interface FileItem {
  readonly id: ItemId | undefined
  /** As `JSON.stringify` makes it. */
  readonly text: string
}

const CHUNK = 4096
/** The length of a longer item is not noted. */
const MOST_NOTED_BYTES = 0xffff

/** An item that differs from the base. */
export interface EditedItem {
  readonly index: number
  /** Replaced when it gets its id. */
  item: FileItem
}

/** How the items of a file stand to those of the state that it was edited from, its base. */
export interface Matched {
  /** Every item of the base is in the file. */
  readonly isAll: boolean
  /** The items of the base come first, in the order of the base. */
  readonly isInOrder: boolean
}

/**
 * The items of a collection in a data file. Only the ids of all items are in memory, and the texts of those that differ from the base;
 * a large edit is merged in parts, and what was merged is no longer among these.
 */
export class FileItems {
  readonly #ids = new IdList()
  readonly #indexes = new Keys()
  #edited = new LongList<EditedItem>()
  /** Of the items that need not be parsed again, by index: the length in bytes, 0 for all others, */
  readonly #lengths: Uint16Array[] = []
  /** and the crc32. */
  readonly #checksums: Uint32Array[] = []
  /** Above all integers among the ids. */
  nextId = 0
  /** How many items have no id yet. */
  unnamed = 0
  /** Whether ids were assigned, so that the file does not show the state that the edit made. */
  wasNamed = false
  /** Undefined when it is not known. */
  matched: Matched | undefined

  get length(): number {
    return this.#ids.length
  }

  /** Whether this is a single object. */
  get isObject(): boolean {
    return this.indexOf(OBJECT_ID) !== undefined
  }

  /** Those that differ from the base, in order, and were not taken yet. */
  get edited(): List<EditedItem> {
    return this.#edited
  }

  takeEdited(): List<EditedItem> {
    const taken = this.#edited
    this.#edited = new LongList()
    return taken
  }

  /** Notes that an item differs from the base. */
  edit(index: number, item: FileItem): void {
    this.#edited.push({ index, item })
  }

  /** Notes that an item was checked, and that it stands in the file as JSON.stringify makes it. */
  noteBytes(index: number, bytes: Uint8Array): void {
    if (bytes.length > MOST_NOTED_BYTES) return
    const chunk = Math.floor(index / CHUNK)
    while (this.#lengths.length <= chunk) {
      this.#lengths.push(new Uint16Array(CHUNK))
      this.#checksums.push(new Uint32Array(CHUNK))
    }
    ;(this.#lengths[chunk] as Uint16Array)[index % CHUNK] = bytes.length
    ;(this.#checksums[chunk] as Uint32Array)[index % CHUNK] = crc32(bytes)
  }

  /** The length of what was noted of an item, in bytes; 0 where nothing was. */
  notedBytes(index: number): number {
    return this.#lengths[Math.floor(index / CHUNK)]?.[index % CHUNK] ?? 0
  }

  notedChecksum(index: number): number {
    return this.#checksums[Math.floor(index / CHUNK)]?.[index % CHUNK] ?? 0
  }

  /** Adds the next item. */
  add(id: ItemId | undefined): void {
    if (id === undefined) this.unnamed++
    else this.#note(id, this.length)
    this.#ids.push(id)
  }

  /** Gives an item its id. */
  name(index: number, id: ItemId): void {
    this.unnamed--
    this.wasNamed = true
    this.#note(id, index)
    this.#ids.set(index, id)
  }

  idAt(index: number): ItemId | undefined {
    return this.#ids.at(index)
  }

  indexOf(id: ItemId): number | undefined {
    return this.#indexes.of(id)
  }

  ids(): Iterable<ItemId | undefined> {
    return this.#ids
  }

  #note(id: ItemId, index: number): void {
    this.#indexes.set(id, index)
    this.nextId = Math.max(this.nextId, (integerOf(id) ?? -1) + 1)
  }
}

/** What a data file holds: its collections, in order. */
export type FileContents = ReadonlyMap<string, FileItems>

/** What is wrong with a collection's name, as a mistake of a data file. */
export function faultOfCollection(name: string): Fault | undefined {
  const message = faultOfName(name, "a collection's name")
  return message === undefined ? undefined : { pointer: pointer([name]), message: `${message}: give it another name` }
}

/** Parses a single object. Refuses, with its place, what is not one, as parseItem does. */
export function* parseObject(text: string, name: string): Steps<JsonObject> {
  return (yield* parsedAt(text, [name])) as JsonObject
}

/**
 * Parses an item, which may still lack its `id`. Refuses, with its place, what is no item.
 * @throws {Malformed}
 */
export function* parseItem(text: string, collection: string, index: number): Steps<JsonObject> {
  const item = yield* parsedAt(text, [collection, index])
  if (!isObject(item)) throw new Error('what begins with a brace is an object')
  const id = own(item, 'id')
  // What POST assigned beyond the highest id that a client may choose stands in the file, too.
  const badId = id === undefined ? undefined : faultOfId(id, Number.MAX_SAFE_INTEGER)
  if (badId) throw invalid(pointer([collection, index, 'id']), `${badId}: change it, or remove it to have one assigned`)
  return item
}

function* parsedAt(text: string, place: readonly (string | number)[]): Steps<JsonValue> {
  try {
    return yield* parseSteps(text, checkParsed)
  } catch (error) {
    const violation = violationTold(error)
    throw violation ? invalid(pointer(place) + violation.pointer, violation.message) : error
  }
}
