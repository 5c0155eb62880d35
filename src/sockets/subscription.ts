import type { ItemEvent, ItemId, Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { parseText } from '../json/parse-text.ts'
import { formatPath } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import type { Pace } from '../projections/pace.ts'
import type { PageItems } from '../query/index/finder.ts'
import type { Queries } from '../query/queries.ts'
import type { Change, Subscribed } from './protocol.ts'
import type { SubscriptionFilter } from './subscription-filter.ts'

/** The client of a subscription. */
export interface Subscriber {
  change(change: TextChange): void
  lagging(subscription: string, position: Position): void
  current(subscription: string, position: Position): void
  /** Whether its queue is so long that sending should pause. */
  isSlow(): boolean
  /** Calls once when the client is no longer slow, or has disconnected. */
  whenDrained(work: () => void): void
}

export interface Subscription {
  readonly id: string
  readonly client: Subscriber
  readonly collection: string
  readonly watch: SubscriptionFilter
  /** Ids of the items that the client has, by key. */
  readonly has: Map<string, ItemId>
  /** Until the subscription is live: all events up to this position were processed. */
  position: Position
  /** Only for replays: delays changes until they are due. */
  pace: Pace | undefined
  /** The subscription has caught up and receives events from the bus. */
  isLive: boolean
  /** Only while the client is slow: keys of the changed items, ordered by their latest change. */
  behind: Set<string> | undefined
  isEnded: boolean
}

/** An item after an event; undefined after a deletion. */
export interface ItemState {
  readonly id: ItemId
  readonly item: { readonly text: string; readonly value: JsonObject } | undefined
  readonly position: Position
}

export function latestOf(id: ItemId, text: string | undefined, position: Position): ItemState {
  const item = text === undefined ? undefined : { text, value: parseText(text) as JsonObject }
  return { id, item, position }
}

/** A change whose item is JSON text. */
export interface TextChange extends Omit<Change, 'item'> {
  /** The item as JSON. */
  readonly text: string | undefined
}

/** Records that the client has these items. */
export function give({ has }: Subscription, items: PageItems['items']): void {
  for (const { id, key } of items) has.set(key, id)
}

/** Highest total length of the items with which a subscription begins, because one message is encoded at once. */
const MOST_CHARACTERS = 2 ** 24

/** The response to `subscribe`, with items as text. */
export type SubscribeResponse =
  | Exclude<Subscribed, { readonly subscription: string }>
  | (Omit<Extract<Subscribed, { readonly subscription: string }>, 'items'> & { readonly items?: PageItems['items'] })

export function accepted(
  subscription: Subscription,
  position: Position,
  { journal, queries }: { readonly journal: Pick<Journal, 'id'>; readonly queries: Pick<Queries, 'timeOf'> },
) {
  return { subscription: subscription.id, journal: journal.id, position, ...eventTimeOf(queries, subscription) }
}

/** The field of the event time of a subscription's collection. */
export function eventTimeOf(
  queries: Pick<Queries, 'timeOf'>,
  { collection }: Pick<Subscription, 'collection'>,
): { readonly eventTime?: string } {
  const time = queries.timeOf(collection)
  return time ? { eventTime: formatPath(time) } : {}
}

/** Undefined after a deletion. */
export function textOf(event: ItemEvent): string | undefined {
  return 'item' in event ? event.item.text : undefined
}

export type Respond = (answered: SubscribeResponse) => void

/** An error if the subscription would begin with too many items. */
export function tooMany(total: number, most: number, advice: string) {
  if (total <= most) return undefined
  return { error: 'TooLarge', message: `${total} items match, ${most} is the limit; ${advice}.` } as const
}

/** An error if the items are too long together. */
export function tooLong(items: PageItems['items'], advice: string) {
  let characters = 0
  for (const { text } of items) characters += text.length
  if (characters <= MOST_CHARACTERS) return undefined
  const message = `The items that match are longer than ${MOST_CHARACTERS} characters; ${advice}.`
  return { error: 'TooLarge', message } as const
}
