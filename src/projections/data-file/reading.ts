import type { PinnedCollection } from '../../collections/collection.ts'
import { Item, keyOf } from '../../collections/item.ts'
import { Keys } from '../../collections/keys.ts'
import {
  checkName,
  type FileContents,
  type FileItem,
  type FileItems,
  noArray,
  noItem,
  noObject,
  parseItem,
  sameIdTwice,
} from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import type { ItemId } from '../../events/event.ts'
import { parseSteps } from '../../json/parse-steps.ts'
import { pointer } from '../../json/pointer.ts'
import { own } from '../../json/value.ts'
import { equalSteps, stringifySteps } from '../../json/value-steps.ts'
import { whereMalformed } from '../../json/where-malformed.ts'
import { LongList } from '../../long-list.ts'
import type { Slices, Steps } from '../../slices.ts'
import { JsonScan, MORE, type Scanning } from './json-scan.ts'

/** The state that a file was edited from. */
export type Base = ReadonlyMap<string, BaseCollection>

/** The items that a collection had then. */
export type BaseCollection = Pick<PinnedCollection, 'size' | 'get' | 'item' | 'itemAt' | 'placeOf' | 'seek' | 'items'>

const OPEN_BRACE = 0x7b
const OPEN_BRACKET = 0x5b

/** Bytes that are decoded in one step. */
const CHUNK_BYTES = 32 * 1024

/**
 * Reads a data file, an item a step: a JSON object of arrays of objects. An item that is as the base has it, whatever
 * the order of its members, is the base's own; as almost all are, only their texts are compared. A file that is not
 * valid is refused with its place.
 */
export function* readingOf(pieces: readonly Buffer[], base: Base): Steps<FileContents> {
  const scan = new JsonScan()
  const reading = contentsOf(scan, base)
  const coming = pieces.toReversed()
  let piece = coming.pop()
  try {
    for (;;) {
      const contents = yield* untilMore(reading)
      if (contents) return contents
      while (piece?.length === 0) piece = coming.pop()
      const copied = piece?.copy(scan.room()) ?? 0
      scan.fed(copied)
      piece = piece?.subarray(copied)
      yield
    }
  } catch (error) {
    const why = yield* whyMalformed(pieces)
    if (why === undefined) throw error
    const message = `The data file is not ${why}`
    throw new Refusal('Invalid', `${message}.`, [{ pointer: pointer(scan.place()), message }])
  }
}

/** The same of a file whose bytes come while it is read, so that it never is in memory as a whole; what is wrong with it has no place. */
export class FileReading {
  readonly #scan = new JsonScan()
  readonly #reading: Scanning<FileContents>
  readonly #slices: Slices
  #contents: FileContents | undefined

  constructor(base: Base, slices: Slices) {
    this.#reading = contentsOf(this.#scan, base)
    this.#slices = slices
  }

  /** Where the next bytes belong. */
  async room(): Promise<Buffer> {
    await this.#goOn()
    return this.#scan.room()
  }

  fed(bytes: number): void {
    this.#scan.fed(bytes)
  }

  /** What the file holds, once its end was told of. */
  async contents(): Promise<FileContents> {
    await this.#goOn()
    if (!this.#contents) throw new Error('the file has not been read to its end')
    return this.#contents
  }

  async #goOn(): Promise<void> {
    this.#contents ??= await this.#slices.run(() => untilMore(this.#reading))
  }
}

function* untilMore(reading: Scanning<FileContents>): Steps<FileContents | undefined> {
  for (;;) {
    const step = reading.next()
    if (step.done) return step.value
    if (step.value === MORE) return undefined
    yield
  }
}

function* contentsOf(scan: JsonScan, base: Base): Scanning<FileContents> {
  const contents = new Map<string, FileItems>()
  yield* scan.begin()
  if (scan.peek() !== OPEN_BRACE) throw noObject()
  for (let isFirst = true; yield* scan.member(isFirst); isFirst = false) {
    const name = yield* scan.name()
    checkName(name)
    if (scan.peek() !== OPEN_BRACKET) throw noArray(name)
    contents.set(name, yield* itemsOf(scan, name, base.get(name)))
    scan.place = () => []
  }
  scan.end()
  return inOrder(contents)
}

function* itemsOf(scan: JsonScan, name: string, base: BaseCollection | undefined): Scanning<FileItems> {
  const items = new LongList<FileItem>()
  const indexes = new Keys()
  scan.place = () => [name, items.length]
  // Where the item stands in the base, unless something was put in, taken out or moved.
  let place = base?.seek(0) ?? 0
  for (let isFirst = true; yield* scan.element(isFirst); isFirst = false) {
    if (scan.peek() !== OPEN_BRACE) throw noItem(name, items.length)
    const text = yield* scan.object()
    let item: FileItem | undefined = base?.itemAt(place)
    if (item?.text !== text) {
      const value = yield* parseItem(text, name, items.length)
      const id = own(value, 'id') as ItemId | undefined
      const there = base && id !== undefined ? base.item(keyOf(id)) : undefined
      const isSame = there && (yield* equalSteps(yield* parseSteps(there.text), value))
      item = isSame ? there : { id, text: yield* stringifySteps(value) }
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
  const collections = new Map<string, BaseCollection>()
  for (const [name, { items, indexes }] of file) {
    const all = new LongList<Item>()
    for (const item of items) {
      all.push(item instanceof Item ? item : new Item(item.id as ItemId, item, 0, 0))
      yield
    }
    collections.set(name, new FileCollection(all, indexes))
  }
  return collections
}

/** The items of a collection as a file has them: the places are their indexes. */
class FileCollection implements BaseCollection {
  readonly #items: LongList<Item>
  readonly #indexes: FileItems['indexes']

  constructor(items: LongList<Item>, indexes: FileItems['indexes']) {
    this.#items = items
    this.#indexes = indexes
  }

  get size(): number {
    return this.#items.length
  }

  get(key: string): Item | undefined {
    return this.item(key)
  }

  item(key: string): Item | undefined {
    const place = this.placeOf(key)
    return place === undefined ? undefined : this.itemAt(place)
  }

  itemAt(place: number): Item | undefined {
    return this.#items.at(place)
  }

  placeOf(id: ItemId): number | undefined {
    return this.#indexes.of(id)
  }

  seek(place: number): number {
    return Math.min(place, this.size)
  }

  *items(): Generator<Item> {
    yield* this.#items
  }
}

/** As JavaScript orders the members of an object. */
function inOrder(contents: ReadonlyMap<string, FileItems>): FileContents {
  const isIndex = (name: string): boolean => /^(0|[1-9]\d{0,9})$/.test(name) && Number(name) < 2 ** 32 - 1
  const names = [...contents.keys()]
  const indexes = names.filter(isIndex).sort((a, b) => Number(a) - Number(b))
  const all = [...indexes, ...names.filter((name) => !isIndex(name))]
  return new Map(all.map((name) => [name, contents.get(name) as FileItems]))
}

/** The UTF-8 or syntax error in words, with its place; undefined when there is none. */
function* whyMalformed(pieces: readonly Buffer[]): Steps<string | undefined> {
  try {
    for (const _ of textOf(pieces)) yield
  } catch {
    return 'valid UTF-8'
  }
  const where = yield* whereMalformed(textOf(pieces))
  return where && `well-formed JSON: ${where}`
}

/** Fails at the first byte that is no UTF-8. */
function* textOf(pieces: readonly Buffer[]): Generator<string, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += CHUNK_BYTES) {
      yield decoder.decode(piece.subarray(at, at + CHUNK_BYTES), { stream: true })
    }
  }
  decoder.decode()
}
