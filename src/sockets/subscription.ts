import type { ItemEvent, ItemId, Position } from '../events/event.ts'
import { parseSteps } from '../json/parse-steps.ts'
import type { JsonObject } from '../json/value.ts'
import type { Pace } from '../projections/pace.ts'
import type { Found } from '../projections/query/index/finding.ts'
import type { Watch } from '../projections/query/watch.ts'
import type { Steps } from '../slices.ts'
import type { Change, Subscribed } from './protocol.ts'
import type { SubscriptionIndex } from './subscription-index.ts'

/** The client at the other end, as far as subscriptions are concerned. */
export interface Subscriber {
  change(change: TextChange): void
  lagging(subscription: string, position: Position): void
  current(subscription: string, position: Position): void
  /** Whether what it was sent waits already, so that it is not to be sent more for now. */
  isSlow(): boolean
  /** Calls once when it can be sent more, or is gone. */
  whenDrained(work: () => void): void
}

export interface Subscription {
  readonly id: string
  readonly client: Subscriber
  readonly collection: string
  readonly watch: Watch
  /** The items that the client has, by what it was last sent: their ids by their keys. */
  readonly has: Map<string, ItemId>
  /** Until it is live: all events up to here were looked at. */
  position: Position
  /** Of a replay: what followed comes when it is due. */
  pace: Pace | undefined
  /** It has caught up, and hears of events from the bus. */
  isLive: boolean
  /** Of a client that is behind: the keys of the items that changed since, those of the oldest changes first. */
  behind: Set<string> | undefined
  isEnded: boolean
}

export interface Watched {
  readonly index: SubscriptionIndex<Subscription>
  /** Who has an item, by its key. */
  readonly holders: Map<string, Set<Subscription>>
}

/** An item as an event left it; no item after a deletion. */
export interface Latest {
  readonly id: ItemId
  readonly item: { readonly text: string; readonly value: JsonObject } | undefined
  readonly position: Position
}

/** The item after an event, parsed in steps. */
export function* latestOf(id: ItemId, text: string | undefined, position: Position): Steps<Latest> {
  const item = text === undefined ? undefined : { text, value: (yield* parseSteps(text)) as JsonObject }
  return { id, item, position }
}

/** A change of which the item is not parsed. */
export interface TextChange extends Omit<Change, 'item'> {
  /** The item as JSON. */
  readonly text: string | undefined
}

/** The client has these from now on. */
export function give({ has }: Subscription, items: Found['items']): void {
  for (const { id, key } of items) has.set(key, id)
}

export function hold({ holders }: Watched, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  if (those) those.add(subscription)
  else holders.set(key, new Set([subscription]))
}

export function letGo({ holders }: Watched, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  those?.delete(subscription)
  if (those?.size === 0) holders.delete(key)
}

/** The same of an item that is not parsed. */
export function* sendingText(
  subscription: Subscription,
  latest: Parameters<typeof latestOf>,
  live: ReadonlyMap<string, Watched>,
): Steps<void> {
  yield* sending(subscription, yield* latestOf(...latest), live)
}

/** Sends what an item's change means for a subscription, if it means anything. */
export function* sending(
  subscription: Subscription,
  { id, item, position }: Latest,
  live: ReadonlyMap<string, Watched>,
): Steps<void> {
  const { has, watch, client, isLive } = subscription
  const isConcerned = item !== undefined && (yield* watch.concerns(item.value))
  if (subscription.isEnded) return
  const key = String(id)
  const had = has.has(key)
  const watched = isLive ? live.get(subscription.collection) : undefined
  if (item && isConcerned) {
    has.set(key, id)
    if (watched) hold(watched, key, subscription)
    const kind = had ? 'update' : 'enter'
    client.change({ subscription: subscription.id, position, kind, id, text: item.text })
  } else if (had) {
    has.delete(key)
    if (watched) letGo(watched, key, subscription)
    client.change({ subscription: subscription.id, position, kind: 'leave', id, text: undefined })
  }
}

/** Characters of all items that a subscription begins with, because one message is encoded at once. */
const MOST_CHARACTERS = 2 ** 24
/** The answer to `subscribe`, its items not parsed yet. */
export type Answered =
  | Exclude<Subscribed, { readonly subscription: string }>
  | (Omit<Extract<Subscribed, { readonly subscription: string }>, 'items'> & { readonly items?: Found['items'] })

/** Undefined after a deletion. */
export function textOf(event: ItemEvent): string | undefined {
  return 'item' in event ? event.item.text : undefined
}

export type Answer = (answered: Answered) => void

/** Why a subscription cannot begin with so many items; undefined when it can. */
export function tooMany(total: number, most: number, advice: string) {
  if (total <= most) return undefined
  return { error: 'TooLarge', message: `${total} items match, ${most} is the limit; ${advice}.` } as const
}

/** Why a subscription cannot begin with these items; undefined when it can. */
export function tooLong(items: Found['items'], advice: string) {
  let characters = 0
  for (const { text } of items) characters += text.length
  if (characters <= MOST_CHARACTERS) return undefined
  const message = `The items that match are longer than ${MOST_CHARACTERS} characters; ${advice}.`
  return { error: 'TooLarge', message } as const
}
