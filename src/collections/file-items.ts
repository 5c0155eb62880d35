import { crc32 } from 'node:zlib'
import { type ItemId, OBJECT_ID } from '../events/event.ts'
import { checkParsed, violationOfError } from '../json/parse.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import { isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Fault } from '../runtime/errors.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { invalid } from './file-mistakes.ts'
import { IdList } from './id-list.ts'
import { faultOfId, faultOfName, type Item, integerOf } from './item.ts'
import { PlaceMap } from './place-map.ts'

/** The items of every collection, in order, as texts in the format of `JSON.stringify`. */
export type CollectionTexts = ReadonlyMap<
  string,
  { readonly size: number; items(): Iterable<{ readonly text: string }>; item(key: string): Item | undefined }
>

/** An item in a data file. The id is undefined until it is assigned. */
export interface FileItem {
  readonly id: ItemId | undefined
  /** In the format of `JSON.stringify`. */
  readonly text: string
}

const CHUNK = 4096
/** The length of a longer item is not recorded. */
const MOST_NOTED_BYTES = 0xffff

/** An item that differs from the base. */
export interface EditedItem {
  readonly index: number
  /** Replaced when its id is assigned. */
  item: FileItem
}

/** How the items of a file relate to those of its base. */
export interface Matched {
  /** The file contains every item of the base. */
  readonly isAll: boolean
  /** The items of the base come first, in the same order. */
  readonly isInOrder: boolean
}

/**
 * The items of a collection in a data file. Memory holds only the ids of all items, and the texts of those that differ
 * from the base. A large edit is merged in parts, and merged items are removed from these.
 */
export class FileItems {
  readonly #ids = new IdList()
  readonly #indexes = new PlaceMap()
  #edited = new ChunkedList<EditedItem>()
  /** For items that need not be parsed again, by index: the length in bytes, 0 for others. */
  readonly #lengths: Uint16Array[] = []
  /** For the same items, the crc32. */
  readonly #checksums: Uint32Array[] = []
  /** Above all integer ids. */
  nextId = 0
  /** Number of items without an id. */
  unnamed = 0
  /** Whether ids were assigned, so that the file does not show the resulting state. */
  wasNamed = false
  matched: Matched | undefined

  get length(): number {
    return this.#ids.length
  }

  get isObject(): boolean {
    return this.indexOf(OBJECT_ID) !== undefined
  }

  /** The items that differ from the base, in order, without those taken. */
  get edited(): List<EditedItem> {
    return this.#edited
  }

  takeEdited(): List<EditedItem> {
    const taken = this.#edited
    this.#edited = new ChunkedList()
    return taken
  }

  /** Adds an item that differs from the base. */
  edit(index: number, item: FileItem): void {
    this.#edited.push({ index, item })
  }

  /** Records that an item was checked, and that the file has it in the format of JSON.stringify. */
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

  /** The recorded length of an item in bytes; 0 if none was recorded. */
  notedBytes(index: number): number {
    return this.#lengths[Math.floor(index / CHUNK)]?.[index % CHUNK] ?? 0
  }

  notedChecksum(index: number): number {
    return this.#checksums[Math.floor(index / CHUNK)]?.[index % CHUNK] ?? 0
  }

  add(id: ItemId | undefined): void {
    if (id === undefined) this.unnamed++
    else this.#note(id, this.length)
    this.#ids.push(id)
  }

  /** Assigns an id to an item. */
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

/** The collections of a data file, in order. */
export type FileContents = ReadonlyMap<string, FileItems>

export function faultOfCollection(name: string): Fault | undefined {
  const message = faultOfName(name, "a collection's name")
  return message === undefined ? undefined : { pointer: pointer([name]), message: `${message}: give it another name` }
}

/** Parses a single object. Throws like parseItem. */
export function* parseObject(text: string, name: string): Steps<JsonObject> {
  return (yield* parsedAt(text, [name])) as JsonObject
}

/**
 * Parses an item, which may lack its id.
 * @throws {Refusal} with the place, if it is not a valid item.
 * @throws {Malformed}
 */
export function* parseItem(text: string, collection: string, index: number, idField: string): Steps<JsonObject> {
  const item = yield* parsedAt(text, [collection, index])
  if (!isObject(item)) throw new Error('what begins with a brace is an object')
  const id = own(item, idField)
  // POST may have assigned ids beyond the highest one that clients may choose.
  const badId = id === undefined ? undefined : faultOfId(id, Number.MAX_SAFE_INTEGER)
  if (badId)
    throw invalid(pointer([collection, index, idField]), `${badId}: change it, or remove it to have one assigned`)
  return item
}

function* parsedAt(text: string, place: readonly (string | number)[]): Steps<JsonValue> {
  try {
    return yield* parseSteps(text, checkParsed)
  } catch (error) {
    const violation = violationOfError(error)
    throw violation ? invalid(pointer(place) + violation.pointer, violation.message) : error
  }
}
