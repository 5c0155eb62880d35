import type { ItemEvent, Position } from '../events/event.ts'
import type { JsonObject } from '../json/value.ts'
import type { Turn } from '../runtime/turns.ts'
import { type ItemState, latestOf, type Subscription, textOf } from './subscription.ts'
import { SubscriptionIndex } from './subscription-index.ts'

/** The live subscriptions of a collection. */
interface Watchers {
  readonly index: SubscriptionIndex<Subscription>
  /** The subscriptions whose client has an item, by the item's key. */
  readonly holders: Map<string, Set<Subscription>>
}

/** The subscriptions that receive events from the bus, by collection, and the items that their clients have. */
export class LiveSubscriptions {
  readonly #byCollection = new Map<string, Watchers>()

  get isEmpty(): boolean {
    return this.#byCollection.size === 0
  }

  has(collection: string): boolean {
    return this.#byCollection.has(collection)
  }

  add(subscription: Subscription): void {
    const { collection, watch, has } = subscription
    subscription.isLive = true
    const watchers = this.#byCollection.get(collection) ?? {
      index: new SubscriptionIndex<Subscription>(),
      holders: new Map<string, Set<Subscription>>(),
    }
    this.#byCollection.set(collection, watchers)
    watchers.index.add(subscription, watch)
    for (const key of has.keys()) hold(watchers, key, subscription)
  }

  remove(subscription: Subscription): void {
    const watchers = this.#byCollection.get(subscription.collection)
    if (!watchers) return
    watchers.index.remove(subscription, subscription.watch)
    for (const key of subscription.has.keys()) letGo(watchers, key, subscription)
    if (watchers.index.isEmpty) this.#byCollection.delete(subscription.collection)
  }

  /** The subscriptions whose filters may match the item, and those whose clients have it. */
  async concernedBy(
    collection: string,
    key: string,
    item: JsonObject | undefined,
    turn: Turn,
  ): Promise<Iterable<Subscription>> {
    const watchers = this.#byCollection.get(collection)
    if (!watchers) return []
    const concerned = item ? await watchers.index.concernedBy(item, turn) : new Set<Subscription>()
    for (const one of watchers.holders.get(key) ?? []) concerned.add(one)
    return concerned
  }

  /** Sends the change of an item if it concerns the subscription, which need not be live yet. */
  send(subscription: Subscription, { id, item, position }: ItemState): void {
    const { has, watch, client, isLive, collection } = subscription
    const isConcerned = item !== undefined && watch.concerns(item.value)
    if (subscription.isEnded) return
    const key = String(id)
    const had = has.has(key)
    const watchers = isLive ? this.#byCollection.get(collection) : undefined
    if (item && isConcerned) {
      has.set(key, id)
      if (watchers) hold(watchers, key, subscription)
      const kind = had ? 'update' : 'enter'
      client.change({ subscription: subscription.id, position, kind, id, text: item.text })
    } else if (had) {
      has.delete(key)
      if (watchers) letGo(watchers, key, subscription)
      client.change({ subscription: subscription.id, position, kind: 'leave', id, text: undefined })
    }
  }

  sendEvent(subscription: Subscription, event: ItemEvent, position: Position): void {
    this.send(subscription, latestOf(event.id, textOf(event), position))
  }
}

function hold({ holders }: Watchers, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  if (those) those.add(subscription)
  else holders.set(key, new Set([subscription]))
}

function letGo({ holders }: Watchers, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  those?.delete(subscription)
  if (those?.size === 0) holders.delete(key)
}
