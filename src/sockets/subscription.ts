import type { ItemId, Position } from '../events/event.ts'
import type { JsonObject } from '../json/value.ts'
import type { Pace } from '../projections/pace.ts'
import type { Watch } from '../projections/query/watch.ts'
import type { Change } from './protocol.ts'
import type { SubscriptionIndex } from './subscription-index.ts'

/** The client at the other end, as far as subscriptions are concerned. */
export interface Subscriber {
  change(change: Change): void
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
  readonly item: JsonObject | undefined
  readonly position: Position
}

export interface Matching {
  readonly id: ItemId
  readonly key: string
  readonly value: JsonObject
}

/** The client has these from now on. */
export function give({ has }: Subscription, items: Iterable<Pick<Matching, 'id' | 'key'>>): void {
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
