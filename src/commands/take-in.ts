import { type CollectionState, isItem } from '../collections/collection.ts'
import { integerOf, keyOf } from '../collections/item.ts'
import { Keys } from '../collections/keys.ts'
import type { FileContents, FileItem, FileItems } from '../collections/snapshot.ts'
import { Refusal } from '../errors.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { pointer } from '../json/pointer.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import { equalSteps, stringifySteps } from '../json/value-steps.ts'
import { type List, LongList } from '../long-list.ts'
import type { Steps } from '../slices.ts'
import { type Accepted, assignedId, stamp, withId } from './decide.ts'
import type { Rules } from './rules.ts'

/** A collection before it was edited. */
export type Before = Pick<CollectionState, 'get' | 'items'>

/** A data file as somebody left it, and the state that it was edited from. What was not edited has the same text in both. */
export interface Edit {
  readonly file: FileContents
  readonly base: ReadonlyMap<string, Before>
}

/** An item that the editor changed and that was written since, too. The edit won; the journal holds both. */
export interface MergeConflict {
  readonly collection: string
  readonly id: ItemId
}

export interface TakenIn {
  readonly events: List<DomainEvent>
  readonly conflicts: readonly MergeConflict[]
  /** The file with an id in every item. */
  readonly file: FileContents
}

/** Whether an item is as it was. */
export interface Sameness {
  /** An item of the file, and that of the base. */
  readonly isUnedited: (item: FileItem, base: FileItem) => boolean
  readonly isSame: (a: FileItem, b: FileItem) => Steps<boolean>
}

/** To an editor the order of an item's members says nothing. */
const AS_EDITED: Sameness = {
  isUnedited: (item, base) => item.text === base.text,
  *isSame(a, b) {
    return a.text === b.text || (yield* equalSteps(yield* parseSteps(a.text), yield* parseSteps(b.text)))
  },
}

/** A three-way merge, in steps: only what the editor changed becomes events. */
export function* takingIn(edit: Edit, accepted: Accepted, rules: Rules, sameness = AS_EDITED): Steps<TakenIn> {
  const events = new LongList<DomainEvent>()
  const conflicts: MergeConflict[] = []
  const whole = new Map<string, FileItems>()
  for (const name of new Set([...edit.base.keys(), ...edit.file.keys()])) {
    const file = edit.file.get(name)
    const merge = new CollectionMerge(
      accepted.collection(name),
      edit.base.get(name),
      rules,
      sameness,
      events,
      conflicts,
    )
    if (file) whole.set(name, yield* merge.edited(file))
    else yield* merge.removed()
  }
  return { events, conflicts, file: whole }
}

const NOTHING: Before = { get: () => undefined, items: () => [] }

class CollectionMerge {
  readonly #events: LongList<DomainEvent>
  readonly #conflicts: MergeConflict[]
  readonly #ours: CollectionState
  readonly #base: Before
  readonly #wasThere: boolean
  readonly #rules: Rules
  readonly #sameness: Sameness
  /** Whether it is there before the next event. */
  #isThere: boolean

  constructor(
    ours: CollectionState,
    base: Before | undefined,
    rules: Rules,
    sameness: Sameness,
    events: LongList<DomainEvent>,
    conflicts: MergeConflict[],
  ) {
    this.#ours = ours
    this.#isThere = ours.exists
    this.#base = base ?? NOTHING
    this.#wasThere = base !== undefined
    this.#rules = rules
    this.#sameness = sameness
    this.#events = events
    this.#conflicts = conflicts
  }

  /** The editor took the collection out, with all that is in it now. */
  *removed(): Steps<void> {
    if (!this.#isThere) return
    for (const item of this.#ours.items()) {
      yield* this.#delete(item.key)
      yield
    }
    this.#add({ type: 'CollectionRemoved', collection: this.#ours.name })
  }

  /** Returns the items with their ids. */
  *edited(unnamed: FileItems): Steps<FileItems> {
    const first = this.#events.length
    const file = yield* this.#withIds(unnamed)
    for (const { id, key } of this.#base.items()) {
      if (file.indexes.of(id) === undefined) yield* this.#delete(key)
      yield
    }
    for (let index = 0; index < file.items.length; index++) {
      yield* this.#item(file.items.at(index) as FileItem, index)
      yield
    }
    if (yield* this.#isReordered(file)) yield* this.#order(file, first)
    if (!this.#wasThere) this.#create()
    return file
  }

  #add(event: DomainEvent): void {
    this.#create()
    this.#events.push(event)
  }

  #create(): void {
    if (this.#isThere) return
    this.#isThere = true
    this.#events.push({ type: 'CollectionCreated', collection: this.#ours.name })
  }

  /**
   * An item without an id that equals one which the file no longer names is that one: its id was left out, or the
   * file is still as it was when the id was given. The others get the integers after the highest, the file's own
   * counted in; never one that text names already.
   */
  *#withIds(file: FileItems): Steps<FileItems> {
    let next = this.#ours.nextId
    let isWhole = true
    for (const { id } of file.items) {
      if (id === undefined) isWhole = false
      else next = Math.max(next, (integerOf(id) ?? -1) + 1)
      yield
    }
    if (isWhole) return file
    const unnamed = new Map<string, ItemId[]>()
    for (const item of this.#base.items()) {
      yield
      if (file.indexes.of(item.id) !== undefined) continue
      const text = yield* textWithoutId(item)
      const ids = unnamed.get(text)
      if (ids) ids.push(item.id)
      else unnamed.set(text, [item.id])
    }
    const items = new LongList<FileItem>()
    const indexes = new Keys()
    for (const item of file.items) {
      yield
      const index = items.length
      if (item.id !== undefined) {
        indexes.set(item.id, index)
        items.push(item)
        continue
      }
      let id = unnamed.get(item.text)?.shift()
      if (id === undefined) {
        while (file.indexes.of(next) !== undefined || indexes.of(next) !== undefined || this.#ours.get(keyOf(next)))
          next++
        id = assignedId(next++)
      }
      indexes.set(id, index)
      const named = { id, text: yield* stringifySteps(yield* withId(yield* parsedItem(item), id)) }
      const base = this.#base.get(keyOf(id))
      items.push(isItem(base) && (yield* this.#isSame(base, named)) ? base : named)
    }
    return { items, indexes }
  }

  *#isSame(a: FileItem | undefined, b: FileItem | undefined): Steps<boolean> {
    return a === b || (a !== undefined && b !== undefined && (yield* this.#sameness.isSame(a, b)))
  }

  *#delete(key: string): Steps<void> {
    const ours = this.#ours.get(key)
    if (!isItem(ours)) return
    if (!(yield* this.#isSame(ours, this.#baseItem(key)))) this.#conflict(ours.id)
    this.#add({ type: 'ItemDeleted', ...stamp(this.#ours.name, ours.id, ours) })
  }

  *#item(item: FileItem, index: number): Steps<void> {
    const id = item.id as ItemId
    const base = this.#baseItem(keyOf(id))
    if (base && this.#sameness.isUnedited(item, base)) return
    const ours = this.#ours.get(keyOf(id))
    const now = isItem(ours) ? ours : undefined
    // An edited item is no longer the base's, so that it need not be compared with that again.
    if (now?.text !== base?.text && (yield* this.#isSame(now, item))) return
    yield* this.#checkSchema(item, index)
    if (!(yield* this.#isSame(now, base))) this.#conflict(id)
    const type = now ? 'ItemReplaced' : 'ItemCreated'
    this.#add({ type, ...stamp(this.#ours.name, id, ours), item: new Document(item.text) })
  }

  #baseItem(key: string): FileItem | undefined {
    const base = this.#base.get(key)
    return isItem(base) ? base : undefined
  }

  *#checkSchema(item: FileItem, index: number): Steps<void> {
    const [fault] = this.#rules.faultsOf(this.#ours.name, yield* parsedItem(item))
    if (!fault) return
    const place = pointer([this.#ours.name, index]) + fault.pointer
    const message = `does not satisfy the collection's schema: ${fault.message}`
    throw new Refusal('Invalid', `At ${place}: ${message}.`, [{ pointer: place, message }])
  }

  #conflict(id: ItemId): void {
    this.#conflicts.push({ collection: this.#ours.name, id })
  }

  /** Whether the editor moved items, or put new ones elsewhere than at the end. */
  *#isReordered({ items, indexes }: FileItems): Steps<boolean> {
    let at = 0
    for (const { id } of this.#base.items()) {
      yield
      if (indexes.of(id) !== undefined && !isSameId(id, items.at(at++)?.id)) return true
    }
    return false
  }

  /** `first` is the collection's first event. */
  *#order({ items, indexes }: FileItems, first: number): Steps<void> {
    const deleted = new Keys()
    const created = new LongList<ItemId>()
    for (let at = first; at < this.#events.length; at++) {
      const event = this.#events.at(at) as DomainEvent
      if (event.type === 'ItemDeleted') deleted.set(event.id, 0)
      else if (event.type === 'ItemCreated') created.push(event.id)
      yield
    }
    // Those that are there, in their order: those of the file with the ids that it gives them.
    const ids = new LongList<ItemId>()
    const present = new Keys()
    const add = (id: ItemId): void => {
      const inFile = indexes.of(id)
      present.set(id, ids.length)
      ids.push((inFile === undefined ? undefined : items.at(inFile)?.id) ?? id)
    }
    for (const { id } of this.#ours.items()) {
      if (deleted.of(id) === undefined) add(id)
      yield
    }
    for (const id of created) {
      add(id)
      yield
    }
    const ordered = new LongList<ItemId>()
    for (const { id } of items) {
      if (id !== undefined && present.of(id) !== undefined) ordered.push(id)
      yield
    }
    for (const id of ids) {
      if (indexes.of(id) === undefined) ordered.push(id)
      yield
    }
    for (let at = 0; at < ids.length; at++, yield) {
      if (isSameId(ids.at(at) as ItemId, ordered.at(at))) continue
      this.#add({ type: 'CollectionOrdered', collection: this.#ours.name, ids: ordered.slice(0) })
      return
    }
  }
}

function* parsedItem({ text }: FileItem): Steps<JsonObject> {
  return (yield* parseSteps(text)) as JsonObject
}

function* textWithoutId(item: FileItem): Steps<string> {
  const value: Record<string, JsonValue> = yield* parsedItem(item)
  delete value.id
  return yield* stringifySteps(value)
}

/** Whether two ids have the same key. */
function isSameId(a: ItemId, b: ItemId | undefined): boolean {
  return a === b || (b !== undefined && keyOf(a) === keyOf(b))
}
