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
}

export const EVENT_TYPES = Object.keys(TYPES) as readonly DomainEvent['type'][]

export function isEventType(type: unknown): type is DomainEvent['type'] {
  return typeof type === 'string' && Object.hasOwn(TYPES, type)
}

export function isItemEvent(event: DomainEvent): event is ItemEvent {
  return 'revision' in event
}

/** Whether an event creates an item or a single object. */
export function isCreation({ type }: DomainEvent): boolean {
  return type === 'ItemCreated' || type === 'ObjectCreated'
}

/** Whether the collection exists after an event; undefined if the event does not change that. */
export function existsAfter({ type }: DomainEvent): boolean | undefined {
  if (type === 'CollectionCreated' || type === 'ObjectCreated') return true
  return type === 'CollectionRemoved' || type === 'ObjectDeleted' ? false : undefined
}
