import { keyOf } from '../collections/item.ts'
import { type AcceptedState, Overlay } from '../collections/overlay.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { bytesOfEvent } from '../events/journal.ts'
import type { Document } from '../json/document.ts'
import { firstAt } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import { idBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import type { BatchItem, BulkCommand, Rejection } from './command.ts'
import { checkName, decideItem, isEvents, singleObject, wantedId } from './decide.ts'
import { BYTES } from './edit.ts'
import { checkedKeyOf, itemWithKey, withDefault, withId } from './item-rules.ts'
import { latestItems } from './latest-items.ts'
import type { Rules } from './rules.ts'

export type CreateItems = Extract<BulkCommand, { type: 'CreateItems' }>

type Created = Extract<DomainEvent, { readonly item: Document }>

/** Why an item of a batch made no event: it was rejected, or is there already. */
export type NotCreated = { readonly rejection: Rejection } | { readonly duplicateOf: ItemId }

/** The items of a batch that made no event, by their index. */
export type NotCreatedItems = ReadonlyMap<number, NotCreated>

export interface BulkDecision {
  readonly events: List<DomainEvent>
  /** Empty for commands other than batches. */
  readonly notCreated: NotCreatedItems
}

export async function decideBulk(
  command: BulkCommand,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<BulkDecision> {
  if (command.type === 'CreateItems') return decideCreateItems(command, accepted, rules, turn)
  return { events: decideCreateCollection(command.collection, accepted), notCreated: new Map() }
}

function decideCreateCollection(name: string, accepted: AcceptedState): readonly DomainEvent[] {
  checkName(name)
  const collection = accepted.collection(name)
  if (collection.isObject) throw singleObject(name)
  return collection.exists ? [] : [{ type: 'CollectionCreated', collection: name }]
}

/** Decides a batch like many CreateItem commands, each on top of the previous ones. */
async function decideCreateItems(
  command: CreateItems,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<BulkDecision> {
  const { collection, items, isLenient } = command
  const batch = new Overlay((name) => accepted.collection(name), accepted.head, rules.keyFields)
  const events = new ChunkedList<DomainEvent>()
  const notCreated = new Map<number, NotCreated>()
  for (const [index, one] of items.entries()) {
    if (turn.isOver) await turn.next()
    const made = decideOne(one, collection, batch, rules, (refusal) => {
      if (!isLenient) throw refusalAt(index, one, refusal)
    })
    turn.hold(bytesOf(made))
    if (!('events' in made)) {
      notCreated.set(index, made)
      continue
    }
    batch.accept(made.events)
    for (const event of made.events) events.push(event)
  }
  for (const event of await latestItems(events, accepted, rules, turn)) events.push(event)
  return { events, notCreated }
}

function decideOne(
  one: BatchItem,
  collection: string,
  accepted: AcceptedState,
  rules: Rules,
  refused = (_: Refusal): void => {},
): NotCreated | { readonly events: readonly DomainEvent[] } {
  try {
    const made = decideItem({ type: 'CreateItem', collection, item: acceptedItem(one) }, accepted, rules)
    return isEvents(made) ? { events: made } : { duplicateOf: made.id }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refused(error)
    return { rejection: rejectionOf(error) }
  }
}

/** The memory of a member of the item to which the id is added. */
const MEMBER_BYTES = 40
/** The memory of a rejection, and of each of its faults. */
const REJECTION_BYTES = 500

export function bytesOfRejection({ faults }: Rejection): number {
  return REJECTION_BYTES * (1 + faults.length)
}

function bytesOfReason(reason: NotCreated): number {
  return 'rejection' in reason ? bytesOfRejection(reason.rejection) : BYTES.indexed + idBytes(reason.duplicateOf)
}

/** The memory of a decision. */
export function bytesOfDecision({ events, notCreated }: BulkDecision): number {
  let bytes = 0
  for (const event of events) bytes += bytesOfEvent(event)
  for (const reason of notCreated.values()) bytes += bytesOfReason(reason)
  return bytes
}

function bytesOf(made: ReturnType<typeof decideOne>): number {
  if (!('events' in made)) return bytesOfReason(made)
  const event = made.events.at(-1)
  if (!event || !('item' in event)) return 0
  const members = Object.keys(event.item.value).length
  return bytesOfEvent(event) + BYTES.accepted + MEMBER_BYTES * members
}

/**
 * Which items of a batch made no event when it was decided, from the events that it made then: they have the order of the
 * batch, so each item is either that of the next event or made none.
 */
export async function notCreatedBefore(
  { collection, items, isLenient }: CreateItems,
  events: Iterable<DomainEvent>,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<NotCreatedItems> {
  const created = new ChunkedList<Created>()
  for (const event of events) if (event.collection === collection && 'item' in event) created.push(event)
  const notCreated = new Map<number, NotCreated>()
  let next = 0
  // Invariant: the items before `index` made the events before `next`, or none.
  for (const [index, one] of items.entries()) {
    if (turn.isOver) await turn.next()
    const event = created.at(next)
    if ('item' in one) {
      const wanted = event?.type === 'ItemCreated' ? wantedId(one.item, rules) : undefined
      const isId = event && (wanted === undefined || keyOf(wanted as string) === keyOf(event.id))
      if (isId && isResult(one.item, event, rules)) {
        next++
        continue
      }
      // A batch with a rejected item was rejected as a whole, so this one was a duplicate, whatever was changed since.
      const naturalKey = isLenient ? undefined : checkedKeyOf(one.item, collection, rules)
      const holder = itemWithKey(naturalKey, accepted.collection(collection), rules)
      if (holder) {
        notCreated.set(index, { duplicateOf: holder.id })
        continue
      }
    }
    const made = decideOne(one, collection, accepted, rules)
    turn.hold(bytesOf(made))
    notCreated.set(index, 'events' in made ? REJECTED_BEFORE : made)
  }
  return notCreated
}

const REJECTED_BEFORE: NotCreated = {
  rejection: { code: 'Conflict', message: 'It was rejected by the first request.', faults: [] },
}

/** Whether a body made an event, which may have added the id and the time of receipt. */
function isResult(body: JsonObject, { collection, id, item }: Created, rules: Rules): boolean {
  const rule = rules.times.get(collection)
  const received = rule?.defaultsToReceipt ? firstAt(item.value, rule.path) : undefined
  const timed = rule && received !== undefined ? withDefault(body, rule.path, () => received) : body
  return JSON.stringify(withId(timed, id, rules)) === item.text
}

/** @throws {Refusal} if the item was rejected when the batch was parsed. */
function acceptedItem(one: BatchItem): JsonObject {
  if ('item' in one) return one.item
  const { code, message, faults } = one.rejection
  throw new Refusal(code, message, faults)
}

/** Highest number of reported faults for one item: a batch has many items, and each may have a hundred. */
const FAULTS = 10

export function rejectionOf({ code, message, faults }: Refusal): Rejection {
  return { code, message, faults: faults.slice(0, FAULTS) }
}

/** The refusal of a whole batch because of one item. */
export function refusalAt(index: number, { line }: BatchItem, { code, message, faults }: Rejection): Refusal {
  const where = line === undefined ? `The item ${index} of the list` : `Line ${line}`
  return new Refusal(
    code,
    `${where}: ${message}`,
    faults.map(({ pointer, message }) => ({ pointer: `/${index}${pointer}`, message })),
  )
}
