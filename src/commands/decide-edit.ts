import type { CollectionState } from '../collections/collection.ts'
import { checkItemValues, FileMistakes, invalid } from '../collections/file-items.ts'
import { isItem, keyOf, type Tombstone } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { type DomainEvent, type ItemId, OBJECT_ID } from '../events/event.ts'
import { Document } from '../json/document.ts'
import { parseText } from '../json/parse.ts'
import { pointer } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { ChunkedList } from '../runtime/chunked-list.ts'
import { textBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import { assignedId, isTaken } from './decide.ts'
import { BYTES, type CollectionEdit, type Edit, type EditedItem, type EditKind, isSame } from './edit.ts'
import { hasExpired } from './expiry.ts'
import { deletionOf, faultOfTime, nextEventFields, withId } from './item-rules.ts'
import { mergedOrder } from './merged-order.ts'
import type { Rules } from './rules.ts'

/** An item that both the editor and another write changed. The edit won; the journal holds both. */
export interface MergeConflict {
  readonly collection: string
  readonly id: ItemId
}

interface EditDecision {
  readonly events: ChunkedList<DomainEvent>
  readonly conflicts: readonly MergeConflict[]
}

/**
 * A three-way merge of the base, the edit and the present state: only what the edit changed becomes events, for which
 * `Difference` holds memory.
 * @throws {Refusal} `Invalid` with the places of the items that are not valid.
 */
export async function decideEdit(edit: Edit, accepted: AcceptedState, rules: Rules, turn: Turn): Promise<EditDecision> {
  const decider = new EditDecider(edit.kind, rules, turn)
  for (const collection of edit.collections) {
    if (turn.isOver) await turn.next()
    await decider.add(collection, accepted.collection(collection.name))
  }
  decider.mistakes.throwAny()
  return decider
}

class EditDecider implements EditDecision {
  readonly events = new ChunkedList<DomainEvent>()
  readonly conflicts: MergeConflict[] = []
  readonly mistakes = new FileMistakes()
  readonly #kind: EditKind
  readonly #rules: Rules
  readonly #turn: Turn
  /** Whether the collection of the current edit exists after the events so far. */
  #isThere = false

  constructor(kind: EditKind, rules: Rules, turn: Turn) {
    this.#kind = kind
    this.#rules = rules
    this.#turn = turn
  }

  /** Decides on one collection; `now` is its present state. */
  async add(edit: CollectionEdit, now: CollectionState): Promise<void> {
    this.#isThere = now.exists
    const first = this.events.length
    if (edit.isRemoved) {
      // Items that others added meanwhile are deleted with it.
      if (now.exists) await this.#removeCollection(edit, now)
      return
    }
    // If another write replaced a list by an object, or the reverse, and the edit did not change it, that one stays.
    const isTouched = !edit.wasThere || edit.edited.length > 0
    if (now.exists && now.isObject !== edit.isObject && isTouched) await this.#removeCollection(edit, now)
    for (const id of edit.removed) {
      if (this.#turn.isOver) await this.#turn.next()
      this.#deleteItem(edit, now, id)
    }
    const assigned = await this.#putItems(edit, now)
    const ids = edit.order && (await mergedOrder(withIds(edit.order, assigned), now, this.events, first, this.#turn))
    if (ids) this.#addEvent(edit, { type: 'CollectionOrdered', collection: edit.name, ids })
    if (!edit.wasThere) this.#createCollection(edit)
  }

  async #removeCollection(edit: CollectionEdit, now: CollectionState): Promise<void> {
    for (const { id } of now.items()) {
      if (this.#turn.isOver) await this.#turn.next()
      this.#deleteItem(edit, now, id)
    }
    if (!now.isObject) this.#addEvent(edit, { type: 'CollectionRemoved', collection: edit.name })
    this.#isThere = false
  }

  #deleteItem(edit: CollectionEdit, now: CollectionState, id: ItemId): void {
    const present = now.get(keyOf(id))
    if (!isItem(present)) return
    if (!this.#isSame(present.text, edit.before(id)?.text)) this.#addConflict(edit.name, present.id)
    this.#addEvent(edit, deletionOf(edit.name, present))
  }

  /**
   * Items without an id get the integers after the highest one, including those of the file, except integers that exist
   * as text. Returns the assigned ids.
   */
  async #putItems(edit: CollectionEdit, now: CollectionState): Promise<readonly ItemId[]> {
    const assigned: ItemId[] = []
    let next = Math.max(now.nextId, edit.nextId)
    for (const item of edit.edited) {
      if (this.#turn.isOver) await this.#turn.next()
      if (item.id !== undefined) {
        this.#putItem(edit, now, item, item.id)
        continue
      }
      while (isTaken(next, now) || edit.isAdded(next)) next++
      const id = assignedId(next++)
      assigned.push(id)
      const text = JSON.stringify(withId(parseText(item.text) as JsonObject, id, this.#rules))
      this.#turn.hold(BYTES.listed + textBytes(text))
      this.#putItem(edit, now, { ...item, text }, id)
    }
    return assigned
  }

  #putItem(edit: CollectionEdit, now: CollectionState, item: EditedItem, id: ItemId): void {
    const key = keyOf(id)
    const before = edit.before(id)?.text
    const found = now.get(key)
    const present = isItem(found) ? found.text : undefined
    // An edited item differs from the base, so it need not be compared with the base again.
    if (present !== before && this.#isSame(present, item.text)) return
    if (present === undefined && this.#isExpired(edit.name, item, found)) return
    this.mistakes.catching(() => checkItem(this.#rules, edit.name, item, this.#kind))
    if (!this.#isSame(present, before)) this.#addConflict(edit.name, id)
    const created = id === OBJECT_ID ? 'ObjectCreated' : 'ItemCreated'
    const type = present === undefined ? created : 'ItemReplaced'
    this.#addEvent(edit, { type, ...nextEventFields(edit.name, id, found), item: new Document(item.text) })
  }

  /** A restore, or an edit made from an older version of the file, brings back nothing that would expire at once. */
  #isExpired(collection: string, { text }: EditedItem, found: Tombstone | undefined): boolean {
    const mayReturn = this.#kind === 'restore' || (this.#kind === 'edit' && found !== undefined)
    return mayReturn && hasExpired(() => parseText(text) as JsonObject, collection, this.#rules)
  }

  #isSame(a: string | undefined, b: string | undefined): boolean {
    return isSame(a, b, this.#kind)
  }

  #addConflict(collection: string, id: ItemId): void {
    this.#turn.hold(BYTES.conflict)
    this.conflicts.push({ collection, id })
  }

  #addEvent(edit: CollectionEdit, event: DomainEvent): void {
    this.#createCollection(edit)
    this.events.push(event)
  }

  #createCollection({ name, isObject }: CollectionEdit): void {
    if (this.#isThere) return
    this.#isThere = true
    // A single object is created by the event of its item.
    if (!isObject) this.events.push({ type: 'CollectionCreated', collection: name })
  }
}

/** `assigned` are the ids of the items that had none, in order. */
function* withIds(order: Iterable<ItemId | undefined>, assigned: readonly ItemId[]): Generator<ItemId> {
  let next = 0
  for (const id of order) yield id ?? (assigned[next++] as ItemId)
}

/**
 * Validates an item of a data file: its size, its event time, and the schema of its collection.
 * @throws {Refusal} `Invalid` with the place.
 */
export function checkItem(rules: Rules, collection: string, { id, index, text }: EditedItem, kind: EditKind): void {
  const tokens = id === OBJECT_ID ? [collection] : [collection, index]
  if (kind === 'edit') checkItemValues(text, rules.itemValues, tokens)
  const time = rules.times.get(collection)
  if (!rules.hasSchema(collection) && !time?.isTimeRequired) return
  const value = parseText(text) as JsonObject
  const place = pointer(tokens)
  const untimed = time?.isTimeRequired ? faultOfTime(value, time, rules.nowMs()) : undefined
  if (untimed) throw invalid(place + untimed.pointer, `the event time ${untimed.message}`)
  // The id that it will get is an integer.
  const [fault] = rules.faultsOf(collection, id === undefined ? withId(value, 0, rules) : value)
  if (fault) throw invalid(place + fault.pointer, `does not satisfy the collection's schema: ${fault.message}`)
}
