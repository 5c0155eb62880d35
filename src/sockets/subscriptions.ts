import type { Logger } from 'pino'
import { Refusal } from '../errors.ts'
import { type ItemId, isItemEvent, type Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import type { JsonObject } from '../json/value.ts'
import type { Past } from '../projections/past.ts'
import { parseWatch, type Watch } from '../projections/query/watch.ts'
import type { Views } from '../projections/views.ts'
import type { Change, Subscribe, Subscribed } from './protocol.ts'
import { SubscriptionIndex } from './subscription-index.ts'

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

export interface SubscriptionsOptions {
  readonly views: Views
  readonly past: Past
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  readonly log: Logger
  /** Items that a subscription may begin with. */
  readonly items: number
  /** Subscriptions of one client. */
  readonly perClient: number
}

export interface SubscriptionFigures {
  readonly subscriptions: number
  /** Those that are behind. */
  readonly lagging: number
  /** How often one fell behind. */
  readonly laggedEver: number
}

interface Subscription {
  readonly id: string
  readonly client: Subscriber
  readonly collection: string
  readonly watch: Watch
  /** The items that the client has, by what it was last sent: their ids by their keys. */
  readonly has: Map<string, ItemId>
  /** While it catches up: all events up to here were looked at. */
  position: Position
  /** It has caught up, and hears of events from the bus. */
  isLive: boolean
  /** Of a client that is behind: the keys of the items that changed since. */
  behind: Set<string> | undefined
  isEnded: boolean
}

interface Watched {
  readonly index: SubscriptionIndex<Subscription>
  /** Who has an item, by its key. */
  readonly holders: Map<string, Set<Subscription>>
}

/**
 * Keeps clients' lists right: the items that match, then every change that concerns them, in order, none missing,
 * none twice. An event costs as much as there are subscriptions that it may concern.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #watched = new Map<string, Watched>()
  readonly #clients = new Map<Subscriber, Map<string, Subscription>>()
  #made = 0
  #laggedEver = 0

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  async subscribe(client: Subscriber, wanted: unknown): Promise<Subscribed> {
    try {
      return await this.#subscribe(client, parseSubscribe(wanted))
    } catch (error) {
      if (error instanceof Refusal) return { error: 'Invalid', message: error.message }
      throw error
    }
  }

  unsubscribe(client: Subscriber, id: string): boolean {
    const subscription = this.#clients.get(client)?.get(id)
    if (!subscription) return false
    this.#end(subscription)
    this.#clients.get(client)?.delete(id)
    return true
  }

  /** The client is gone. */
  leave(client: Subscriber): void {
    for (const subscription of this.#clients.get(client)?.values() ?? []) this.#end(subscription)
    this.#clients.delete(client)
  }

  /** A write became durable, and the views have it. */
  apply(recorded: Recorded): void {
    for (const [index, event] of recorded.events.entries()) {
      const watched = isItemEvent(event) ? this.#watched.get(event.collection) : undefined
      if (!watched || !isItemEvent(event)) continue
      const concerned = new Set(watched.holders.get(String(event.id)))
      const item = event.type === 'ItemDeleted' ? undefined : event.item.value
      if (item) for (const one of watched.index.concernedBy(item)) concerned.add(one)
      const latest = { id: event.id, item, position: recorded.position + index }
      for (const subscription of concerned) this.#see(subscription, latest)
    }
  }

  figures(): SubscriptionFigures {
    let subscriptions = 0
    let lagging = 0
    for (const own of this.#clients.values()) {
      subscriptions += own.size
      for (const { behind } of own.values()) if (behind) lagging++
    }
    return { subscriptions, lagging, laggedEver: this.#laggedEver }
  }

  async #subscribe(client: Subscriber, wanted: Subscribe): Promise<Subscribed> {
    const { views, journal, items: most, perClient } = this.#options
    const watch = parseWatch(wanted.query)
    const own = this.#clients.get(client) ?? new Map<string, Subscription>()
    if (own.size >= perClient) {
      return { error: 'TooMany', message: `A client may have ${perClient} subscriptions.` }
    }
    const id = String(++this.#made)
    const subscription: Subscription = {
      id,
      client,
      collection: wanted.collection,
      watch,
      has: new Map(),
      position: views.position,
      isLive: false,
      behind: undefined,
      isEnded: false,
    }
    const canResume = wanted.journal === journal.id && wanted.after !== undefined && wanted.after <= journal.head
    if (wanted.after !== undefined && canResume) {
      this.#clients.set(client, own.set(id, subscription))
      await this.#resume(subscription, wanted.after)
      return { subscription: id, journal: journal.id, position: wanted.after }
    }
    const found: { readonly id: ItemId; readonly key: string; readonly value: JsonObject }[] = []
    for (const { id, key, value } of views.find(wanted.collection)?.items() ?? []) {
      if (watch.concerns(value)) found.push({ id, key, value })
    }
    if (found.length > most) {
      return {
        error: 'TooLarge',
        message: `${found.length} items match, ${most} is the limit; page through asOf=${views.position}, then subscribe after it.`,
        position: views.position,
        journal: journal.id,
      }
    }
    this.#clients.set(client, own.set(id, subscription))
    for (const { id: itemId, key } of found) subscription.has.set(key, itemId)
    this.#begin(subscription)
    return {
      subscription: id,
      journal: journal.id,
      position: views.position,
      items: found.map(({ value }) => value),
      ...(wanted.after !== undefined && { reset: true }),
    }
  }

  /** What the client has is what matched at the position that it saw last; the changes since then follow. */
  async #resume(subscription: Subscription, after: Position): Promise<void> {
    const { past, log } = this.#options
    if (past.existed(subscription.collection, after)) {
      const then = await past.collection(subscription.collection, after)
      for (const { id, key, value } of then.items())
        if (subscription.watch.concerns(value)) subscription.has.set(key, id)
    }
    subscription.position = after
    // After the answer, so that the client knows the subscription when its first change comes.
    setImmediate(() => {
      this.#catchUp(subscription).catch((error: unknown) =>
        log.error({ err: error }, 'a subscription could not catch up'),
      )
    })
  }

  async #catchUp(subscription: Subscription): Promise<void> {
    const { views, journal } = this.#options
    while (!subscription.isEnded && subscription.position < views.position) {
      const head = views.position
      for await (const recorded of journal.read(subscription.position + 1, head)) {
        for (const [index, event] of recorded.events.entries()) {
          if (subscription.isEnded) return
          if (!isItemEvent(event) || event.collection !== subscription.collection) continue
          if (subscription.client.isSlow())
            await new Promise<void>((resolve) => subscription.client.whenDrained(resolve))
          const item = event.type === 'ItemDeleted' ? undefined : event.item.value
          this.#send(subscription, { id: event.id, item, position: recorded.position + index })
        }
      }
      subscription.position = head
    }
    if (subscription.isEnded) return
    this.#begin(subscription)
    subscription.client.current(subscription.id, views.position)
  }

  /** From now on the events come from the bus. */
  #begin(subscription: Subscription): void {
    const { collection, watch, has } = subscription
    subscription.isLive = true
    const watched = this.#watched.get(collection) ?? {
      index: new SubscriptionIndex<Subscription>(),
      holders: new Map(),
    }
    this.#watched.set(collection, watched)
    watched.index.add(subscription, watch)
    for (const key of has.keys()) hold(watched, key, subscription)
  }

  #end(subscription: Subscription): void {
    subscription.isEnded = true
    const watched = this.#watched.get(subscription.collection)
    if (!watched) return
    watched.index.remove(subscription, subscription.watch)
    for (const key of subscription.has.keys()) letGo(watched, key, subscription)
  }

  #see(subscription: Subscription, latest: Latest): void {
    if (!subscription.behind && !subscription.client.isSlow()) {
      this.#send(subscription, latest)
      return
    }
    if (!subscription.behind) {
      this.#laggedEver++
      subscription.client.lagging(subscription.id, latest.position)
      subscription.client.whenDrained(() => this.#sendLatest(subscription))
    }
    subscription.behind = (subscription.behind ?? new Set()).add(String(latest.id))
  }

  /** What each item that changed meanwhile is now, relative to what the client was last sent. */
  #sendLatest(subscription: Subscription): void {
    const keys = subscription.behind ?? new Set()
    subscription.behind = undefined
    if (subscription.isEnded) return
    const collection = this.#options.views.any(subscription.collection)
    const latest = [...keys].flatMap((key): Latest[] => {
      const entry = collection?.get(key)
      if (!entry) return []
      if ('text' in entry) return [{ id: entry.id, item: entry.value, position: entry.position }]
      return [{ id: subscription.has.get(key) ?? key, item: undefined, position: entry.position }]
    })
    latest.sort((a, b) => a.position - b.position)
    for (const one of latest) this.#send(subscription, one)
    subscription.client.current(subscription.id, this.#options.views.position)
  }

  #send(subscription: Subscription, { id, item, position }: Latest): void {
    const { has, watch, client, isLive } = subscription
    const key = String(id)
    const had = has.has(key)
    const watched = isLive ? this.#watched.get(subscription.collection) : undefined
    if (item && watch.concerns(item)) {
      has.set(key, id)
      if (watched) hold(watched, key, subscription)
      client.change({ subscription: subscription.id, position, kind: had ? 'update' : 'enter', id, item })
    } else if (had) {
      has.delete(key)
      if (watched) letGo(watched, key, subscription)
      client.change({ subscription: subscription.id, position, kind: 'leave', id })
    }
  }
}

/** An item as an event left it; no item after a deletion. */
interface Latest {
  readonly id: ItemId
  readonly item: JsonObject | undefined
  readonly position: Position
}

function hold({ holders }: Watched, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  if (those) those.add(subscription)
  else holders.set(key, new Set([subscription]))
}

function letGo({ holders }: Watched, key: string, subscription: Subscription): void {
  const those = holders.get(key)
  those?.delete(subscription)
  if (those?.size === 0) holders.delete(key)
}

function parseSubscribe(wanted: unknown): Subscribe {
  if (typeof wanted !== 'object' || wanted === null) throw new Refusal('Invalid', 'subscribe needs {collection, …}.')
  const { collection, query, after, journal } = wanted as Readonly<Record<string, unknown>>
  if (typeof collection !== 'string' || collection === '') throw new Refusal('Invalid', 'collection must be text.')
  if (after !== undefined && !(Number.isSafeInteger(after) && (after as number) >= 0)) {
    throw new Refusal('Invalid', 'after must be a position.')
  }
  if (journal !== undefined && typeof journal !== 'string') throw new Refusal('Invalid', 'journal must be a UUID.')
  return {
    collection,
    ...(query !== undefined && { query: query as NonNullable<Subscribe['query']> }),
    ...(after !== undefined && { after: after as number }),
    ...(journal !== undefined && { journal }),
  }
}
