import type { Document } from '../json/document.ts'

/** The place of an event in the journal: 1, 2, 3… without gaps; 0 is before the first. */
export type Position = number

/** An item's identifier as stored; `String(id)` is its key, by which it is found. */
export type ItemId = string | number

interface OfItem {
  readonly collection: string
  readonly id: ItemId
  /** How many events the item has had, this one included; it goes on after a deletion. */
  readonly revision: number
  /** The position of the item's previous event, 0 for none. */
  readonly prior: Position
}

/**
 * What happened to an item. A fact, in the past tense, holding the outcome of the
 * decision: replay applies it and never decides again.
 */
export type ItemEvent =
  | (OfItem & {
      readonly type: 'ItemCreated' | 'ItemReplaced' | 'ItemPatched' | 'ObjectCreated'
      readonly item: Document
    })
  | (OfItem & { readonly type: 'ItemDeleted' | 'ObjectDeleted' })

/**
 * The id of a single object. An object is a collection of this one item, whose JSON has no id; it exists from `ObjectCreated`
 * to `ObjectDeleted`. The items of any other collection have an id that is not empty.
 */
export const OBJECT_ID = ''

/** What happened to a collection as a whole. Its items' deletions come before its removal. */
export type CollectionEvent =
  | { readonly type: 'CollectionCreated' | 'CollectionRemoved'; readonly collection: string }
  | { readonly type: 'CollectionOrdered'; readonly collection: string; readonly ids: readonly ItemId[] }

export type DomainEvent = ItemEvent | CollectionEvent

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

/** Whether there is such a collection after an event; undefined of one that does not change that. */
export function existsAfter({ type }: DomainEvent): boolean | undefined {
  if (type === 'CollectionCreated' || type === 'ObjectCreated') return true
  return type === 'CollectionRemoved' || type === 'ObjectDeleted' ? false : undefined
}
