import type { Document } from '../json/document.ts'

/** The number of an event in the journal: 1, 2, 3… without gaps; 0 is before the first. */
export type Position = number

/** An item's identifier as stored; `String(id)` is its key. */
export type ItemId = string | number

export type DomainEvent = ItemEvent | CollectionEvent

/** A change of an item, in the past tense. It holds the result, so that replay applies it without deciding again. */
export type ItemEvent =
  | (ItemEventFields & {
      readonly type: 'ItemCreated' | 'ItemReplaced' | 'ItemPatched' | 'ObjectCreated'
      readonly item: Document
    })
  | (ItemEventFields & { readonly type: 'ItemDeleted' | 'ObjectDeleted' })

export interface ItemEventFields {
  readonly collection: string
  readonly id: ItemId
  /** The number of the item's events including this one; continues after a deletion. */
  readonly revision: number
  /** The position of the item's previous event, 0 if there is none. */
  readonly prior: Position
}

/** One item of an `ItemsExpired` event. No event of the journal has this type. */
export type ItemExpiry = ItemEventFields & { readonly type: 'ItemExpired' }

/** The effect of an event on an item. */
export type ItemChange = ItemEvent | ItemExpiry

/**
 * The id of a single object: a collection of this one item, whose JSON has no id. It exists from `ObjectCreated` to
 * `ObjectDeleted`. Items of other collections never have an empty id.
 */
export const OBJECT_ID = ''

/** A change of a whole collection. The deletions of its items come before its removal. */
type CollectionEvent =
  | { readonly type: 'CollectionCreated' | 'CollectionRemoved'; readonly collection: string }
  | { readonly type: 'CollectionOrdered'; readonly collection: string; readonly ids: readonly ItemId[] }
  /** The next item without an id gets this integer again, also if deleted items had it. */
  | { readonly type: 'IdsReset'; readonly collection: string; readonly nextId: number }
  | ItemsExpired

/**
 * The items that the rule of a collection lets expire: at most 1,000, in the order of their places. None: the
 * rule was confirmed, and nothing had expired yet.
 */
export interface ItemsExpired {
  readonly type: 'ItemsExpired'
  readonly collection: string
  /** The rule, such as `90d`. */
  readonly rule: string
  readonly runs: readonly ExpiredRun[]
}

/** Items that follow each other: each has the next integer id, the next place, and the same revision. */
export interface ExpiredRun {
  readonly id: ItemId
  /** The number of items; 1 for an id that is text. */
  readonly count: number
  /** The place of the first item (docs/journal.md, J5). */
  readonly place: number
  /** That of the last event of each item. Its expiry is the next revision. */
  readonly revision: number
  /** The position of the last event of the first item. */
  readonly position: Position
  /** From one item to the next, the difference of these positions. */
  readonly step: number
}

/** The store has their numbers in this order, so new ones come last. */
const TYPES: Readonly<Record<DomainEvent['type'], true>> = {
  ItemCreated: true,
  ItemReplaced: true,
  ItemPatched: true,
  ItemDeleted: true,
  ObjectCreated: true,
  ObjectDeleted: true,
  CollectionCreated: true,
  CollectionRemoved: true,
  CollectionOrdered: true,
  IdsReset: true,
  ItemsExpired: true,
}

export const EVENT_TYPES = Object.keys(TYPES) as readonly DomainEvent['type'][]

export function isEventType(type: unknown): type is DomainEvent['type'] {
  return typeof type === 'string' && Object.hasOwn(TYPES, type)
}

export function isItemEvent(event: DomainEvent): event is ItemEvent {
  return 'revision' in event
}

/** One item of an `ItemsExpired` event: its place, and the revision and position of its last event. */
export interface ExpiredItem {
  readonly id: ItemId
  readonly place: number
  readonly revision: number
  readonly position: Position
}

/** The items of an `ItemsExpired` event; none of others. */
export function* expiredItems(event: DomainEvent): Generator<ExpiredItem> {
  if (event.type !== 'ItemsExpired') return
  for (const { id: first, count, place, revision, position, step } of event.runs) {
    for (let index = 0; index < count; index++) {
      const id = typeof first === 'number' ? first + index : first
      yield { id, place: place + index, revision, position: position + index * step }
    }
  }
}

export function countOfExpired({ runs }: ItemsExpired): number {
  return runs.reduce((sum, { count }) => sum + count, 0)
}

/** The items that an event changes; all of those that expire have the position of the event. */
export function itemChanges(event: DomainEvent): Iterable<ItemChange> {
  return isItemEvent(event) ? [event] : expiries(event)
}

function* expiries(event: DomainEvent): Generator<ItemExpiry> {
  for (const { id, revision, position } of expiredItems(event))
    yield { type: 'ItemExpired', collection: event.collection, id, revision: revision + 1, prior: position }
}

/** The effect of an event on an item; undefined if there is none. */
export function changeOfItem(event: DomainEvent, key: string): ItemChange | undefined {
  for (const change of itemChanges(event)) if (String(change.id) === key) return change
  return undefined
}

/** Whether an event creates an item or a single object. */
export function isCreation({ type }: { readonly type: string }): boolean {
  return type === 'ItemCreated' || type === 'ObjectCreated'
}

/** Whether the collection exists after an event; undefined if the event does not change that. */
export function existsAfter({ type }: DomainEvent): boolean | undefined {
  if (type === 'CollectionCreated' || type === 'ObjectCreated') return true
  return type === 'CollectionRemoved' || type === 'ObjectDeleted' ? false : undefined
}
