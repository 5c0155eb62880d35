import {
  type FileContents,
  type FileItem,
  FileItems,
  faultOfCollection,
  parseItem,
  parseObject,
} from '../collections/file-items.ts'
import {
  FileMistakes,
  kindOf,
  noCollection,
  noItem,
  noObject,
  sameIdTwice,
  sameNameTwice,
} from '../collections/file-mistakes.ts'
import { keyOf } from '../collections/item.ts'
import { holdsObject } from '../collections/stored-items.ts'
import { type ItemId, OBJECT_ID } from '../events/event.ts'
import * as CODE from '../json/char-codes.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import { own } from '../json/value.ts'
import { equalSteps, stringifySteps } from '../json/value-steps.ts'
import { whereMalformed } from '../json/where-malformed.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Slices, Steps } from '../runtime/time-slices.ts'
import type { Base } from './base.ts'
import type { ByteSink } from './file-content.ts'
import { JsonScanner, MORE, type ScanSteps } from './json-scanner.ts'

/** Bytes decoded in one step. */
const CHUNK_BYTES = 32 * 1024
/** Highest total length of edited items in memory: a larger edit is merged in parts. */
const PART_CHARACTERS = 4 * 1024 * 1024

export interface FileParserOptions {
  readonly base: Base
  readonly idField: string
  readonly slices: Slices
  /** Called when the edited items exceed PART_CHARACTERS. It must take them from the contents. */
  readonly full: (contents: FileContents) => void | Promise<void>
  /** The result of an earlier reading of the same content, so that ids are held only once. */
  readonly known?: FileContents
  /** Reports how many bytes of the file are left. */
  readonly progress?: (left: number) => void
}

/**
 * Parses a data file incrementally: a JSON object of arrays of objects and of single objects. For an item that equals
 * the base, in any order of members, only the id is kept; since most do, their texts are compared without parsing.
 * Throws `Invalid` for an invalid file, `Malformed` if it is not JSON.
 */
export class FileParser implements ByteSink {
  readonly #options: FileParserOptions
  readonly #scan = new JsonScanner()
  readonly #contents = new Map<string, FileItems>()
  readonly #reading: ScanSteps<FileContents>
  readonly #mistakes = new FileMistakes()
  #characters = 0
  #whole: FileContents | undefined
  /** Whether items were taken from the contents. */
  wasFull = false

  constructor(options: FileParserOptions) {
    this.#options = options
    this.#reading = this.#read()
  }

  async allocate(left: number): Promise<Buffer> {
    this.#options.progress?.(left)
    await this.#parseAvailable()
    return this.#scan.allocate()
  }

  commit(bytes: number): void {
    this.#scan.commit(bytes)
  }

  /** The contents, after the end of the file was reported. */
  async contents(): Promise<FileContents> {
    await this.#parseAvailable()
    if (!this.#whole) throw new Error('the file has not been read to its end')
    return this.#whole
  }

  /** The current place as a JSON Pointer. */
  get place(): string {
    return pointer(this.#scan.place())
  }

  async #parseAvailable(): Promise<void> {
    const { slices, full } = this.#options
    this.#whole ??= await slices.run(() => untilMore(this.#reading))
    if (this.#characters <= PART_CHARACTERS) return
    this.#characters = 0
    this.wasFull = true
    await full(this.#contents)
  }

  *#read(): ScanSteps<FileContents> {
    const scan = this.#scan
    yield* scan.begin()
    if (scan.peek() !== CODE.OPEN_BRACE) throw noObject(kindOf(scan.peek()))
    for (let isFirst = true; yield* scan.member(isFirst); isFirst = false) {
      const name = yield* scan.name()
      const badName = faultOfCollection(name)
      if (badName) this.#mistakes.add(badName)
      if (this.#contents.has(name)) this.#mistakes.add(sameNameTwice(name))
      if (scan.peek() === CODE.OPEN_BRACE) yield* this.#object(name)
      else if (scan.peek() === CODE.OPEN_BRACKET) yield* this.#items(name)
      else {
        const kind = kindOf(scan.peek())
        yield* scan.skip()
        this.#mistakes.add(noCollection(name, kind))
      }
      scan.place = () => []
    }
    scan.end()
    this.#mistakes.throwAny()
    return inOrder(this.#contents)
  }

  *#object(name: string): ScanSteps<void> {
    const scan = this.#scan
    const base = this.#options.base.get(name)
    const known = this.#options.known?.get(name)
    const items = known ?? new FileItems()
    this.#contents.set(name, items)
    scan.place = () => [name]
    const text = yield* scan.object()
    const before = base?.item(OBJECT_ID)
    if (before?.text !== text) {
      const value = yield* this.#mistakes.catching(parseObject(text, name))
      if (!value) return
      const isSame = before && (yield* equalSteps(yield* parseSteps(before.text), value))
      // A file with mistakes is not merged, so its edits are not recorded.
      if (!isSame && !this.#mistakes.any) this.#edit(items, 0, { id: OBJECT_ID, text: yield* stringifySteps(value) })
    }
    if (known) checkSame(known, 0, OBJECT_ID)
    else items.add(OBJECT_ID)
    items.matched = { isAll: (base?.size ?? 0) === (before ? 1 : 0), isInOrder: true }
  }

  #edit(items: FileItems, index: number, item: FileItem): void {
    items.edit(index, item)
    this.#characters += item.text.length
  }

  *#items(name: string): ScanSteps<void> {
    const scan = this.#scan
    const { idField } = this.#options
    const whole = this.#options.base.get(name)
    const base = whole && !holdsObject(whole) ? whole : undefined
    const known = this.#options.known?.get(name)
    const items = known ?? new FileItems()
    this.#contents.set(name, items)
    let index = 0
    scan.place = () => [name, index]
    // Where the item is in the base, unless items were inserted, removed or moved.
    let place = base?.seek(0) ?? 0
    let matched = 0
    let last = -1
    let isInOrder = true
    let hasOthers = false
    let isMixed = false
    for (let isFirst = true; yield* scan.element(isFirst); isFirst = false, index++) {
      if (scan.peek() !== CODE.OPEN_BRACE) {
        // One mistake for a list of numbers is enough.
        if (!isMixed) this.#mistakes.add(noItem(name, index, kindOf(scan.peek())))
        isMixed = true
        yield* scan.skip()
        if (!known) items.add(undefined)
        yield
        continue
      }
      const noted = known?.notedBytes(index) ?? 0
      const checked = known && noted > 0 ? yield* scan.known(noted, known.notedChecksum(index)) : undefined
      const text = checked ?? (yield* scan.object())
      let before = base && place < base.places ? base.uncachedAt(place) : undefined
      let id: ItemId | undefined
      if (before?.text === text) id = before.id
      else {
        const value =
          checked === undefined ? yield* this.#mistakes.catching(parseItem(text, name, index, idField)) : undefined
        if (checked === undefined && !value) {
          if (!known) items.add(undefined)
          yield
          continue
        }
        id = value ? (own(value, idField) as ItemId | undefined) : known?.idAt(index)
        before = base && id !== undefined ? base.item(keyOf(id)) : undefined
        const isSame = before && (yield* equalSteps(yield* parseSteps(before.text), value ?? (yield* parseSteps(text))))
        // A file with mistakes is not merged, so its edits are not recorded.
        if (!isSame && !this.#mistakes.any) {
          const item = { id, text: value ? yield* stringifySteps(value) : text }
          this.#edit(items, index, item)
          if (!known && item.text === text && scan.compact) items.noteBytes(index, scan.compact)
        }
        place = (before && base?.placeOf(before.id)) ?? place - 1
      }
      if (before) {
        if (hasOthers || place < last) isInOrder = false
        last = place
        matched++
      } else hasOthers = true
      if (base) place = base.seek(place + 1)
      if (known) checkSame(known, index, id)
      else this.#add(items, name, index, id)
      yield
    }
    if (known && known.length !== index) throw new FileChanged()
    items.matched = { isAll: matched === (whole?.size ?? 0), isInOrder }
  }

  #add(items: FileItems, name: string, index: number, id: ItemId | undefined): void {
    const first = id === undefined ? undefined : items.indexOf(id)
    // An item with a mistake is added as well, so that the indexes stay those of the file.
    items.add(first === undefined ? id : undefined)
    if (id === undefined || first === undefined) return
    this.#mistakes.add(sameIdTwice(name, first, index, keyOf(id), this.#options.idField))
  }
}

/** The content of the file has changed since the previous reading. */
export class FileChanged extends Error {}

function checkSame(known: FileItems, index: number, id: ItemId | undefined): void {
  const before = known.idAt(index)
  if (
    index < known.length &&
    (before === id || (before !== undefined && id !== undefined && keyOf(before) === keyOf(id)))
  )
    return
  throw new FileChanged()
}

/** Describes why bytes are not a data file, with the place. */
export function* whyInvalid(pieces: readonly Buffer[], place: string): Steps<Refusal | undefined> {
  const why = yield* whyMalformed(pieces)
  if (why === undefined) return undefined
  const message = `The data file is not ${why}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: place, message }])
}

function* untilMore(reading: ScanSteps<FileContents>): Steps<FileContents | undefined> {
  for (;;) {
    const step = reading.next()
    if (step.done) return step.value
    if (step.value === MORE) return undefined
    yield
  }
}

/** The order in which JavaScript iterates over members. */
function inOrder(contents: ReadonlyMap<string, FileItems>): FileContents {
  const isIndex = (name: string): boolean => /^(0|[1-9]\d{0,9})$/.test(name) && Number(name) < 2 ** 32 - 1
  const names = [...contents.keys()]
  const indexes = names.filter(isIndex).sort((a, b) => Number(a) - Number(b))
  const all = [...indexes, ...names.filter((name) => !isIndex(name))]
  return new Map(all.map((name) => [name, contents.get(name) as FileItems]))
}

/** Describes the UTF-8 or syntax error with its place; undefined if there is none. */
function* whyMalformed(pieces: readonly Buffer[]): Steps<string | undefined> {
  try {
    for (const _ of textOf(pieces)) yield
  } catch {
    return 'valid UTF-8'
  }
  const where = yield* whereMalformed(textOf(pieces))
  return where && `well-formed JSON: ${where}`
}

/** Throws at the first byte that is not UTF-8. */
function* textOf(pieces: readonly Buffer[]): Generator<string, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += CHUNK_BYTES) {
      yield decoder.decode(piece.subarray(at, at + CHUNK_BYTES), { stream: true })
    }
  }
  decoder.decode()
}
