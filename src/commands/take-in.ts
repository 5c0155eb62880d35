import { type CollectionState, isItem } from '../collections/collection.ts'
import { integerOf, keyOf } from '../collections/item.ts'
import type { Snapshot } from '../collections/snapshot.ts'
import { Refusal } from '../errors.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { pointer } from '../json/pointer.ts'
import { equal, type JsonObject, own } from '../json/value.ts'
import { type Accepted, assignedId, stamp, withId } from './decide.ts'
import type { Rules } from './rules.ts'

/** A data file as somebody left it, and the state that it was edited from; items of both may lack their id. */
export interface Edit {
  readonly file: Snapshot
  readonly base: Snapshot
}

/** An item that the editor changed and that was written since, too. The edit won; the journal holds both. */
export interface MergeConflict {
  readonly collection: string
  readonly id: ItemId
}

export interface TakenIn {
  readonly events: readonly DomainEvent[]
  readonly conflicts: readonly MergeConflict[]
  /** The file with an id in every item. */
  readonly file: Snapshot
}

/** Whether an item is as it was; to an editor the order of its members says nothing. */
export type Sameness = (a: JsonObject | undefined, b: JsonObject | undefined) => boolean

/** A three-way merge: only what the editor changed becomes events. */
export function takeIn(edit: Edit, accepted: Accepted, rules: Rules, isSame: Sameness = equal): TakenIn {
  const events: DomainEvent[] = []
  const conflicts: MergeConflict[] = []
  const whole = new Map<string, readonly JsonObject[]>()
  for (const name of new Set([...edit.base.keys(), ...edit.file.keys()])) {
    const base = edit.base.get(name)
    const file = edit.file.get(name)
    const merge = new CollectionMerge(accepted.collection(name), byKey(base ?? []), base !== undefined, rules, isSame)
    if (file) whole.set(name, merge.edited(file))
    else merge.removed()
    for (const event of merge.events) events.push(event)
    for (const conflict of merge.conflicts) conflicts.push(conflict)
  }
  return { events, conflicts, file: whole }
}

class CollectionMerge {
  readonly events: DomainEvent[] = []
  readonly conflicts: MergeConflict[] = []
  readonly #ours: CollectionState
  readonly #base: ReadonlyMap<string, JsonObject>
  readonly #wasThere: boolean
  readonly #rules: Rules
  readonly #isSame: Sameness

  constructor(
    ours: CollectionState,
    base: ReadonlyMap<string, JsonObject>,
    wasThere: boolean,
    rules: Rules,
    isSame: Sameness,
  ) {
    this.#ours = ours
    this.#base = base
    this.#wasThere = wasThere
    this.#rules = rules
    this.#isSame = isSame
  }

  /** The editor took the collection out, with all that is in it now. */
  removed(): void {
    if (!this.#ours.exists) return
    for (const item of this.#ours.items()) this.#delete(item.key)
    this.events.push({ type: 'CollectionRemoved', collection: this.#ours.name })
  }

  /** Returns the items with their ids. */
  edited(file: readonly JsonObject[]): readonly JsonObject[] {
    const items = this.#withIds(file)
    const keys = items.map((item) => keyOf(item.id as ItemId))
    const kept = new Set(keys)
    for (const key of this.#base.keys()) if (!kept.has(key)) this.#delete(key)
    for (const [index, item] of items.entries()) this.#item(item, index)
    if (this.#isReordered(keys)) this.#order(keys)
    if (!this.#ours.exists && (this.events.length > 0 || !this.#wasThere)) {
      this.events.unshift({ type: 'CollectionCreated', collection: this.#ours.name })
    }
    return items
  }

  /**
   * An item without an id that equals one which the file no longer names is that one: its id was left out, or the
   * file is still as it was when the id was given. The others get the integers after the highest, the file's own
   * counted in; never one that text names already.
   */
  #withIds(file: readonly JsonObject[]): readonly JsonObject[] {
    const named = new Set<string>()
    let next = this.#ours.nextId
    for (const item of file) {
      const id = own(item, 'id') as ItemId | undefined
      if (id === undefined) continue
      named.add(keyOf(id))
      next = Math.max(next, (integerOf(id) ?? -1) + 1)
    }
    if (file.every((item) => Object.hasOwn(item, 'id'))) return file
    const unnamed = new Map<string, ItemId[]>()
    for (const [key, { id, ...rest }] of this.#base) {
      if (named.has(key)) continue
      const text = JSON.stringify(rest)
      const ids = unnamed.get(text)
      if (ids) ids.push(id as ItemId)
      else unnamed.set(text, [id as ItemId])
    }
    const assigned = (): ItemId => {
      while (named.has(keyOf(next)) || this.#ours.get(keyOf(next))) next++
      return assignedId(next++)
    }
    return file.map((item) => {
      if (Object.hasOwn(item, 'id')) return item
      return withId(item, unnamed.get(JSON.stringify(item))?.shift() ?? assigned())
    })
  }

  #delete(key: string): void {
    const ours = this.#ours.get(key)
    if (!isItem(ours)) return
    if (!this.#isSame(ours.value, this.#base.get(key))) this.#conflict(ours.id)
    this.events.push({ type: 'ItemDeleted', ...stamp(this.#ours.name, ours.id, ours) })
  }

  #item(item: JsonObject, index: number): void {
    const id = item.id as ItemId
    const base = this.#base.get(keyOf(id))
    if (base && this.#isSame(base, item)) return
    const ours = this.#ours.get(keyOf(id))
    const now = isItem(ours) ? ours.value : undefined
    if (this.#isSame(now, item)) return
    this.#checkSchema(item, index)
    if (!this.#isSame(now, base)) this.#conflict(id)
    const type = isItem(ours) ? 'ItemReplaced' : 'ItemCreated'
    this.events.push({ type, ...stamp(this.#ours.name, id, ours), item: Document.of(item) })
  }

  #checkSchema(item: JsonObject, index: number): void {
    const [fault] = this.#rules.faultsOf(this.#ours.name, item)
    if (!fault) return
    const place = pointer(this.#ours.name, index) + fault.pointer
    const message = `does not satisfy the collection's schema: ${fault.message}`
    throw new Refusal('Invalid', `At ${place}: ${message}.`, [{ pointer: place, message }])
  }

  #conflict(id: ItemId): void {
    this.conflicts.push({ collection: this.#ours.name, id })
  }

  /** Whether the editor moved items, or put new ones elsewhere than at the end. */
  #isReordered(keys: readonly string[]): boolean {
    const kept = new Set(keys)
    const before = [...this.#base.keys()].filter((key) => kept.has(key))
    return before.some((key, index) => key !== keys[index])
  }

  #order(keys: readonly string[]): void {
    const ids = new Map<string, ItemId>()
    for (const item of this.#ours.items()) ids.set(item.key, item.id)
    for (const event of this.events) {
      if (event.type === 'ItemDeleted') ids.delete(keyOf(event.id))
      else if ('item' in event) ids.set(keyOf(event.id), event.id)
    }
    const ordered = [...new Set([...keys.filter((key) => ids.has(key)), ...ids.keys()])]
    if ([...ids.keys()].every((key, index) => key === ordered[index])) return
    const inOrder = ordered.map((key) => ids.get(key) as ItemId)
    this.events.push({ type: 'CollectionOrdered', collection: this.#ours.name, ids: inOrder })
  }
}

function byKey(items: readonly JsonObject[]): ReadonlyMap<string, JsonObject> {
  return new Map(items.flatMap((item) => (Object.hasOwn(item, 'id') ? [[keyOf(item.id as ItemId), item]] : [])))
}
