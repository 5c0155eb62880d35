import { crc32 } from 'node:zlib'
import type { CollectionState } from '../collections/collection.ts'
import type { EditedItem, FileItem, FileItems } from '../collections/file-items.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import { PartitionedMap } from '../collections/partitioned-map.ts'
import { holdsObject } from '../collections/stored-items.ts'
import { type DomainEvent, type ItemId, OBJECT_ID } from '../events/event.ts'
import { Document } from '../json/document.ts'
import type { JsonValue } from '../json/value.ts'
import { stringifySteps } from '../json/value-steps.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { assignedId } from './decide.ts'
import { checkSchema, parsedItem } from './edited-items.ts'
import { stamp, withId } from './item-event.ts'
import { isSameId, mergedOrder } from './merged-order.ts'
import type { Rules } from './rules.ts'

/** A collection before it was edited. */
export interface BaseCollection {
  item(key: string): Item | undefined
  items(): Iterable<Item>
}

/** An item that both the editor and another write changed. The edit won; the journal holds both. */
export interface MergeConflict {
  readonly collection: string
  readonly id: ItemId
}

/** Whether two items with different texts count as the same. */
export type IsSame = (a: FileItem, b: FileItem) => Steps<boolean>

const NOTHING: BaseCollection = { item: () => undefined, items: () => [] }

export class CollectionMerge {
  readonly #conflicts: MergeConflict[]
  #base: BaseCollection
  #wasThere: boolean
  readonly #rules: Rules
  readonly #isSameItem: IsSame
  #events: ChunkedList<DomainEvent> = new ChunkedList()
  #ours: CollectionState | undefined
  /** Whether the collection exists before the next event. */
  #isThere = false
  /** Whether the file has a single object. */
  #isObject = false
  /** Ids of items of the base that the file does not name, by a digest of their texts without the id. */
  #unnamed: PartitionedMap<ItemId[]> | undefined
  /** Whether an item without an id was identified as one of the base. */
  #isNamedByBase = false
  /** Lower bound for newly assigned ids. */
  #nextId = 0

  constructor(base: BaseCollection | undefined, rules: Rules, isSame: IsSame, conflicts: MergeConflict[]) {
    this.#base = base ?? NOTHING
    this.#wasThere = base !== undefined
    this.#rules = rules
    this.#isSameItem = isSame
    this.#conflicts = conflicts
  }

  /** The editor removed the collection, with everything that is in it now. */
  *removed(ours: CollectionState, events: ChunkedList<DomainEvent>): Steps<void> {
    this.#begin(ours, events)
    if (this.#isThere) yield* this.#remove()
  }

  /** Events of the edited items found so far; more may follow. */
  *part(file: FileItems, ours: CollectionState, events: ChunkedList<DomainEvent>): Steps<void> {
    this.#begin(ours, events)
    yield* this.#changeKind(file)
    // Reading the file may continue meanwhile.
    const edited = file.takeEdited()
    yield* this.#name(file, edited)
    yield* this.#items(edited)
  }

  /** Everything else. */
  *rest(file: FileItems, ours: CollectionState, events: ChunkedList<DomainEvent>): Steps<void> {
    this.#begin(ours, events)
    const first = events.length
    yield* this.#changeKind(file)
    const edited = file.takeEdited()
    yield* this.#name(file, edited)
    if (!file.matched?.isAll) {
      for (const { id, key } of this.#base.items()) {
        if (file.indexOf(id) === undefined) yield* this.#delete(key)
        yield
      }
    }
    yield* this.#items(edited)
    const ids = (yield* this.#isReordered(file)) ? yield* mergedOrder(file, this.#now, this.#events, first) : undefined
    if (ids) this.#add({ type: 'CollectionOrdered', collection: this.#now.name, ids })
    if (!this.#wasThere) this.#create()
  }

  #begin(ours: CollectionState, events: ChunkedList<DomainEvent>): void {
    this.#ours = ours
    this.#isThere = ours.exists
    this.#events = events
  }

  /**
   * Removes a list of items that the editor replaced by a single object, or the reverse. If others made that change and
   * the editor did not, theirs stays.
   */
  *#changeKind(file: FileItems): Steps<void> {
    this.#isObject = file.isObject
    const isChanged = !this.#wasThere || holdsObject(this.#base) !== file.isObject
    const isOther = this.#isThere && this.#now.isObject !== file.isObject
    if (isOther && (isChanged || file.edited.length > 0)) yield* this.#remove()
    if (!isChanged) return
    this.#base = NOTHING
    this.#wasThere = false
  }

  *#remove(): Steps<void> {
    for (const item of this.#now.items()) {
      yield* this.#delete(item.key)
      yield
    }
    if (!this.#now.isObject) this.#add({ type: 'CollectionRemoved', collection: this.#now.name })
    this.#isThere = false
  }

  get #now(): CollectionState {
    return this.#ours as CollectionState
  }

  #add(event: DomainEvent): void {
    this.#create()
    this.#events.push(event)
  }

  #create(): void {
    if (this.#isThere) return
    this.#isThere = true
    // A single object is created by the event of its item.
    if (!this.#isObject) this.#events.push({ type: 'CollectionCreated', collection: this.#now.name })
  }

  *#items(all: List<EditedItem>): Steps<void> {
    for (const { index, item } of all) {
      yield* this.#item(item, index)
      yield
    }
  }

  /**
   * Assigns ids. An item without an id that equals one which the file no longer names is that one: the editor removed
   * its id, or the file was saved before the id was assigned. The others get the integers after the highest one,
   * including those in the file, except integers that exist as text.
   */
  *#name(file: FileItems, all: List<EditedItem>): Steps<void> {
    if (file.unnamed === 0) return
    this.#nextId = Math.max(this.#nextId, this.#now.nextId, file.nextId)
    const unnamed = yield* this.#unnamedBy(file)
    for (const edited of all) {
      yield
      const { index, item } = edited
      if (item.id !== undefined) continue
      let id = yield* this.#takeNamed(unnamed, item.text)
      if (id !== undefined) this.#isNamedByBase = true
      else {
        while (file.indexOf(this.#nextId) !== undefined || this.#now.get(keyOf(this.#nextId))) this.#nextId++
        id = assignedId(this.#nextId++)
      }
      file.name(index, id)
      const named = { id, text: yield* stringifySteps(yield* withId(yield* parsedItem(item), id, this.#rules)) }
      const base = this.#base.item(keyOf(id))
      edited.item = base && (yield* this.#isSame(base, named)) ? base : named
    }
  }

  *#unnamedBy(file: FileItems): Steps<PartitionedMap<ItemId[]>> {
    if (this.#unnamed) return this.#unnamed
    const unnamed = new PartitionedMap<ItemId[]>()
    for (const item of file.matched?.isAll ? [] : this.#base.items()) {
      yield
      if (file.indexOf(item.id) !== undefined) continue
      const short = shortOf(yield* textWithoutId(item, this.#rules))
      const ids = unnamed.get(short)
      if (ids) ids.push(item.id)
      else unnamed.set(short, [item.id])
    }
    this.#unnamed = unnamed
    return unnamed
  }

  /** Takes the first id whose item has this text. */
  *#takeNamed(unnamed: PartitionedMap<ItemId[]>, text: string): Steps<ItemId | undefined> {
    const ids = unnamed.get(shortOf(text)) ?? []
    for (const [at, id] of ids.entries()) {
      const item = this.#base.item(keyOf(id))
      if (!item || (yield* textWithoutId(item, this.#rules)) !== text) continue
      ids.splice(at, 1)
      return id
    }
    return undefined
  }

  *#isSame(a: FileItem | undefined, b: FileItem | undefined): Steps<boolean> {
    return a?.text === b?.text || (a !== undefined && b !== undefined && (yield* this.#isSameItem(a, b)))
  }

  *#delete(key: string): Steps<void> {
    const ours = this.#now.get(key)
    if (!isItem(ours)) return
    if (!(yield* this.#isSame(ours, this.#base.item(key)))) this.#conflict(ours.id)
    const type = ours.id === OBJECT_ID ? 'ObjectDeleted' : 'ItemDeleted'
    this.#add({ type, ...stamp(this.#now.name, ours.id, ours) })
  }

  *#item(item: FileItem, index: number): Steps<void> {
    const id = item.id as ItemId
    const base = this.#base.item(keyOf(id))
    if (item.text === base?.text) return
    const ours = this.#now.get(keyOf(id))
    const now = isItem(ours) ? ours : undefined
    // An edited item differs from the base, so it need not be compared with the base again.
    if (now?.text !== base?.text && (yield* this.#isSame(now, item))) return
    yield* checkSchema(this.#rules, this.#now.name, index, item)
    if (!(yield* this.#isSame(now, base))) this.#conflict(id)
    const created = id === OBJECT_ID ? 'ObjectCreated' : 'ItemCreated'
    const type = now ? 'ItemReplaced' : created
    this.#add({ type, ...stamp(this.#now.name, id, ours), item: new Document(item.text) })
  }

  #conflict(id: ItemId): void {
    this.#conflicts.push({ collection: this.#now.name, id })
  }

  /** Whether the editor moved items, or inserted new ones elsewhere than at the end. */
  *#isReordered(file: FileItems): Steps<boolean> {
    if (file.matched && !this.#isNamedByBase) return !file.matched.isInOrder
    let at = 0
    for (const { id } of this.#base.items()) {
      yield
      if (file.indexOf(id) !== undefined && !isSameId(id, file.idAt(at++))) return true
    }
    return false
  }
}

/** Texts are not held in memory, since there may be very many. */
function shortOf(text: string): string {
  return `${crc32(text)} ${text.length}`
}

function* textWithoutId(item: FileItem, { idField }: Rules): Steps<string> {
  const value: Record<string, JsonValue> = yield* parsedItem(item)
  delete value[idField]
  return yield* stringifySteps(value)
}
