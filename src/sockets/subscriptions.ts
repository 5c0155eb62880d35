import { isItemEvent, type Position } from '../events/event.ts'
import { type Journal, positioned, type Recorded } from '../events/journal.ts'
import { momentOf } from '../projections/moment.ts'
import { type Clock, isSpeed, Pace, SPEEDS } from '../projections/pace.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { PageItems } from '../query/index/finder.ts'
import type { PageItemsAt, Queries } from '../query/queries.ts'
import { Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { type Asker, type Turn, Turns } from '../runtime/turns.ts'
import { CatchUp } from './catch-up.ts'
import { LaggingSubscriptions } from './lagging-subscriptions.ts'
import { LiveSubscriptions } from './live-subscriptions.ts'
import {
  accepted,
  eventTimeOf,
  give,
  latestOf,
  type Respond,
  type SubscribeResponse,
  type Subscriber,
  type Subscription,
  textOf,
  tooLong,
  tooMany,
} from './subscription.ts'
import { parseSubscriptionFilter, queryOf } from './subscription-filter.ts'

/** A subscription is resumed with up to this many times as many items as it may begin with, and as many changed ones. */
const MOST_RESUMED = 10

export interface SubscriptionsOptions {
  readonly views: Views
  readonly past: Past
  readonly queries: Queries
  readonly journal: Pick<Journal, 'id' | 'head' | 'read' | 'timeMs'>
  readonly log: LimitedLog
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
 * Keeps the lists of clients up to date: the matching items, then each change that concerns them, in order, exactly
 * once. The cost of an event grows with the number of subscriptions that it may concern.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #live = new LiveSubscriptions()
  readonly #lagging: LaggingSubscriptions
  readonly #catchUp: CatchUp
  readonly #clients = new Map<Subscriber, Map<string, Subscription>>()
  readonly #turns = new Turns()
  #made = 0

  constructor(options: SubscriptionsOptions) {
    this.#options = options
    const { views, journal, log } = options
    const shared = { views, live: this.#live, turns: this.#turns, log }
    this.#lagging = new LaggingSubscriptions(shared)
    this.#catchUp = new CatchUp({ ...shared, journal })
  }

  get perClient(): number {
    return this.#options.perClient
  }

  /** Calls `respond` once, before the first change is sent. Resolves after that. */
  async subscribe(client: Subscriber, wanted: unknown, respond: Respond): Promise<void> {
    try {
      const response = await this.#subscribe(client, parseSubscribe(wanted), respond)
      if (response) respond(response)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      respond({ error: 'Invalid', message: error.message })
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
    this.#lagging.setMidway(true)
    const applied = this.#live.isEmpty ? undefined : this.#turns.run((turn) => this.#applying(recorded, turn))
    const end = (): void => this.#lagging.setMidway(hasMore())
    return applied ? applied.then(end) : end()
  }

  async #applying(recorded: Recorded, turn: Turn): Promise<void> {
    for (const [position, event] of positioned(recorded)) {
      if (!isItemEvent(event) || !this.#live.has(event.collection)) continue
      if (turn.isOver) await turn.next()
      const latest = latestOf(event.id, textOf(event), position)
      const concerned = await this.#live.concernedBy(event.collection, String(event.id), latest.item?.value, turn)
      for (const subscription of concerned) {
        if (turn.isOver) await turn.next()
        // A subscription that began meanwhile already has this event.
        if (subscription.isEnded || position <= subscription.position) continue
        if (!this.#lagging.postpones(subscription, latest)) this.#live.send(subscription, latest)
      }
    }
  }

  figures(): SubscriptionFigures {
    let subscriptions = 0
    let lagging = 0
    for (const own of this.#clients.values()) {
      subscriptions += own.size
      for (const { behind } of own.values()) if (behind) lagging++
    }
    return { subscriptions, lagging, laggedEver: this.#lagging.count }
  }

  /** Undefined if it has called `respond` itself. */
  async #subscribe(
    client: Subscriber,
    wanted: SubscribeRequest,
    respond: Respond,
  ): Promise<SubscribeResponse | undefined> {
    const { views, queries, journal, perClient } = this.#options
    const watch = parseSubscriptionFilter(wanted.query, queries.timeOf(wanted.collection))
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
      return await this.#unlessRejected(subscription, () =>
        this.#replay(subscription, wanted.from as string, wanted.speed),
      )
    }
    const { after } = wanted
    const canResume = wanted.journal === journal.id && after !== undefined && after <= journal.head
    let resumed: SubscribeResponse | undefined
    const response = await this.#unlessRejected(subscription, async () => {
      if (canResume) resumed = await this.#resume(subscription, after)
      return resumed ?? this.#start(subscription, wanted, respond)
    })
    return resumed ?? ('error' in response ? response : undefined)
  }

  /** Begins with the matching items, then follows the changes. */
  async #start(subscription: Subscription, { after }: SubscribeRequest, respond: Respond): Promise<SubscribeResponse> {
    const { views, queries, journal, items: most } = this.#options
    const collection = views.find(subscription.collection)
    const nothing = { items: [], total: 0, at: views.position }
    // No event comes in between, as nothing is awaited.
    const begin = ({ items, total, at: position }: Pick<PageItemsAt, 'items' | 'total' | 'at'>): SubscribeResponse => {
      // Clients read a list to resume it: one that cannot be resumed would be read again and again.
      const isResumable = total <= MOST_RESUMED * most
      const advice = isResumable ? `page through asOf=${position}, then subscribe after it` : 'ask for fewer'
      const refused = tooMany(total, most, advice) ?? tooLong(items, advice)
      if (refused)
        return isResumable
          ? { ...refused, position, journal: journal.id, ...eventTimeOf(queries, subscription) }
          : refused
      give(subscription, items)
      subscription.position = position
      const isCurrent = position === views.position
      if (!subscription.isEnded && isCurrent) this.#live.add(subscription)
      const flags = {
        ...(after !== undefined && { reset: true as const }),
        ...(!isCurrent && { behind: true as const }),
      }
      const response = { ...accepted(subscription, position, this.#options), items, ...flags }
      respond(response)
      if (!isCurrent) this.#catchUp.begin(subscription)
      return response
    }
    const query = queryOf(subscription.watch, most)
    return begin(collection ? await queries.find(collection, query, askerOf(subscription)) : nothing)
  }

  /**
   * Computes which items matched at the client's last position; the changes since then follow. Undefined if that takes
   * too much memory, as too many items match or were changed since.
   */
  async #resume(subscription: Subscription, after: Position): Promise<SubscribeResponse | undefined> {
    const { views, queries, past, items } = this.#options
    const { collection: name, watch, has } = subscription
    const most = MOST_RESUMED * items
    const asker = askerOf(subscription)
    const collection = views.any(name)
    const found = collection && (await queries.find(collection, queryOf(watch, most), asker))
    if (found && found.total > most) return undefined
    if (found) give(subscription, found.items)
    const filter = { name, matches: watch.concerns }
    if (!(await past.turnBack(has, found?.at ?? views.position, after, filter, most, asker))) {
      has.clear()
      return undefined
    }
    subscription.position = after
    this.#catchUp.begin(subscription)
    return accepted(subscription, after, this.#options)
  }

  /** Begins with the items that matched then; the changes follow at their pace, `speed` times as fast. */
  async #replay(subscription: Subscription, from: string, speed: number): Promise<SubscribeResponse> {
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
    this.#catchUp.begin(subscription)
    return { ...accepted(subscription, position, this.#options), items: found }
  }

  /** Removes the subscription if it is rejected. */
  async #unlessRejected(
    { client, id }: Subscription,
    attempt: () => Promise<SubscribeResponse>,
  ): Promise<SubscribeResponse> {
    let response: SubscribeResponse | undefined
    try {
      response = await attempt()
      return response
    } finally {
      if (!response || 'error' in response) this.unsubscribe(client, id)
    }
  }

  async #matchingAt(subscription: Subscription, at: Position): Promise<PageItems['items']> {
    const { past, queries, items: most } = this.#options
    const { collection, watch } = subscription
    const asker = askerOf(subscription)
    if (!past.existed(collection, at)) return []
    const then = await past.collection(collection, at, asker)
    try {
      return (await queries.find(then, queryOf(watch, most + 1), asker)).items
    } finally {
      then.release()
    }
  }

  #end(subscription: Subscription): void {
    subscription.isEnded = true
    subscription.pace?.end()
    this.#live.remove(subscription)
  }
}

/** A search ends with its subscription, when the client has disconnected. */
function askerOf(subscription: Subscription): Asker {
  return { isGone: () => subscription.isEnded }
}

/** A parsed `subscribe`; parseSubscriptionFilter reads its query. */
export interface SubscribeRequest {
  readonly collection: string
  readonly query: unknown
  readonly after: Position | undefined
  readonly journal: string | undefined
  /** A position or an instant, not resolved yet. */
  readonly from: string | undefined
  readonly speed: number
}

const MEMBERS = ['collection', 'query', 'after', 'journal', 'from', 'speed']

/**
 * Checks what a client sent.
 * @throws {Refusal} `Invalid`
 */
export function parseSubscribe(sent: unknown): SubscribeRequest {
  if (typeof sent !== 'object' || sent === null) throw new Refusal('Invalid', 'subscribe needs {collection, …}.')
  const unknown = Object.keys(sent).find((name) => !MEMBERS.includes(name))
  if (unknown !== undefined) {
    throw new Refusal('Invalid', `subscribe has no member ${JSON.stringify(unknown)}; it has ${MEMBERS.join(', ')}.`)
  }
  const { collection, query, after, journal, from, speed } = sent as Readonly<Record<string, unknown>>
  if (typeof collection !== 'string' || collection === '') throw new Refusal('Invalid', 'collection must be text.')
  if (after !== undefined && !isPosition(after)) throw new Refusal('Invalid', 'after must be a position.')
  if (journal !== undefined && typeof journal !== 'string') throw new Refusal('Invalid', 'journal must be a UUID.')
  if (from !== undefined && typeof from !== 'string' && !isPosition(from)) {
    throw new Refusal('Invalid', 'from must be a position or an ISO 8601 date-time.')
  }
  if (from !== undefined && after !== undefined) {
    throw new Refusal('Invalid', 'after resumes a subscription and from starts a replay: use only one of them.')
  }
  if (speed !== undefined && from === undefined) throw new Refusal('Invalid', 'speed needs from: where to begin.')
  if (speed !== undefined && !isSpeed(speed)) {
    throw new Refusal('Invalid', `speed must be a number from ${SPEEDS.least} to ${SPEEDS.most}.`)
  }
  return {
    collection,
    query,
    after,
    journal,
    from: from === undefined ? undefined : String(from),
    speed: speed ?? SPEEDS.least,
  }
}

function isPosition(value: unknown): value is Position {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
