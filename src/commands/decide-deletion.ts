import type { CollectionState } from '../collections/collection.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import type { DomainEvent, ItemId, Position } from '../events/event.ts'
import { parseText } from '../json/parse.ts'
import { formatPath } from '../json/paths.ts'
import { type JsonObject, own } from '../json/value.ts'
import { ChunkedList, IndexedList } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import { idBytes, type Memory } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import type { BulkCommand } from './command.ts'
import { type BulkDecision, decideCreateItems, type NotCreatedItems } from './create-items.ts'
import { checkName, decide, isEvents, singleObject } from './decide.ts'
import { deletionOf } from './item-rules.ts'
import type { Rules } from './rules.ts'

/** The ids of the items that match filters at one position. */
export interface SelectedItems {
  readonly position: Position
  readonly ids: Iterable<ItemId | undefined>
  /** Whether an item that was written since matches. */
  readonly matches: (item: JsonObject) => boolean
}

/** Finds the items of a collection that match filters, and holds memory for their ids; undefined if there is no collection. */
export type SelectItems = (command: DeleteItems, memory: Memory) => Promise<SelectedItems | undefined>

export type DeleteItems = Extract<BulkCommand, { type: 'DeleteItems' }>
type DeleteItemWithDependents = Extract<BulkCommand, { type: 'DeleteItemWithDependents' }>

const NONE: NotCreatedItems = new Map()

/** The deletions by filters of which a command consists. */
export function deletionsIn(command: BulkCommand): readonly DeleteItems[] {
  if (command.type === 'DeleteItems') return [command]
  if (command.type !== 'DeleteItemWithDependents') return []
  const { dependents, key, seconds } = command
  return dependents.map(({ collection, field }) => ({
    type: 'DeleteItems',
    collection,
    filters: `${encodeURIComponent(formatPath([field]))}_eq=${encodeURIComponent(key)}`,
    ...(seconds !== undefined && { seconds }),
  }))
}

/** Whether the decision lists items: then the handler waits for pending flushes first. */
export function listsItems({ type }: BulkCommand): boolean {
  return type !== 'CreateItems' && type !== 'CreateCollection'
}

/** `selected` are the items that match each of the `deletionsIn`. */
export async function decideBulk(
  command: BulkCommand,
  accepted: AcceptedState,
  rules: Rules,
  selected: readonly (SelectedItems | undefined)[],
  turn: Turn,
): Promise<BulkDecision> {
  switch (command.type) {
    case 'CreateItems':
      return decideCreateItems(command, accepted, rules, turn)
    case 'DeleteItems':
      if (!selected[0]) throw noCollection(command.collection)
      return { events: await decideDeleteItems(command, accepted, selected[0], turn), notCreated: NONE }
    case 'DeleteItemWithDependents':
      return { events: await decideDeleteWithDependents(command, accepted, rules, selected, turn), notCreated: NONE }
    case 'CreateCollection':
      return { events: decideCreateCollection(command.collection, accepted), notCreated: NONE }
    case 'RemoveCollection':
      return { events: await decideRemoveCollection(command.collection, accepted, turn), notCreated: NONE }
    default:
      return command satisfies never
  }
}

/** Deletes an item that was written since the selection only if it still matches. */
async function decideDeleteItems(
  { collection: name }: DeleteItems,
  accepted: AcceptedState,
  { position, ids, matches }: SelectedItems,
  turn: Turn,
): Promise<Deletions> {
  const collection = existingList(name, accepted)
  const deletions = new Deletions(turn)
  for (const id of ids) {
    if (turn.isOver) await turn.next()
    const item = id === undefined ? undefined : collection.get(keyOf(id))
    if (!isItem(item)) continue
    if (item.position <= position || matches(parseText(item.text) as JsonObject)) deletions.add(name, item)
  }
  return deletions
}

/** Deletes the items that refer to an item, then the item itself. */
async function decideDeleteWithDependents(
  { dependents, seconds: _, ...item }: DeleteItemWithDependents,
  accepted: AcceptedState,
  rules: Rules,
  selected: readonly (SelectedItems | undefined)[],
  turn: Turn,
): Promise<Deletions> {
  const decision = decide({ ...item, type: 'DeleteItem' }, accepted, rules)
  const deletions = new Deletions(turn)
  for (const [index, { collection: name, field }] of dependents.entries()) {
    const collection = accepted.collection(name)
    for (const id of (collection.exists && selected[index]?.ids) || []) {
      if (turn.isOver) await turn.next()
      const found = id === undefined ? undefined : collection.get(keyOf(id))
      if (!isItem(found) || (name === item.collection && found.key === item.key)) continue
      const reference = own(parseText(found.text) as JsonObject, field)
      // The filter also selects other spellings of an instant, and arrays that hold the id.
      const isReference = reference !== null && typeof reference !== 'object' && String(reference) === item.key
      if (isReference) deletions.add(name, found)
    }
  }
  if (isEvents(decision)) for (const event of decision) deletions.push(event)
  return deletions
}

function decideCreateCollection(name: string, accepted: AcceptedState): readonly DomainEvent[] {
  checkName(name)
  const collection = accepted.collection(name)
  if (collection.isObject) throw singleObject(name)
  return collection.exists ? [] : [{ type: 'CollectionCreated', collection: name }]
}

async function decideRemoveCollection(name: string, accepted: AcceptedState, turn: Turn): Promise<Deletions> {
  const collection = existingList(name, accepted)
  const deletions = new Deletions(turn)
  for (const item of collection.items()) {
    deletions.add(name, item)
    if (turn.isOver) await turn.next()
  }
  deletions.push({ type: 'CollectionRemoved', collection: name })
  return deletions
}

function existingList(name: string, accepted: AcceptedState): CollectionState {
  const collection = accepted.collection(name)
  if (!collection.exists) throw noCollection(name)
  if (collection.isObject) throw singleObject(name)
  return collection
}

function noCollection(collection: string): Refusal {
  return new Refusal('NotFound', `There is no collection ${JSON.stringify(collection)}.`)
}

/** The memory of a deletion in `Deletions`, besides the text of its id. */
const LISTED_BYTES = 60

/** The deletions of many items, and the events after them. Deletions are created on access, as events take twice as much. */
class Deletions extends IndexedList<DomainEvent> {
  readonly #turn: Turn
  /** The collections, each with the index of its first deletion. */
  readonly #collections: { readonly name: string; readonly first: number }[] = []
  readonly #ids = new ChunkedList<ItemId>()
  readonly #revisions = new ChunkedList<number>()
  readonly #positions = new ChunkedList<number>()
  readonly #last: DomainEvent[] = []

  constructor(turn: Turn) {
    super()
    this.#turn = turn
  }

  get length(): number {
    return this.#ids.length + this.#last.length
  }

  add(collection: string, { id, revision, position }: Item): void {
    this.#turn.hold(LISTED_BYTES + idBytes(id))
    if (this.#collections.at(-1)?.name !== collection) this.#collections.push({ name: collection, first: this.length })
    this.#ids.push(id)
    this.#revisions.push(revision)
    this.#positions.push(position)
  }

  /** Adds an event after all deletions. */
  push(event: DomainEvent): void {
    this.#last.push(event)
  }

  at(index: number): DomainEvent | undefined {
    const at = index < 0 ? this.length + index : index
    const id = this.#ids.at(at)
    if (id === undefined) return this.#last[at - this.#ids.length]
    const before = { revision: this.#revisions.at(at) as number, position: this.#positions.at(at) as number }
    const collection = this.#collections.findLast(({ first }) => first <= at)
    return deletionOf(collection?.name as string, { id, ...before })
  }
}
