import type { FileItem } from '../collections/file-items.ts'
import { type Item, integerAfter, keyOf } from '../collections/item.ts'
import { type CollectionItems, holdsObject } from '../collections/stored-items.ts'
import type { ItemId } from '../events/event.ts'
import { DELETION_BYTES, EVENT_BYTES } from '../events/journal.ts'
import { parseText } from '../json/parse.ts'
import type { JsonObject } from '../json/value.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { idBytes, textBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import {
  BYTES,
  type CollectionEdit,
  type Edit,
  type EditedItem,
  type EditKind,
  isSame,
  NO_ITEMS_OF_FILE,
} from './edit.ts'
import { IdIndex } from './merged-order.ts'

export type BaseItems = Pick<CollectionItems, 'size' | 'places' | 'itemAt' | 'seek' | 'placeOf' | 'item'>

/** The state from which a file was edited, by collection. */
export type Base = ReadonlyMap<string, BaseItems>

export interface DifferenceOptions {
  readonly base: Base
  readonly idField: string
  /** Called with the memory of each item and of its event, in bytes, before it is held. */
  readonly hold?: (bytes: number) => void
  /** Called with each item that is new, changed or removed, to end a comparison at the first one. */
  readonly differs?: () => void
  readonly kind: EditKind
  /** How much of all items is kept: the ids to merge the order and find items that lost them, and the texts for `copyTo`. */
  readonly keeps: 'nothing' | 'ids' | 'items'
  /** The ids are known to be different. */
  readonly hasUniqueIds?: boolean
  /** Only the ids are compared: no item counts as edited. */
  readonly isCheck?: boolean
}

/** Approximate memory of a collection that is compared. */
const COLLECTION_BYTES = 1000

/** Places between two checks of the turn. */
const STEP_PLACES = 65_536

/** Compares the items of a file with its base, one after the other. Memory holds the items that differ. */
export class Difference {
  readonly #options: DifferenceOptions
  readonly #collections = new Map<string, CollectionDifference>()

  constructor(options: DifferenceOptions) {
    this.#options = options
  }

  /** The next collection of the file. */
  collection(name: string, isObject: boolean): CollectionDifference {
    const { base, hold } = this.#options
    const before = base.get(name)
    if (before && holdsObject(before) !== isObject) hold?.(before.size * DELETION_BYTES)
    hold?.(COLLECTION_BYTES)
    const collection = new CollectionDifference(name, isObject, before, this.#options)
    this.#collections.set(name, collection)
    return collection
  }

  /** Compares the items with another base. */
  async copyTo(other: Difference, turn: Turn): Promise<void> {
    for (const [name, { isObject, ids, texts }] of this.#collections) {
      const collection = other.collection(name, isObject)
      for (let index = 0; index < ids.length; index++) {
        if (turn.isOver) await turn.next()
        collection.add(ids.at(index), texts.at(index) as string)
      }
    }
  }

  /** The items found since the last call; more will follow. */
  take(): Edit {
    const collections = Array.from(this.#collections.values(), (collection) => collection.take())
    return { collections, kind: this.#options.kind }
  }

  /** The edit, after all items were added. */
  async end(turn: Turn): Promise<Edit> {
    const { base, hold } = this.#options
    const collections: CollectionEdit[] = []
    for (const [name, { size }] of base) {
      if (turn.isOver) await turn.next()
      const collection = this.#collections.get(name)
      if (!collection) hold?.(size * DELETION_BYTES)
      const ended = collection ? await collection.end(turn) : removedCollection(name, base)
      collections.push(ended)
    }
    for (const [name, collection] of this.#collections)
      if (!base.has(name)) collections.push(await collection.end(turn))
    return { collections, kind: this.#options.kind }
  }
}

function removedCollection(name: string, base: Base): CollectionEdit {
  const before = base.get(name)
  const item = (id: ItemId): Item | undefined => before?.item(keyOf(id))
  return { ...NO_ITEMS_OF_FILE, name, isRemoved: true, isObject: false, wasThere: true, before: item }
}

class CollectionDifference {
  readonly name: string
  readonly isObject: boolean
  /** The ids and texts of the file, as far as they are kept. */
  readonly ids = new ChunkedList<ItemId | undefined>()
  readonly texts = new ChunkedList<string>()
  readonly #whole: BaseItems | undefined
  /** The items to compare with: none if the base has another kind. */
  readonly #base: BaseItems | undefined
  readonly #options: DifferenceOptions
  #edited = new ChunkedList<EditedItem>()
  /** For each place of the base, the index of its item in the file plus one; 0 if the file does not have it. */
  readonly #indexes: Uint32Array
  readonly #added = new IdIndex()
  #length = 0
  /** Where the next item is in the base, unless items were inserted, removed or moved. */
  #place: number
  #found = 0
  #hasUnnamed = false
  #nextId = 0

  constructor(name: string, isObject: boolean, whole: BaseItems | undefined, options: DifferenceOptions) {
    const base = whole && holdsObject(whole) === isObject ? whole : undefined
    this.name = name
    this.isObject = isObject
    this.#whole = whole
    this.#base = base
    this.#options = options
    const places = base?.places ?? 0
    options.hold?.(BYTES.place * places)
    this.#indexes = new Uint32Array(places)
    this.#place = base?.seek(0) ?? 0
  }

  /** The item of the base that has this text, if the file has it in its order: it need not be parsed. */
  known(text: string): Item | undefined {
    const base = this.#base
    const item = base && this.#place < base.places ? base.itemAt(this.#place) : undefined
    return item?.text === text ? item : undefined
  }

  /** Adds the next item of the file. Returns the index of an earlier one with the same id. */
  add(id: ItemId | undefined, text: string, known: FileItem | undefined = this.known(text)): number | undefined {
    const { hold, differs, kind, keeps, isCheck } = this.#options
    const index = this.#length++
    const before = known ?? (id === undefined ? undefined : this.#base?.item(keyOf(id)))
    const isEdited = !isCheck && !known && !isSame(before?.text, text, kind)
    if (isEdited) differs?.()
    hold?.(this.#bytesOf(id, text, isEdited, before !== undefined))
    if (isEdited) this.#edited.push({ index, id, text })
    if (keeps !== 'nothing') this.ids.push(id)
    if (keeps === 'items') this.texts.push(text)
    if (id === undefined) {
      this.#hasUnnamed = true
      return undefined
    }
    this.#nextId = Math.max(this.#nextId, integerAfter(id))
    return before ? this.#markFound(before.id as ItemId, index, known !== undefined) : this.#markAdded(id, index)
  }

  /** The memory of an item that is added, and of its event. */
  #bytesOf(id: ItemId | undefined, text: string, isEdited: boolean, isFound: boolean): number {
    const { keeps, hasUniqueIds } = this.#options
    let bytes = 0
    if (isEdited || keeps === 'items') bytes += textBytes(text)
    if (isEdited) bytes += BYTES.edited + EVENT_BYTES
    if (keeps !== 'nothing') bytes += BYTES.listed + BYTES.place
    if (!isFound && !hasUniqueIds) bytes += BYTES.indexed
    return bytes && bytes + idBytes(id)
  }

  #markFound(id: ItemId, index: number, isExpected: boolean): number | undefined {
    const base = this.#base as BaseItems
    const place = isExpected ? this.#place : (base.placeOf(id) as number)
    // Most files have the order of the base, so the next item is probably the one after this.
    this.#place = base.seek(place + 1)
    const earlier = this.#indexes[place] as number
    if (earlier > 0) return earlier - 1
    this.#indexes[place] = index + 1
    this.#found++
    return undefined
  }

  #markAdded(id: ItemId, index: number): number | undefined {
    if (this.#options.hasUniqueIds) return undefined
    const earlier = this.#added.get(id)
    if (earlier === undefined) this.#added.set(id, index)
    return earlier
  }

  take(): CollectionEdit {
    const edited = this.#edited
    this.#edited = new ChunkedList()
    return { ...this.#edit, edited, removed: [], isReordered: false, order: undefined }
  }

  async end(turn: Turn): Promise<CollectionEdit> {
    const removed = new ChunkedList<ItemId>()
    const matched = await this.#compareRest(removed, turn)
    const isReordered = await this.#isReordered(turn)
    const order = { [Symbol.iterator]: () => this.#order(matched) }
    return {
      ...this.#edit,
      edited: matched ? await this.#editedWithout(matched, turn) : this.#edited,
      removed,
      isReordered,
      order: isReordered && this.#options.keeps !== 'nothing' ? order : undefined,
    }
  }

  get #edit(): Omit<CollectionEdit, 'edited' | 'removed' | 'isReordered' | 'order'> {
    return {
      name: this.name,
      isRemoved: false,
      isObject: this.isObject,
      wasThere: this.#base !== undefined,
      hasUnnamed: this.#hasUnnamed,
      nextId: this.#nextId,
      isAdded: (id) => this.#added.has(id),
      before: (id) => this.#whole?.item(keyOf(id)),
    }
  }

  /**
   * Finds the items of the base that the file does not have. An item without an id that equals one of these is that one:
   * the editor removed its id, or the file was saved before the id was assigned. Returns, by index, their places plus one.
   */
  async #compareRest(removed: ChunkedList<ItemId>, turn: Turn): Promise<Uint32Array | undefined> {
    const base = this.#base
    if (!base || this.#found === base.size) return undefined
    const { keeps, idField, hold, differs } = this.#options
    const unnamed = this.#hasUnnamed && keeps !== 'nothing' ? new UnnamedItems(this.#edited) : undefined
    await unnamed?.build(turn)
    const matched = unnamed && new Uint32Array(this.ids.length)
    for (let place = base.seek(0); place < base.places; place = base.seek(place + 1)) {
      if (turn.isOver) await turn.next()
      if (this.#indexes[place] !== 0) continue
      const { id, text } = base.itemAt(place) as Item
      const index = unnamed?.take(textWithoutId(text, idField))
      if (!matched || index === undefined) {
        differs?.()
        hold?.(BYTES.listed + DELETION_BYTES + idBytes(id))
        removed.push(id)
        continue
      }
      matched[index] = place + 1
      this.#indexes[place] = index + 1
    }
    return matched
  }

  async #isReordered(turn: Turn): Promise<boolean> {
    // Without new or moved items before them, the items of the base have the indexes 0, 1, 2… in the file.
    let next = 1
    for (let place = 0; place < this.#indexes.length; place++) {
      if (place % STEP_PLACES === 0 && turn.isOver) await turn.next()
      const index = this.#indexes[place] as number
      if (index > 0 && index !== next++) return true
    }
    return false
  }

  *#order(matched: Uint32Array | undefined): Generator<ItemId | undefined> {
    let index = 0
    for (const id of this.ids) {
      const place = matched?.[index++] ?? 0
      yield place > 0 ? this.#base?.itemAt(place - 1)?.id : id
    }
  }

  async #editedWithout(matched: Uint32Array, turn: Turn): Promise<ChunkedList<EditedItem>> {
    const rest = new ChunkedList<EditedItem>()
    for (const item of this.#edited) {
      if (turn.isOver) await turn.next()
      if (matched[item.index] === 0) rest.push(item)
    }
    return rest
  }
}

/** Finds items without an id by their text. Of equal ones, each is found once. */
class UnnamedItems {
  readonly #edited: List<EditedItem>
  /** For each text, the number of its first item; NONE after the last one was taken. */
  readonly #first = new IdIndex()
  /** For each item, the number of the next one with the same text. */
  readonly #next: Uint32Array
  readonly #none: number

  constructor(edited: List<EditedItem>) {
    this.#edited = edited
    this.#none = edited.length
    this.#next = new Uint32Array(edited.length)
  }

  async build(turn: Turn): Promise<void> {
    for (let number = this.#edited.length - 1; number >= 0; number--) {
      if (turn.isOver) await turn.next()
      const { id, text } = this.#edited.at(number) as EditedItem
      if (id !== undefined) continue
      this.#next[number] = this.#first.get(text) ?? this.#none
      this.#first.set(text, number)
    }
  }

  /** The index of an item with this text. */
  take(text: string): number | undefined {
    const number = this.#first.get(text) ?? this.#none
    if (number === this.#none) return undefined
    this.#first.set(text, this.#next[number] as number)
    return this.#edited.at(number)?.index
  }
}

function textWithoutId(text: string, idField: string): string {
  const { [idField]: _, ...rest } = parseText(text) as JsonObject
  return JSON.stringify(rest)
}
