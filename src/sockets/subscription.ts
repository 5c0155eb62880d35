import type { ItemChange, ItemId, Position } from '../events/event.ts'
import { parseText } from '../json/parse.ts'
import type { JsonObject } from '../json/value.ts'
import type { Pace } from '../projections/pace.ts'
import type { PageItems } from '../query/queries.ts'
import { idBytes, type Memory } from '../runtime/memory.ts'
import type { Change, Subscribed } from './protocol.ts'
import type { SubscriptionFilter } from './subscribe-request.ts'

/**
 * | State | Changes come from | Next state |
 * |---|---|---|
 * | `starting` | nowhere: its items, or those at the client's last position, are searched | `catchingUp`; `live` if nothing happened meanwhile; `ended` if it is rejected |
 * | `catchingUp` | the journal (catch-up.ts), in a replay at the recorded pace | `live` at the position of the views, after `current` |
 * | `live` | the bus (live-subscriptions.ts) | `lagging` with a change for a slow client, after `lagging` |
 * | `lagging` | the views: the latest state of each changed item, once the client has read its queue | `live` when these are sent, before `current` |
 * | `ended` | nowhere | |
 *
 * Each state may become `ended`, by `unsubscribe` or when the client disconnects.
 */
type SubscriptionState = 'starting' | 'catchingUp' | 'live' | 'lagging' | 'ended'

export interface Subscription {
  readonly id: string
  readonly client: Subscriber
  readonly collection: string
  readonly filter: SubscriptionFilter
  /** Ids of the items that the client has, by key. */
  readonly held: Map<string, ItemId>
  state: SubscriptionState
  /** Until the subscription is live: all events up to this position were processed. */
  position: Position
  /** Only for replays: delays changes until they are due. */
  pace: Pace | undefined
  /** While it lags: keys of the changed items, ordered by their latest change. */
  readonly changed: Set<string>
  /** The memory of `held` and `changed`. */
  readonly memory: Memory
}

/** The client of a subscription. */
export interface Subscriber {
  change(change: TextChange): void
  lagging(subscription: string, position: Position): void
  current(subscription: string, position: Position): void
  /** Whether its queue is so long that sending should pause. */
  isSlow(): boolean
  /** Calls once when the client is no longer slow, or has disconnected. */
  whenDrained(work: () => void): void
  /** Calls once when the kernel has the message that is sent next, or the client has disconnected. */
  whenSent(work: () => void): void
  /** Disconnects the client. */
  drop(): void
}

/** A change whose item is JSON text. */
export interface TextChange extends Omit<Change, 'item'> {
  /** The item as JSON. */
  readonly text: string | undefined
}

/** The response to `subscribe`, with items as text. */
export type SubscribeResponse =
  | Extract<Subscribed, { readonly error: string }>
  | (Omit<Extract<Subscribed, { readonly subscription: string }>, 'items'> & { readonly items?: PageItems['items'] })

/** The memory of an item of `held` or `changed`, besides the text of its id. */
const KEY_BYTES = 200

export function keyBytes(id: ItemId): number {
  return KEY_BYTES + idBytes(id)
}

/** Compares the state in a function, as it may change while the caller awaits something. */
export function isEnded({ state }: Subscription): boolean {
  return state === 'ended'
}

/** An item after an event; undefined after a deletion. */
export interface ItemState {
  readonly id: ItemId
  readonly item: { readonly text: string; readonly value: JsonObject } | undefined
  readonly position: Position
}

export function itemState(id: ItemId, text: string | undefined, position: Position): ItemState {
  const item = text === undefined ? undefined : { text, value: parseText(text) as JsonObject }
  return { id, item, position }
}

export function stateAfter(event: ItemChange, position: Position): ItemState {
  return itemState(event.id, 'item' in event ? event.item.text : undefined, position)
}

/**
 * The items that one event changes, for a client: all but the last have the position before it. A client that resumes in
 * between, after the last position that it has seen, gets all of them again.
 */
export function inExpiry(states: readonly ItemState[]): readonly ItemState[] {
  return states.map((state, index) => (index < states.length - 1 ? { ...state, position: state.position - 1 } : state))
}
