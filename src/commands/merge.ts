import { crc32 } from 'node:zlib'
import type { CollectionState } from '../collections/collection.ts'
import type { EditedItem, FileContents, FileItem, FileItems } from '../collections/file-items.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { PartitionedMap } from '../collections/partitioned-map.ts'
import { PlaceMap } from '../collections/place-map.ts'
import { holdsObject } from '../collections/stored-items.ts'
import { type DomainEvent, type ItemId, OBJECT_ID } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { parseSteps } from '../json/parse-steps.ts'
import type { JsonValue } from '../json/value.ts'
import { equalSteps, stringifySteps } from '../json/value-steps.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { assignedId } from './decide.ts'
import { checkSchema, parsedItem } from './edited-items.ts'
import { stamp, withId } from './item-event.ts'
import type { Rules } from './rules.ts'

/** A collection before it was edited. */
export interface BaseCollection {
  item(key: string): Item | undefined
  items(): Iterable<Item>
}

/** An edited data file, and the state from which the edit was made. */
export interface Edit {
  readonly file: FileContents
  readonly base: ReadonlyMap<string, BaseCollection>
}

/** An item that both the editor and another write changed. The edit won; the journal holds both. */
export interface MergeConflict {
  readonly collection: string
  readonly id: ItemId
}

export interface MergeDecision {
  readonly events: List<DomainEvent>
  readonly conflicts: readonly MergeConflict[]
}

/** Compares items of an edit with those of its base. */
export interface ItemComparison {
  /** Quick check of an item in the file against that of the base. */
  readonly isUnedited: (item: FileItem, base: FileItem) => boolean
  readonly isSame: (a: FileItem, b: FileItem) => Steps<boolean>
}

/** For edits, the order of an item's members does not matter. */
const AS_EDITED: ItemComparison = {
  isUnedited: (item, base) => item.text === base.text,
  *isSame(a, b) {
    return a.text === b.text || (yield* equalSteps(yield* parseSteps(a.text), yield* parseSteps(b.text)))
  },
}

/** A three-way merge, in steps: only the editor's changes become events. */
export function* decideMerge(
  edit: Edit,
  accepted: AcceptedState,
  rules: Rules,
  comparison = AS_EDITED,
): Steps<MergeDecision> {
  const merge = new Merge(edit, rules, comparison)
  const events = yield* merge.rest(accepted)
  return { events, conflicts: merge.conflicts }
}

/**
 * `decideMerge` for an edit that arrives in parts. Each part and the rest are decided separately, on the state accepted by
 * then; the texts of a part's items are not needed again.
 */
export class Merge {
  readonly conflicts: MergeConflict[] = []
  readonly #edit: Edit
  readonly #rules: Rules
  readonly #comparison: ItemComparison
  readonly #collections = new Map<string, CollectionMerge>()

  constructor(edit: Edit, rules: Rules, comparison: ItemComparison = AS_EDITED) {
    this.#edit = edit
    this.#rules = rules
    this.#comparison = comparison
  }

  /** Events of the edited items found so far; more may follow. */
  *part(accepted: AcceptedState): Steps<List<DomainEvent>> {
    const events = new ChunkedList<DomainEvent>()
    for (const [name, items] of this.#edit.file) {
      if (items.edited.length > 0) yield* this.#collection(name).part(items, accepted.collection(name), events)
    }
    return events
  }

  /** Events of the other edited items, of removed items and collections, and of the order. */
  *rest(accepted: AcceptedState): Steps<List<DomainEvent>> {
    const { file, base } = this.#edit
    const events = new ChunkedList<DomainEvent>()
    for (const name of new Set([...base.keys(), ...file.keys()])) {
      const items = file.get(name)
      const merge = this.#collection(name)
      if (items) yield* merge.rest(items, accepted.collection(name), events)
      else yield* merge.removed(accepted.collection(name), events)
    }
    return events
  }

  #collection(name: string): CollectionMerge {
    let merge = this.#collections.get(name)
    if (!merge) {
      merge = new CollectionMerge(this.#edit.base.get(name), this.#rules, this.#comparison, this.conflicts)
      this.#collections.set(name, merge)
    }
    return merge
  }
}

const NOTHING: BaseCollection = { item: () => undefined, items: () => [] }

class CollectionMerge {
  readonly #conflicts: MergeConflict[]
  #base: BaseCollection
  #wasThere: boolean
  readonly #rules: Rules
  readonly #comparison: ItemComparison
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

  constructor(base: BaseCollection | undefined, rules: Rules, comparison: ItemComparison, conflicts: MergeConflict[]) {
    this.#base = base ?? NOTHING
    this.#wasThere = base !== undefined
    this.#rules = rules
    this.#comparison = comparison
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
    if (yield* this.#isReordered(file)) yield* this.#order(file, first)
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
    return a === b || (a !== undefined && b !== undefined && (yield* this.#comparison.isSame(a, b)))
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
    if (base && this.#comparison.isUnedited(item, base)) return
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

  /** `first` is the index of the collection's first event in this write. */
  *#order(file: FileItems, first: number): Steps<void> {
    const deleted = new PlaceMap()
    const created = new ChunkedList<ItemId>()
    for (let at = first; at < this.#events.length; at++) {
      const event = this.#events.at(at) as DomainEvent
      if (event.type === 'ItemDeleted' || event.type === 'ObjectDeleted') deleted.set(event.id, 0)
      else if (event.type === 'ItemCreated') created.push(event.id)
      yield
    }
    // The existing ids in order: those of the file, with assigned ones.
    const ids = new ChunkedList<ItemId>()
    const present = new PlaceMap()
    const add = (id: ItemId): void => {
      const inFile = file.indexOf(id)
      present.set(id, ids.length)
      ids.push((inFile === undefined ? undefined : file.idAt(inFile)) ?? id)
    }
    for (const { id } of this.#now.items()) {
      if (deleted.of(id) === undefined) add(id)
      yield
    }
    for (const id of created) {
      add(id)
      yield
    }
    const ordered = new ChunkedList<ItemId>()
    for (const id of file.ids()) {
      if (id !== undefined && present.of(id) !== undefined) ordered.push(id)
      yield
    }
    for (const id of ids) {
      if (file.indexOf(id) === undefined) ordered.push(id)
      yield
    }
    for (let at = 0; at < ids.length; at++, yield) {
      if (isSameId(ids.at(at) as ItemId, ordered.at(at))) continue
      this.#add({ type: 'CollectionOrdered', collection: this.#now.name, ids: ordered.slice(0) })
      return
    }
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

function isSameId(a: ItemId, b: ItemId | undefined): boolean {
  return a === b || (b !== undefined && keyOf(a) === keyOf(b))
}
