import type { CollectionState } from '../collections/collection.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import { type DomainEvent, type ItemId, isItemEvent, type Position } from '../events/event.ts'
import { bytesOfEvent } from '../events/journal.ts'
import { parseText } from '../json/parse.ts'
import { formatPath } from '../json/paths.ts'
import { type JsonObject, own } from '../json/value.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Memory } from '../runtime/memory.ts'
import { type Turn, visitEach } from '../runtime/turns.ts'
import type { Deletion } from './command.ts'
import { decide, isEvents, singleObject } from './decide.ts'
import { deletionOf } from './item-rules.ts'
import type { Rules } from './rules.ts'

/** The ids of the items that match filters at one position. */
export interface SelectedItems {
  readonly position: Position
  readonly ids: List<ItemId>
  /** Whether an item that was written since matches. */
  readonly matches: (item: JsonObject) => boolean
}

/** Finds the items of a collection that match filters, and holds memory for their ids; undefined if there is no collection. */
export type SelectItems = (command: DeleteItems, memory: Memory) => Promise<SelectedItems | undefined>

export type DeleteItems = Extract<Deletion, { type: 'DeleteItems' }>
type DeleteItemWithDependents = Extract<Deletion, { type: 'DeleteItemWithDependents' }>

/** The ids that one write of a deletion is to delete: some of the selected ones, or all. */
export interface DeletionPart {
  /** For each of the `selectionsOf` the deletion. */
  readonly ids: readonly Iterable<ItemId>[]
  readonly isFirst: boolean
  readonly isLast: boolean
}

/** Whether it is the only write of a deletion. */
export function isWhole({ isFirst, isLast }: DeletionPart): boolean {
  return isFirst && isLast
}

/** The selections of which a deletion consists. */
export function selectionsOf(deletion: Deletion): readonly DeleteItems[] {
  if (deletion.type === 'DeleteItems') return [deletion]
  if (deletion.type === 'RemoveCollection')
    return [{ type: 'DeleteItems', collection: deletion.collection, filters: '' }]
  const { dependents, key, seconds } = deletion
  return dependents.map(({ collection, field }) => ({
    type: 'DeleteItems',
    collection,
    filters: `${encodeURIComponent(formatPath([field]))}_eq=${encodeURIComponent(key)}`,
    ...(seconds !== undefined && { seconds }),
  }))
}

/** Whether the decision lists items of the accepted state, which is possible only while no write is in flight. */
export function listsItems(deletion: Deletion, { isLast }: DeletionPart): boolean {
  return deletion.type === 'RemoveCollection' && isLast
}

/** Decides one write. `selected` has the items of each of the `selectionsOf` the deletion. */
export async function decideDeletion(
  deletion: Deletion,
  accepted: AcceptedState,
  rules: Rules,
  selected: readonly (SelectedItems | undefined)[],
  part: DeletionPart,
  turn: Turn,
): Promise<List<DomainEvent>> {
  const events = new DeletionEvents(turn)
  if (deletion.type === 'DeleteItemWithDependents') {
    await decideDependents(deletion, accepted, rules, part, events)
    return events
  }
  const collection = accepted.collection(deletion.collection)
  if (part.isFirst) checkList(collection)
  if (deletion.type === 'RemoveCollection') {
    await decideRemoval(collection, part, events)
    return events
  }
  const { position = 0, matches = () => false } = selected[0] ?? {}
  const isSelected = (item: Item): boolean => item.position <= position || matches(parseText(item.text) as JsonObject)
  await events.addEach(collection, part.ids[0] ?? [], isSelected)
  return events
}

/** Deletes the items that refer to an item, and in the last write the item itself. Each write needs its conditions. */
async function decideDependents(
  { dependents, seconds: _, ...item }: DeleteItemWithDependents,
  accepted: AcceptedState,
  rules: Rules,
  { ids, isLast }: DeletionPart,
  events: DeletionEvents,
): Promise<void> {
  const decision = decide({ ...item, type: 'DeleteItem' }, accepted, rules)
  for (const [index, { collection, field }] of dependents.entries()) {
    await events.addEach(accepted.collection(collection), ids[index] ?? [], (found) => {
      if (collection === item.collection && found.key === item.key) return false
      const reference = own(parseText(found.text) as JsonObject, field)
      // The filter also selects other spellings of an instant, and arrays that hold the id.
      return reference !== null && typeof reference !== 'object' && String(reference) === item.key
    })
  }
  if (isLast && isEvents(decision)) for (const event of decision) events.push(event)
}

/** A removal in one write deletes all items. After several writes a collection to which others added items stays. */
async function decideRemoval(collection: CollectionState, part: DeletionPart, events: DeletionEvents): Promise<void> {
  if (isWhole(part)) await events.addAll(collection)
  else await events.addEach(collection, part.ids[0] ?? [], () => true)
  if (!part.isLast || !collection.exists) return
  if (isWhole(part) || events.areAllOf(collection))
    events.push({ type: 'CollectionRemoved', collection: collection.name })
}

function checkList(collection: CollectionState): void {
  if (!collection.exists) throw new Refusal('NotFound', `There is no collection ${JSON.stringify(collection.name)}.`)
  if (collection.isObject) throw singleObject(collection.name)
}

/** The events of a write that deletes items, with the memory that they hold. */
class DeletionEvents extends ChunkedList<DomainEvent> {
  readonly #turn: Turn

  constructor(turn: Turn) {
    super()
    this.#turn = turn
  }

  /** Adds the deletions of those items that are still there and satisfy a condition. */
  addEach(collection: CollectionState, ids: Iterable<ItemId>, isDeleted: (item: Item) => boolean): Promise<void> {
    return visitEach(ids, this.#turn, (id) => {
      const found = collection.get(keyOf(id))
      if (isItem(found) && isDeleted(found)) this.#add(collection.name, found)
    })
  }

  /** Adds the deletions of all items. */
  addAll(collection: CollectionState): Promise<void> {
    return visitEach(collection.items(), this.#turn, (item) => this.#add(collection.name, item))
  }

  /** Whether the collection has no items but the deleted ones. */
  areAllOf(collection: CollectionState): boolean {
    const deleted = new Set<string>()
    for (const event of this) if (isItemEvent(event)) deleted.add(keyOf(event.id))
    for (const { key } of collection.items()) if (!deleted.has(key)) return false
    return true
  }

  #add(collection: string, item: Item): void {
    const event = deletionOf(collection, item)
    this.#turn.hold(bytesOfEvent(event))
    this.push(event)
  }
}
