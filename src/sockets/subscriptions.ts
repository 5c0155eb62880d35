import { JournalDamage, unreadableText } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import { formatPath } from '../json/paths.ts'
import { momentOf } from '../projections/moment.ts'
import { type Clock, Pace } from '../projections/pace.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { PageItems, Queries } from '../query/queries.ts'
import { Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { Memory, type MemoryBudget, OutOfMemory, textBytes, wouldNeverFit } from '../runtime/memory.ts'
import { type Asker, CHARACTERS_AT_ONCE, Turns } from '../runtime/turns.ts'
import { CatchUp } from './catch-up.ts'
import { LiveSubscriptions } from './live-subscriptions.ts'
import { parseSubscriptionFilter, queryOf, type SubscribeRequest } from './subscribe-request.ts'
import { isEnded, keyBytes, type SubscribeResponse, type Subscriber, type Subscription } from './subscription.ts'

/** A subscription is resumed with up to this many times as many items as it may begin with, and as many changed ones. */
const MOST_RESUMED = 10
/** The copies of the items in a message: the JSON, the message and its frame. */
const COPIES = 3

export interface SubscriptionsOptions {
  readonly views: Views
  readonly past: Past
  readonly queries: Queries
  readonly journal: Pick<Journal, 'id' | 'head' | 'read' | 'at' | 'timeMs'>
  readonly log: LimitedLog
  readonly now: () => Date
  readonly clock: Clock
  /** Highest number of items with which a subscription may begin. */
  readonly items: number
  /** Highest number of subscriptions of one client. */
  readonly perClient: number
  readonly memory: MemoryBudget
}

export interface SubscriptionFigures {
  readonly subscriptions: number
  /** Subscriptions whose client is slow. */
  readonly lagging: number
  /** How often a client became slow. */
  readonly laggedEver: number
}

/** A search ends with its subscription, when the client has disconnected; `memory` has the first items until they are sent. */
interface BeginningAsker extends Asker {
  readonly memory: Memory
}

/** The state of the list with which a client begins, or at which it resumes, without items then. */
interface Beginning {
  readonly position: Position
  readonly items?: PageItems['items']
  /** The client could not resume. */
  readonly reset?: true
}

type Rejection = Extract<SubscribeResponse, { readonly error: string }>

/**
 * Keeps the lists of clients up to date: the matching items, then each change that concerns them, in order, exactly
 * once (the states are in subscription.ts). The cost of an event grows with the number of subscriptions that it may
 * concern.
 */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #turns = new Turns()
  readonly #live: LiveSubscriptions
  readonly #catchUp: CatchUp
  readonly #clients = new Map<Subscriber, Map<string, Subscription>>()
  #lastId = 0

  constructor(options: SubscriptionsOptions) {
    this.#options = options
    const shared = { ...options, turns: this.#turns }
    this.#live = new LiveSubscriptions(shared)
    this.#catchUp = new CatchUp({ ...shared, live: this.#live })
  }

  get perClient(): number {
    return this.#options.perClient
  }

  /** Calls `respond` once, before the first change is sent. Resolves after that. */
  async subscribe(
    client: Subscriber,
    request: SubscribeRequest,
    respond: (response: SubscribeResponse) => void,
  ): Promise<void> {
    try {
      await this.#subscribe(client, request, respond)
    } catch (error) {
      respond(rejectionOf(error))
    }
  }

  /** The memory of a client's requests that wait. */
  newMemory(): Memory {
    return new Memory(this.#options.memory, 'subscriptions')
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

  #end(subscription: Subscription): void {
    subscription.state = 'ended'
    subscription.pace?.end()
    this.#live.remove(subscription)
    subscription.memory.end()
  }

  /**
   * Passes a durable write, or a part of one, to the subscriptions; the views already have it. `hasMore` tells whether
   * the views are further ahead. The next call must wait for the returned promise.
   */
  apply(recorded: Recorded, hasMore = () => false): void | Promise<void> {
    return this.#live.apply(recorded, hasMore)
  }

  figures(): SubscriptionFigures {
    const all = [...this.#clients.values()].flatMap((own) => [...own.values()])
    const lagging = all.filter(({ state }) => state === 'lagging').length
    return { subscriptions: all.length, lagging, laggedEver: this.#live.laggedEver }
  }

  async #subscribe(
    client: Subscriber,
    request: SubscribeRequest,
    respond: (response: SubscribeResponse) => void,
  ): Promise<void> {
    const { views, queries, journal, perClient } = this.#options
    const { collection } = request
    const time = queries.timeOf(collection)
    const filter = parseSubscriptionFilter(request.parameters, time)
    const own = this.#clients.get(client) ?? new Map<string, Subscription>()
    if (own.size >= perClient) {
      respond({ error: 'TooMany', message: `A client may have ${perClient} subscriptions.` })
      return
    }
    const subscription: Subscription = {
      id: String(++this.#lastId),
      client,
      collection,
      filter,
      held: new Map(),
      state: 'starting',
      position: views.position,
      pace: undefined,
      changed: new Set(),
      memory: this.newMemory(),
    }
    const { id } = subscription
    /** Holds the first items until they are sent. */
    const memory = this.newMemory()
    // Registers at once: concurrent calls must count towards the limit, and the client may disconnect while the past is
    // read.
    this.#clients.set(client, own.set(id, subscription))
    let isAccepted = false
    try {
      subscription.memory.grow(request.bytes)
      const beginning = await this.#begin(subscription, request, { isGone: () => isEnded(subscription), memory })
      const eventTime = time && { eventTime: formatPath(time) }
      if ('error' in beginning) {
        respond(beginning.journal === undefined ? beginning : { ...beginning, ...eventTime })
        return
      }
      const { position, items = [] } = beginning
      subscription.position = position
      for (const { id, key } of items) subscription.held.set(key, id)
      await this.#holdKeys(subscription)
      const isStart = beginning.items !== undefined && request.from === undefined
      // No event comes before the response, as nothing is awaited.
      const isLive = isStart && position === views.position
      const behind = isStart && !isLive && { behind: true as const }
      client.whenSent(() => memory.end())
      respond({ subscription: id, journal: journal.id, ...eventTime, ...beginning, ...behind })
      isAccepted = true
      if (isEnded(subscription)) return
      if (isLive) this.#live.add(subscription)
      else this.#catchUp.begin(subscription)
    } finally {
      if (!isAccepted) this.unsubscribe(client, id)
      if (isEnded(subscription)) memory.end()
    }
  }

  async #begin(
    subscription: Subscription,
    request: SubscribeRequest,
    asker: BeginningAsker,
  ): Promise<Beginning | Rejection> {
    const { journal } = this.#options
    const { after, from, speed } = request
    if (from !== undefined) return this.#replay(subscription, from, speed, asker)
    const canResume = request.journal === journal.id && after !== undefined && after <= journal.head
    const isResumed = canResume && (await this.#resume(subscription, after, asker))
    asker.memory.release()
    if (isResumed) return { position: after }
    const beginning = await this.#start(subscription, asker)
    return 'error' in beginning || after === undefined ? beginning : { ...beginning, reset: true }
  }

  /** Finds the items that match now. */
  async #start(subscription: Subscription, asker: BeginningAsker): Promise<Beginning | Rejection> {
    const { views, queries, journal, items: most } = this.#options
    const collection = views.find(subscription.collection)
    if (!collection) return { position: views.position, items: [] }
    const query = queryOf(subscription.filter, most)
    const found = await unlessTooLarge(() => queries.find(collection, query, asker))
    const isTooLarge = found instanceof OutOfMemory
    if (isTooLarge) asker.memory.release()
    const counted = isTooLarge ? await queries.find(collection, queryOf(subscription.filter, 1), asker) : found
    const { items, total, at: position } = counted
    // Clients read a list to resume it: one that cannot be resumed would be read again and again.
    const isResumable = total <= MOST_RESUMED * most
    const advice = isResumable ? `page through asOf=${position}, then subscribe after it` : 'ask for fewer'
    const message =
      total > most
        ? `${total} items match, ${most} is the limit; ${advice}.`
        : isTooLarge
          ? `${found.message} Or ${advice}.`
          : await tooLong(items, asker.memory, advice)
    if (message === undefined) return { position, items }
    return { error: 'TooLarge', message, ...(isResumable && { position, journal: journal.id }) }
  }

  /**
   * Finds the items that matched at the client's last position. False if too many match, or were changed since, or if the
   * journal is damaged there.
   */
  async #resume(subscription: Subscription, after: Position, asker: BeginningAsker): Promise<boolean> {
    const { views, queries, past, items } = this.#options
    const { collection: name, filter, held } = subscription
    const most = MOST_RESUMED * items
    const collection = views.any(name)
    const found = collection && (await unlessTooLarge(() => queries.select(collection, queryOf(filter, most), asker)))
    if (found instanceof OutOfMemory) return false
    await this.#turns.run(async (turn) => {
      for (const id of found?.ids ?? []) {
        if (turn.isOver) await turn.next()
        held.set(String(id), id)
      }
    })
    if (held.size > most) {
      held.clear()
      return false
    }
    const matching = { name, matches: filter.concerns }
    const now = found?.position ?? views.position
    const turned = await unlessTooLarge(() =>
      past.turnBack(held, now, after, matching, most, asker).catch((error: unknown) => {
        if (error instanceof JournalDamage) return false
        throw error
      }),
    )
    const isTurnedBack = turned === true
    if (!isTurnedBack) held.clear()
    return isTurnedBack
  }

  /** Holds memory for the ids that the client has. */
  #holdKeys({ held, memory }: Subscription): Promise<void> {
    return this.#turns.run(async (turn) => {
      for (const id of held.values()) {
        if (turn.isOver) await turn.next()
        memory.grow(keyBytes(id))
      }
    })
  }

  /** Finds the items that matched then; the changes follow at their pace, `speed` times as fast. */
  async #replay(
    subscription: Subscription,
    from: string,
    speed: number,
    asker: BeginningAsker,
  ): Promise<Beginning | Rejection> {
    const { clock, items: most } = this.#options
    const { position, ms } = await momentOf(from, 'from', this.#options)
    const items = await this.#matchingAt(subscription, position, asker)
    const tooMany = `More than ${most} items matched at position ${position}; ask for fewer.`
    const message = items.length > most ? tooMany : await tooLong(items, asker.memory, 'ask for fewer')
    if (message !== undefined) return { error: 'TooLarge', message, position }
    subscription.pace = new Pace(clock, ms, speed)
    return { position, items }
  }

  async #matchingAt(
    { collection, filter }: Subscription,
    at: Position,
    asker: BeginningAsker,
  ): Promise<PageItems['items']> {
    const { past, queries, items: most } = this.#options
    if (!past.existed(collection, at)) return []
    const then = await past.collection(collection, at, asker)
    try {
      return (await queries.find(then, queryOf(filter, most + 1), asker)).items
    } finally {
      then.release()
    }
  }
}

/** The response to a request that was refused; throws any other error. */
export function rejectionOf(error: unknown): Rejection {
  if (error instanceof JournalDamage) return { error: 'Unavailable', message: unreadableText(error.damage) }
  if (!(error instanceof Refusal)) throw error
  const { message } = error
  if (!(error instanceof OutOfMemory)) return { error: 'Invalid', message }
  return { error: wouldNeverFit(error) ? 'TooLarge' : 'Busy', message }
}

/** The result, or the refusal of one that would never fit into memory. */
async function unlessTooLarge<Result>(find: () => Result | Promise<Result>): Promise<Result | OutOfMemory> {
  try {
    return await find()
  } catch (error) {
    if (wouldNeverFit(error)) return error
    throw error
  }
}

/** Holds memory for the message with the items. Returns an error message if they are too long for one message. */
async function tooLong(items: PageItems['items'], memory: Memory, advice: string): Promise<string | undefined> {
  let characters = 0
  for (const { text } of items) characters += text.length
  if (characters > CHARACTERS_AT_ONCE)
    return `The items that match are longer than ${CHARACTERS_AT_ONCE} characters; ${advice}.`
  const unfit = await unlessTooLarge(() => {
    for (const { text } of items) memory.hold(COPIES * textBytes(text))
    return undefined
  })
  return unfit?.message
}
