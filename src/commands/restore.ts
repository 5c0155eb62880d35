import type { CollectionState } from '../collections/collection.ts'
import type { FileItem } from '../collections/file-items.ts'
import { type Item, isItem, keyOf } from '../collections/item.ts'
import { type AcceptedState, Overlay } from '../collections/overlay.ts'
import { type DomainEvent, OBJECT_ID, type Position } from '../events/event.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import { checkKnown } from './decide.ts'
import { decideEdit } from './decide-edit.ts'
import { type BaseItems, Difference } from './difference.ts'
import { BYTES, type CollectionEdit, type Edit, type EditKind, NO_ITEMS_OF_FILE } from './edit.ts'
import { latestItems } from './latest-items.ts'
import type { Rules } from './rules.ts'

/** The items that a collection is to have. They do not change. Items without an id get one. */
export interface RestoredCollection {
  items(): Iterable<FileItem>
  /** The memory that is held for them. */
  readonly memoryBytes?: number
}

export type RestoredCollections = ReadonlyMap<string, RestoredCollection | undefined>

/** The state to restore: whole collections, or one item. Undefined: it did not exist. */
export type Restoration = RestoreCondition & PastState

/** The condition of the request. It is sent to the leader of a cluster as it is. */
export interface RestoreCondition {
  /** Nothing is written if something that would change has an event after this position. */
  readonly ifUnchangedSince?: Position | undefined
}

type PastState =
  | {
      /**
       * After a `reset`, the next id of each list is one above the highest integer id of its items. An `import` is a reset
       * to the state after the first import of a data file with these items.
       */
      readonly type: 'collections' | 'reset' | 'import'
      readonly collections: RestoredCollections
    }
  | {
      readonly type: 'item'
      readonly collection: string
      readonly key: string
      readonly item: Item | undefined
    }

/** The memory that is held for the state to restore. */
export function bytesOfRestoration(restoration: Restoration): number {
  let bytes = 0
  if (restoration.type !== 'item') for (const past of restoration.collections.values()) bytes += past?.memoryBytes ?? 0
  return bytes
}

/** A restore is an edit of the accepted state: only differences become events. Restored items are equal byte for byte. */
export async function decideRestore(
  restoration: Restoration,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<List<DomainEvent>> {
  const { ifUnchangedSince } = restoration
  checkKnown(ifUnchangedSince, accepted.head)
  const events = await decideUnconditionally(restoration, accepted, rules, turn)
  if (ifUnchangedSince !== undefined) await checkUnchanged(events, ifUnchangedSince, accepted, turn)
  return events
}

/** An event of a collection, such as that of its order, is refused if anything in the collection has changed. */
async function checkUnchanged(
  events: Iterable<DomainEvent>,
  since: Position,
  accepted: AcceptedState,
  turn: Turn,
): Promise<void> {
  for (const event of events) {
    if (turn.isOver) await turn.next()
    const collection = accepted.collection(event.collection)
    const changed = 'id' in event ? collection.get(keyOf(event.id)) : collection
    if (changed === undefined || changed.position <= since) continue
    const place = JSON.stringify('id' in event ? [event.collection, event.id] : event.collection)
    const why = `${place} was changed at position ${changed.position}`
    throw new Refusal('PreconditionFailed', `If-Unchanged-Since ${since} does not hold: ${why}. Nothing was restored.`)
  }
}

async function decideUnconditionally(
  restoration: Restoration,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<List<DomainEvent>> {
  if (restoration.type === 'item') {
    const edit = editOfItem(restoration, accepted.collection(restoration.collection))
    return (await decideEdit(edit, accepted, rules, turn)).events
  }
  const { type, collections } = restoration
  checkCollections(collections.size)
  const wanted = type === 'import' ? await imported(collections, rules, turn) : collections
  const edit = await editOf(wanted, accepted, 'restore', rules, turn)
  const { events } = await decideEdit(edit, accepted, rules, turn)
  if (type === 'collections') return events
  const all = await idResets(wanted.keys(), edit, accepted, turn)
  for (const event of events) {
    if (turn.isOver) await turn.next()
    all.push(event)
  }
  return all
}

/** Collections that a restore compares: each takes 10 µs, partly without a pause, and all are saved in one transaction. */
export const MOST_COLLECTIONS = 1000

/** Refuses a restore of too many collections. */
export function checkCollections(count: number): void {
  if (count <= MOST_COLLECTIONS) return
  const why = `There are ${count} collections, and one write compares ${MOST_COLLECTIONS} at most`
  throw new Refusal('Unprocessable', `${why}. Restore one collection after the other.`)
}

/** The items of a data file as its first import would store them: all have ids, and the latest items are among them. */
async function imported(collections: RestoredCollections, rules: Rules, turn: Turn): Promise<RestoredCollections> {
  const nothing = new Overlay(() => undefined, 0)
  const edit = await editOf(collections, nothing, 'first items', rules, turn)
  const { events } = await decideEdit(edit, nothing, rules, turn)
  for (const event of await latestItems(events, nothing, rules, turn)) events.push(event)
  const stored = new Map<string, FileItem[]>()
  for (const event of events) {
    if (turn.isOver) await turn.next()
    turn.hold(BYTES.edited)
    const items = stored.get(event.collection) ?? []
    stored.set(event.collection, items)
    if ('item' in event) items.push({ id: event.id, text: event.item.text })
  }
  const names = new Set([...collections.keys(), ...stored.keys()])
  return new Map(
    Array.from(names, (name) => {
      const items = stored.get(name)
      return [name, items && { items: () => items }]
    }),
  )
}

/** The ids of a removed collection begin anew, too. */
async function idResets(
  names: Iterable<string>,
  { collections }: Edit,
  accepted: AcceptedState,
  turn: Turn,
): Promise<ChunkedList<DomainEvent>> {
  const nextIds = new Map(collections.map(({ name, nextId }) => [name, nextId]))
  const resets = new ChunkedList<DomainEvent>()
  for (const collection of names) {
    if (turn.isOver) await turn.next()
    const nextId = nextIds.get(collection) ?? 0
    if (accepted.collection(collection).nextId > nextId) resets.push({ type: 'IdsReset', collection, nextId })
  }
  return resets
}

/** Concerns a single item only, whatever else exists; a restored item becomes the last. */
function editOfItem(
  { collection: name, key, item }: Extract<PastState, { readonly type: 'item' }>,
  collection: CollectionState,
): Edit {
  if (collection.exists && collection.isObject !== (key === OBJECT_ID)) throw otherKind(collection)
  const found = collection.get(key)
  const now = isItem(found) ? found : undefined
  if (now?.text === item?.text) return { collections: [], kind: 'restore' }
  const change: CollectionEdit = {
    ...NO_ITEMS_OF_FILE,
    name,
    isRemoved: !item && key === OBJECT_ID,
    isObject: key === OBJECT_ID,
    wasThere: collection.exists,
    edited: item ? [{ index: 0, id: item.id, text: item.text }] : [],
    removed: now && !item ? [now.id] : [],
    before: () => now,
  }
  return { collections: [change], kind: 'restore' }
}

async function editOf(
  collections: RestoredCollections,
  accepted: AcceptedState,
  kind: EditKind,
  { idField }: Rules,
  turn: Turn,
): Promise<Edit> {
  const base = new Map<string, BaseItems>()
  for (const name of collections.keys()) {
    const { exists, stored } = accepted.collection(name)
    if (exists) base.set(name, stored)
  }
  const hold = (bytes: number): void => turn.hold(bytes)
  const difference = new Difference({ base, idField, hold, kind, keeps: 'ids' })
  for (const [name, past] of collections) {
    if (!past) continue
    const compared = difference.collection(name, isObjectIn(past))
    for (const { id, text } of past.items()) {
      if (turn.isOver) await turn.next()
      compared.add(id, text)
    }
  }
  return difference.end(turn)
}

function isObjectIn(past: RestoredCollection): boolean {
  for (const { id } of past.items()) return id === OBJECT_ID
  return false
}

function otherKind({ name, isObject }: CollectionState): Refusal {
  const kind = isObject ? 'a single object, which has no items' : 'a list of items'
  return new Refusal('Conflict', `${JSON.stringify(name)} is ${kind}: restore all of it, without an id.`)
}
