import type { Logger } from 'pino'
import { isItemEvent, type Position } from '../events/event.ts'
import { type Journal, positioned, type Recorded } from '../events/journal.ts'
import { momentOf } from '../projections/moment.ts'
import { type Clock, Pace } from '../projections/pace.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { PageItems } from '../query/index/finder.ts'
import type { PageItemsAt, Queries } from '../query/queries.ts'
import { parseSubscriptionFilter, queryOf } from '../query/subscription-filter.ts'
import { Refusal } from '../runtime/errors.ts'
import { Semaphore } from '../runtime/semaphore.ts'
import { Slices, type Steps } from '../runtime/time-slices.ts'
import { parseSubscribe, type Wanted } from './parse-subscribe.ts'
import {
  type Answer,
  type Answered,
  give,
  hold,
  type Latest,
  latestOf,
  letGo,
  type Subscriber,
  type Subscription,
  sending,
  sendingText,
  textOf,
  tooLong,
  tooMany,
  type Watched,
} from './subscription.ts'
import { SubscriptionIndex } from './subscription-index.ts'

export interface SubscriptionsOptions {
  readonly views: Views
  readonly past: Past
  readonly queries: Queries
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  readonly log: Logger
  readonly now: () => Date
  readonly clock: Clock
  /** Highest number of items with which a subscription may begin. */
  readonly items: number
  /** Highest number of subscriptions of one client. */
  readonly perClient: number
}

export interface SubscriptionFigures {
  readonly subscriptions: number
  /** Subscriptions whose client is slow. */
  readonly lagging: number
  /** How often a client became slow. */
  readonly laggedEver: number
}

/**
 * How many subscriptions catch up at a time, and how many records each reads before it queues again. This keeps a long
 * catch-up from delaying requests and other subscriptions.
 */
const READING = 2
const RECORDS_A_TURN = 128
/**
 * Keeps the lists of clients up to date: the matching items, then each change that concerns them, in order, exactly
 * once. The cost of an event grows with the number of subscriptions that it may concern.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #watched = new Map<string, Watched>()
  readonly #clients = new Map<Subscriber, Map<string, Subscription>>()
  readonly #reading = new Semaphore(READING)
  readonly #slices = new Slices()
  #made = 0
  #laggedEver = 0
  /** The views are ahead of what subscriptions were told: parts of a write are still to come. */
  #isMidway = false
  #postponed: (() => void)[] = []

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  get perClient(): number {
    return this.#options.perClient
  }

  /** Calls `answer` once, before the first change is sent. Resolves after that. */
  async subscribe(client: Subscriber, wanted: unknown, answer: Answer): Promise<void> {
    try {
      const answered = await this.#subscribe(client, parseSubscribe(wanted), answer)
      if (answered) answer(answered)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      answer({ error: 'Invalid', message: error.message })
    }
  }

  unsubscribe(client: Subscriber, id: string): boolean {
    const subscription = this.#clients.get(client)?.get(id)
    if (!subscription) return false
    this.#end(subscription)
    this.#clients.get(client)?.delete(id)
    return true
  }

  /** Ends all subscriptions of a client. */
  leave(client: Subscriber): void {
    for (const subscription of this.#clients.get(client)?.values() ?? []) this.#end(subscription)
    this.#clients.delete(client)
  }

  /**
   * Passes a durable write, or a part of one, to the subscriptions; the views already have it. `hasMore` tells whether
   * the views are further ahead. The next call must wait for the returned promise.
   */
  apply(recorded: Recorded, hasMore = () => false): void | Promise<void> {
    this.#isMidway = true
    const applied = this.#watched.size === 0 ? undefined : this.#slices.run(() => this.#applying(recorded))
    if (applied instanceof Promise) return applied.then(() => this.#applied(hasMore()))
    this.#applied(hasMore())
  }

  *#applying(recorded: Recorded): Steps<void> {
    for (const [position, event] of positioned(recorded)) {
      const watched = isItemEvent(event) ? this.#watched.get(event.collection) : undefined
      if (!watched || !isItemEvent(event)) continue
      const latest = yield* latestOf(event.id, textOf(event), position)
      const concerned = latest.item ? yield* watched.index.concernedBy(latest.item.value) : new Set<Subscription>()
      for (const one of watched.holders.get(String(event.id)) ?? []) concerned.add(one)
      for (const subscription of concerned) {
        yield
        // A subscription that began meanwhile already has this event.
        if (position > subscription.position) yield* this.#see(subscription, latest)
      }
    }
  }

  #applied(hasMore: boolean): void {
    this.#isMidway = hasMore
    if (hasMore) return
    const postponed = this.#postponed
    this.#postponed = []
    for (const work of postponed) work()
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

  /** Undefined if it has called `answer` itself. */
  async #subscribe(client: Subscriber, wanted: Wanted, answer: Answer): Promise<Answered | undefined> {
    const { views, journal, perClient } = this.#options
    const watch = parseSubscriptionFilter(wanted.query)
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
      pace: undefined,
      isLive: false,
      behind: undefined,
      isEnded: false,
    }
    // Registers at once: concurrent calls must count towards the limit, and the client may disconnect while the past is
    // read.
    this.#clients.set(client, own.set(id, subscription))
    if (wanted.from !== undefined) {
      return await this.#orNot(subscription, () => this.#replay(subscription, wanted.from as string, wanted.speed))
    }
    const canResume = wanted.journal === journal.id && wanted.after !== undefined && wanted.after <= journal.head
    if (wanted.after !== undefined && canResume) {
      return await this.#orNot(subscription, () => this.#resume(subscription, wanted.after as Position))
    }
    const started = await this.#orNot(subscription, async () => this.#start(subscription, wanted, answer))
    return 'error' in started ? started : undefined
  }

  /** Begins with the matching items, then follows the changes. */
  async #start(subscription: Subscription, { after }: Wanted, answer: Answer): Promise<Answered> {
    const { views, queries, journal, items: most } = this.#options
    const collection = views.find(subscription.collection)
    const nothing = { items: [], total: 0, at: views.position }
    // Synchronous if the result is, so that no event comes in between.
    const begin = ({ items, total, at: position }: Pick<PageItemsAt, 'items' | 'total' | 'at'>): Answered => {
      const advice = `page through asOf=${position}, then subscribe after it`
      const refused = tooMany(total, most, advice) ?? tooLong(items, advice)
      if (refused) return { ...refused, position, journal: journal.id }
      give(subscription, items)
      subscription.position = position
      const isCurrent = position === views.position
      if (!subscription.isEnded && isCurrent) this.#begin(subscription)
      const reset = after !== undefined && ({ reset: true } as const)
      const answered = { subscription: subscription.id, journal: journal.id, position, items, ...reset }
      answer(answered)
      if (!isCurrent) this.#catchUpSoon(subscription)
      return answered
    }
    const found = collection ? queries.find(collection, queryOf(subscription.watch, most)) : nothing
    return begin(found instanceof Promise ? await found : found)
  }

  /** Computes which items matched at the client's last position; the changes since then follow. */
  async #resume(subscription: Subscription, after: Position): Promise<Answered> {
    const { views, queries, past } = this.#options
    const { collection: name, watch, has } = subscription
    const collection = views.any(name)
    const found = collection && (await queries.find(collection, queryOf(watch, Number.MAX_SAFE_INTEGER)))
    if (found) give(subscription, found.items)
    await past.turnBack(has, found?.at ?? views.position, after, { name, matches: watch.concerns })
    subscription.position = after
    this.#catchUpSoon(subscription)
    return { subscription: subscription.id, journal: this.#options.journal.id, position: after }
  }

  /** Begins with the items that matched then; the changes follow at their pace, `speed` times as fast. */
  async #replay(subscription: Subscription, from: string, speed: number): Promise<Answered> {
    const { journal, now, clock, items: most } = this.#options
    const { position, ms } = await momentOf(from, 'from', journal, now)
    const found = await this.#matchingAt(subscription, position)
    if (found.length > most) {
      return {
        error: 'TooLarge',
        message: `More than ${most} items matched at position ${position}; ask for fewer.`,
        position,
      }
    }
    const refused = tooLong(found, 'ask for fewer')
    if (refused) return { ...refused, position }
    give(subscription, found)
    subscription.position = position
    subscription.pace = new Pace(clock, ms, speed)
    this.#catchUpSoon(subscription)
    return { subscription: subscription.id, journal: journal.id, position, items: found }
  }

  /** Removes the subscription if it is rejected. */
  async #orNot({ client, id }: Subscription, attempt: () => Promise<Answered>): Promise<Answered> {
    let answered: Answered | undefined
    try {
      answered = await attempt()
      return answered
    } finally {
      if (!answered || 'error' in answered) this.unsubscribe(client, id)
    }
  }

  async #matchingAt({ collection, watch }: Subscription, at: Position): Promise<PageItems['items']> {
    const { past, queries, items: most } = this.#options
    if (!past.existed(collection, at)) return []
    const then = await past.collection(collection, at)
    try {
      return (await queries.find(then, queryOf(watch, most + 1))).items
    } finally {
      then.release()
    }
  }

  /** Runs after the response, so that the client knows the subscription when its first change arrives. */
  #catchUpSoon(subscription: Subscription): void {
    setImmediate(() => {
      this.#catchUp(subscription).catch((error: unknown) => this.#failed(error))
    })
  }

  async #catchUp(subscription: Subscription): Promise<void> {
    const { views } = this.#options
    while (!subscription.isEnded && subscription.position < views.position) {
      const why = await this.#reading.run(() => this.#readOn(subscription, views.position))
      if (why === 'slow') await new Promise<void>((resolve) => subscription.client.whenDrained(resolve))
      else if (why !== 'more') await subscription.pace?.reach(why.until)
    }
    if (subscription.isEnded) return
    this.#begin(subscription)
    subscription.client.current(subscription.id, views.position)
  }

  /**
   * Sends some of the changes up to `to`, and returns why it stopped. While a subscription waits, which may take days,
   * it holds no file and no data.
   */
  async #readOn(subscription: Subscription, to: Position): Promise<'slow' | 'more' | { readonly until: string }> {
    const { collection, pace, client } = subscription
    let until = ''
    let left = RECORDS_A_TURN
    for await (const recorded of this.#options.journal.read(subscription.position + 1, to)) {
      if (subscription.isEnded) break
      if (left-- === 0) return 'more'
      until = recorded.time
      const isDue = pace?.isDue(until) ?? true
      for (const [position, event] of positioned(recorded)) {
        if (isItemEvent(event) && event.collection === collection) {
          if (!isDue) return { until }
          if (client.isSlow()) return 'slow'
          await this.#slices.run(() => sendingText(subscription, [event.id, textOf(event), position], this.#watched))
        }
        subscription.position = position
      }
    }
    return { until }
  }

  /** Makes the subscription live: from now on events come from the bus. */
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
    subscription.pace?.end()
    const watched = this.#watched.get(subscription.collection)
    if (!watched) return
    watched.index.remove(subscription, subscription.watch)
    for (const key of subscription.has.keys()) letGo(watched, key, subscription)
    if (watched.index.isEmpty) this.#watched.delete(subscription.collection)
  }

  *#see(subscription: Subscription, latest: Latest): Steps<void> {
    if (subscription.isEnded) return
    if (!subscription.behind && !subscription.client.isSlow()) {
      yield* sending(subscription, latest, this.#watched)
      return
    }
    if (!subscription.behind) {
      this.#laggedEver++
      subscription.behind = new Set()
      subscription.client.lagging(subscription.id, latest.position)
      subscription.client.whenDrained(() => this.#sendLatest(subscription))
    }
    // Deleting first moves the key to the end: keys are ordered by their latest change.
    subscription.behind.delete(String(latest.id))
    subscription.behind.add(String(latest.id))
  }

  #sendLatest(subscription: Subscription): void {
    if (!subscription.behind || subscription.isEnded) return
    // The views are ahead of what other subscriptions were told.
    if (this.#isMidway) this.#postponed.push(() => this.#sendLatest(subscription))
    else {
      const sent = this.#slices.run(() => this.#sendingLatest(subscription))
      if (sent instanceof Promise) sent.catch((error: unknown) => this.#failed(error))
    }
  }

  /** Sends the latest state of each item that changed while the client was slow, as fast as the client reads. */
  *#sendingLatest(subscription: Subscription): Steps<void> {
    const { behind, client, has } = subscription
    const collection = this.#options.views.any(subscription.collection)
    if (!behind) return
    for (const key of behind) {
      if (subscription.isEnded) return
      if (client.isSlow()) {
        client.whenDrained(() => this.#sendLatest(subscription))
        return
      }
      if (this.#isMidway) {
        this.#sendLatest(subscription)
        return
      }
      behind.delete(key)
      const position = collection?.get(key)?.position
      const item = collection?.item(key)
      if (position !== undefined)
        yield* sendingText(subscription, [item?.id ?? has.get(key) ?? key, item?.text, position], this.#watched)
      yield
    }
    if (this.#isMidway) {
      this.#sendLatest(subscription)
      return
    }
    subscription.behind = undefined
    client.current(subscription.id, this.#options.views.position)
  }

  #failed(error: unknown): void {
    this.#options.log.error({ err: error }, 'a subscription could not catch up')
  }
}
