import { type DomainEvent, type ItemId, itemChanges, type Position } from '../events/event.ts'
import { positioned, type Recorded } from '../events/journal.ts'
import type { Views } from '../projections/views.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { OutOfMemory } from '../runtime/memory.ts'
import type { Turn, Turns } from '../runtime/turns.ts'
import {
  type ItemState,
  inExpiry,
  isEnded,
  itemState,
  keyBytes,
  type Subscription,
  stateAfter,
} from './subscription.ts'
import { SetsByKey, SubscriptionIndex } from './subscription-index.ts'

interface LiveOptions {
  readonly views: Pick<Views, 'position' | 'any'>
  readonly turns: Turns
  readonly log: LimitedLog
}

/** The live subscriptions of a collection. */
interface Watchers {
  readonly index: SubscriptionIndex<Subscription>
  /** The subscriptions whose client has an item, by the item's key. Some that have ended are still among them. */
  readonly holders: SetsByKey<Subscription>
}

/**
 * Sends the events of the bus to the subscriptions that they concern. A slow client gets the latest state of the items
 * that changed meanwhile, not every change.
 */
export class LiveSubscriptions {
  /** How often a client became slow. */
  laggedEver = 0
  readonly #options: LiveOptions
  readonly #byCollection = new Map<string, Watchers>()
  /** The views are ahead of what subscriptions were told: parts of a write are still to come. */
  #isMidway = false
  #postponed: Subscription[] = []

  constructor(options: LiveOptions) {
    this.#options = options
  }

  /** The client has everything up to the position of the views. */
  add(subscription: Subscription): void {
    const { collection, filter, held } = subscription
    subscription.state = 'live'
    const watchers = this.#byCollection.get(collection) ?? { index: new SubscriptionIndex(), holders: new SetsByKey() }
    this.#byCollection.set(collection, watchers)
    watchers.index.add(subscription, filter)
    for (const key of held.keys()) watchers.holders.add(key, subscription)
  }

  /** Removes a subscription that has ended. */
  remove(subscription: Subscription): void {
    const { collection, filter } = subscription
    const watchers = this.#byCollection.get(collection)
    if (!watchers) return
    watchers.index.remove(subscription, filter)
    if (watchers.index.isEmpty) this.#byCollection.delete(collection)
    else void this.#options.turns.run((turn) => removeHolder(watchers, subscription, turn))
  }

  /** `Subscriptions.apply`. */
  apply(recorded: Recorded, hasMore: () => boolean): void | Promise<void> {
    this.#isMidway = true
    if (this.#byCollection.size === 0) this.#applied(hasMore)
    else return this.#options.turns.run((turn) => this.#sendAll(recorded, turn)).then(() => this.#applied(hasMore))
  }

  #applied(hasMore: () => boolean): void {
    this.#isMidway = hasMore()
    if (this.#isMidway) return
    const postponed = this.#postponed
    this.#postponed = []
    for (const subscription of postponed) this.#sendLatest(subscription)
  }

  async #sendAll(recorded: Recorded, turn: Turn): Promise<void> {
    for (const [position, event] of positioned(recorded)) {
      const watchers = this.#byCollection.get(event.collection)
      if (!watchers) continue
      for (const [subscription, states] of await statesFor(watchers, event, position, turn)) {
        for (const state of inExpiry(states)) {
          if (turn.isOver) await turn.next()
          // A subscription that began meanwhile already has this event.
          if (isEnded(subscription) || position <= subscription.position) break
          if (!this.#postponeIfSlow(subscription, state)) this.send(subscription, state)
        }
      }
    }
  }

  /** Sends the change of an item if it concerns the subscription, which need not be live yet. */
  send(subscription: Subscription, { id, item, position }: ItemState): void {
    if (isEnded(subscription)) return
    const { held, filter, client, state, collection, memory } = subscription
    const key = String(id)
    const had = held.has(key)
    const isHeld = item !== undefined && filter.concerns(item.value)
    if (isHeld && !had && !hasRoom(subscription, id)) return
    if (had && !isHeld) memory.count(-keyBytes(id))
    const holders = state === 'catchingUp' ? undefined : this.#byCollection.get(collection)?.holders
    if (isHeld) {
      held.set(key, id)
      holders?.add(key, subscription)
      const kind = had ? 'update' : 'enter'
      client.change({ subscription: subscription.id, position, kind, id, text: item.text })
    } else if (had) {
      held.delete(key)
      holders?.remove(key, subscription)
      client.change({ subscription: subscription.id, position, kind: 'leave', id, text: undefined })
    }
  }

  /** Returns whether the change will be sent later, as the client is slow. */
  #postponeIfSlow(subscription: Subscription, { id, position }: ItemState): boolean {
    const { client, changed } = subscription
    const key = String(id)
    if (subscription.state !== 'lagging') {
      if (!client.isSlow()) return false
      this.laggedEver++
      subscription.state = 'lagging'
      client.lagging(subscription.id, position)
      client.whenDrained(() => this.#sendLatest(subscription))
    }
    // Deleting first moves the key to the end: keys are ordered by their latest change.
    if (changed.delete(key) || hasRoom(subscription, key)) changed.add(key)
    return true
  }

  #sendLatest(subscription: Subscription): void {
    if (isEnded(subscription)) return
    // Other subscriptions were not told yet what the views have.
    if (this.#isMidway) {
      this.#postponed.push(subscription)
      return
    }
    const { turns, log } = this.#options
    turns
      .run((turn) => this.#sendChanged(subscription, turn))
      .catch((error: unknown) => log.error({ err: error }, 'a subscription could not catch up'))
  }

  /** Sends the latest state of each item that changed while the client was slow, as fast as the client reads. */
  async #sendChanged(subscription: Subscription, turn: Turn): Promise<void> {
    const { views } = this.#options
    const { client, held, changed, memory } = subscription
    const collection = views.any(subscription.collection)
    // There is at least one key, and nothing is awaited after the last one, for which these conditions hold.
    for (const key of changed) {
      if (turn.isOver) await turn.next()
      if (isEnded(subscription)) return
      if (client.isSlow()) return client.whenDrained(() => this.#sendLatest(subscription))
      if (this.#isMidway) return this.#sendLatest(subscription)
      changed.delete(key)
      memory.count(-keyBytes(key))
      const position = collection?.get(key)?.position
      const item = collection?.item(key)
      if (position !== undefined)
        this.send(subscription, itemState(item?.id ?? held.get(key) ?? key, item?.text, position))
    }
    subscription.state = 'live'
    client.current(subscription.id, views.position)
  }
}

/** The items of an event, by the subscriptions that they concern. */
async function statesFor(
  { index, holders }: Watchers,
  event: DomainEvent,
  position: Position,
  turn: Turn,
): Promise<ReadonlyMap<Subscription, readonly ItemState[]>> {
  const found = new Map<Subscription, ItemState[]>()
  for (const change of itemChanges(event)) {
    if (turn.isOver) await turn.next()
    const state = stateAfter(change, position)
    const concerned = state.item ? await index.concernedBy(state.item.value, turn) : new Set<Subscription>()
    for (const holder of holders.get(String(change.id))) concerned.add(holder)
    for (const subscription of concerned) {
      const states = found.get(subscription)
      if (states) states.push(state)
      else found.set(subscription, [state])
    }
  }
  return found
}

/** Whether there is memory for a further item of a subscription. Without, its client is disconnected, and may resume. */
function hasRoom({ client, memory }: Subscription, id: ItemId): boolean {
  try {
    memory.grow(keyBytes(id))
    return true
  } catch (error) {
    if (!(error instanceof OutOfMemory)) throw error
    client.drop()
    return false
  }
}

/** A client may have a hundred subscriptions of ten thousand items, which end together. */
async function removeHolder({ holders }: Watchers, subscription: Subscription, turn: Turn): Promise<void> {
  for (const key of subscription.held.keys()) {
    if (turn.isOver) await turn.next()
    holders.remove(key, subscription)
  }
}
