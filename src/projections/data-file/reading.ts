import { isUtf8 } from 'node:buffer'
import { Collection } from '../../collections/collection.ts'
import { Item, keyOf } from '../../collections/item.ts'
import { Keys } from '../../collections/keys.ts'
import {
  checkItem,
  checkName,
  type FileContents,
  type FileItem,
  type FileItems,
  noArray,
  noItem,
  noObject,
  sameIdTwice,
} from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import type { ItemId } from '../../events/event.ts'
import { Document } from '../../json/document.ts'
import { equal, type JsonValue, own } from '../../json/value.ts'
import { whereMalformed } from '../../json/where-malformed.ts'
import type { Steps } from '../../slices.ts'
import { JsonScan, Malformed } from './json-scan.ts'

/** The state that a file was edited from. */
export type Base = ReadonlyMap<string, Collection>

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

/**
 * Reads a data file, an item a step: a JSON object of arrays of objects. An item that is as the base has it, whatever
 * the order of its members, is the base's own; as almost all are, only their texts are compared. A file that is not
 * valid is refused with its place.
 */
export function* readingOf(bytes: Buffer, base: Base): Steps<FileContents> {
  try {
    return yield* contentsOf(new JsonScan(bytes), base)
  } catch (error) {
    const why = yield* whyMalformed(bytes, error)
    throw why === undefined ? error : new Refusal('Invalid', why)
  }
}

function* contentsOf(scan: JsonScan, base: Base): Steps<FileContents> {
  const contents = new Map<string, FileItems>()
  if (scan.peek() !== OPEN_BRACE) throw noObject()
  for (const _ of scan.members()) {
    const name = scan.name()
    checkName(name)
    if (scan.peek() !== OPEN_BRACKET) throw noArray(name)
    contents.set(name, yield* itemsOf(scan, name, base.get(name)))
  }
  scan.end()
  return inOrder(contents)
}

function* itemsOf(scan: JsonScan, name: string, base: Collection | undefined): Steps<FileItems> {
  const items: FileItem[] = []
  const indexes = new Keys()
  // Where the item stands in the base, unless something was put in, taken out or moved.
  let place = base?.seek(0) ?? 0
  for (const _ of scan.elements()) {
    if (scan.peek() !== OPEN_BRACE) throw noItem(name, items.length)
    const text = scan.object()
    let item: FileItem | undefined = base?.itemAt(place)
    if (item?.text !== text) {
      const read = readItem(scan, text, name, items.length)
      const there = base && read.id !== undefined ? base.item(keyOf(read.id)) : undefined
      item = there && equal(there.value, read.value) ? there : { id: read.id, text: JSON.stringify(read.value) }
      place = (there && base?.placeOf(there.id)) ?? place - 1
    }
    if (base) place = base.seek(place + 1)
    const { id } = item
    if (id !== undefined) {
      if (indexes.of(id) !== undefined) throw sameIdTwice(name, items.length, keyOf(id))
      indexes.set(id, items.length)
    }
    items.push(item)
    yield
  }
  return { items, indexes }
}

/** The collections of a file that has all ids, for another edit to be made from. */
export function* collectionsOf(file: FileContents): Steps<Base> {
  const collections = new Map<string, Collection>()
  for (const [name, { items }] of file) {
    const collection = new Collection(name)
    for (const item of items) {
      collection.put(item instanceof Item ? item : new Item(item.id as ItemId, new Document(item.text), 0, 0))
      yield
    }
    collections.set(name, collection)
  }
  return collections
}

function readItem(scan: JsonScan, text: string, collection: string, index: number) {
  let parsed: JsonValue
  try {
    parsed = JSON.parse(text)
  } catch {
    throw scan.malformed()
  }
  const value = checkItem(parsed, text, collection, index)
  return { value, id: own(value, 'id') as ItemId | undefined }
}

/** As JavaScript orders the members of an object. */
function inOrder(contents: ReadonlyMap<string, FileItems>): FileContents {
  const isIndex = (name: string): boolean => /^(0|[1-9]\d{0,9})$/.test(name) && Number(name) < 2 ** 32 - 1
  const names = [...contents.keys()]
  const indexes = names.filter(isIndex).sort((a, b) => Number(a) - Number(b))
  const all = [...indexes, ...names.filter((name) => !isIndex(name))]
  return new Map(all.map((name) => [name, contents.get(name) as FileItems]))
}

/** A file up to this size is looked at as a whole when something is wrong with it. */
const WHOLE_BYTES = 256 * 1024

/** What is wrong with bytes that are no JSON, and where; undefined when `error` is about something else. */
function* whyMalformed(bytes: Buffer, error: unknown): Steps<string | undefined> {
  if (error instanceof Malformed && error.isNoText) return NO_TEXT
  if (bytes.length <= WHOLE_BYTES) {
    if (!isUtf8(bytes)) return NO_TEXT
    const text = bytes.toString().replace(/^\uFEFF/, '')
    try {
      JSON.parse(text)
    } catch {
      return told(whereMalformed(text))
    }
    return undefined
  }
  if (!(error instanceof Malformed)) return undefined
  const { begin, before } = error
  let lines = 0
  let lineBegin = 0
  for (let at = bytes.indexOf('\n'); at >= 0 && at < begin; at = bytes.indexOf('\n', at + 1)) {
    lines++
    lineBegin = at + 1
    if (lines % 1024 === 0) yield
  }
  const column = bytes.toString('utf8', lineBegin, begin).length
  const part = bytes.toString('utf8', begin, begin + WHOLE_BYTES)
  return told(whereMalformed(part, { before, lines, column }))
}

const NO_TEXT = 'The data file is not valid UTF-8.'

function told(where: string): string {
  return `The data file is not well-formed JSON: ${where}.`
}
