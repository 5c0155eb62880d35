import type { Sort } from '../json/order.ts'
import type { JsonObject } from '../json/value.ts'
import type { Change, Subscribe, Subscribed } from '../sockets/protocol.ts'
import { Changes, type ListChange } from './changes.ts'
import { type Connection, type Listener, Listeners, type ListSubscriber } from './connection.ts'
import { hasStatus, type Problem, problem } from './problem.ts'
import { pause } from './requests.ts'
import { type Entry, SortedItems } from './sorted-items.ts'

/** The part of the connection that a list needs. */
type Subscribing = Pick<Connection, 'add' | 'remove' | 'subscribe' | 'settled'>

/**
 * `waiting` for a connection or response; `catchingUp` with missed changes; `replaying` the past, or what happened since
 * the items were read; `live`: gets every change; `lagging`: gets the latest change of each item only.
 */
type Phase = 'waiting' | 'catchingUp' | 'replaying' | 'live' | 'lagging'

const STATUSES = { Invalid: 400, TooLarge: 413, TooMany: 429, Unavailable: 503 } as const

/** The items that match a query, kept up to date until the list is closed. */
export class LiveList<T extends object> implements AsyncIterable<ListChange<T>>, ListSubscriber {
  /**
   * Resolves when the list is loaded; rejects if the server refuses it or the credentials, or it is closed before. With
   * other credentials it is loaded nevertheless.
   */
  readonly ready: Promise<void>
  readonly #items: SortedItems<T>
  readonly #options: LiveListOptions
  readonly #connection: Subscribing
  /** Called with undefined at the end. */
  readonly #onChanges = new Listeners<Changes<T> | undefined>()
  readonly #settle: { resolve(): void; reject(error: unknown): void }
  #shown: readonly T[] | undefined
  #error: Problem | undefined
  #isClosed = false
  /** Where to resume: the journal's UUID, and the position that the list reflects. */
  #journal: string | undefined
  #position = 0
  #phase: Phase = 'waiting'
  /** Defined until the replay has reached the present. */
  #replay: LiveListOptions['replay']
  /** While it catches up: the last change of each item by its key, in the order of positions, and the number of all. */
  readonly #missed = new Map<string, Change>()
  #missedCount = 0
  /** While it reads in pages, or waits. */
  #working: AbortController | undefined
  /** The items were read in pages, and the server has not accepted the subscription after them yet. */
  #wasReadInPages = false

  constructor(connection: Subscribing, options: LiveListOptions) {
    this.#connection = connection
    this.#options = options
    this.#replay = options.replay
    this.#items = new SortedItems<T>(options.sort, options.idOf, (item) => (options.select?.(item) ?? item) as T)
    let settle = { resolve: (): void => {}, reject: (_error: unknown): void => {} }
    this.ready = new Promise((resolve, reject) => {
      settle = { resolve, reject }
    })
    this.#settle = settle
    connection.add(this)
  }

  /** The items in order. The array is replaced after each change and never modified. */
  get items(): readonly T[] {
    this.#shown ??= this.#visible().map(({ item }) => item)
    return this.#shown
  }

  /** Number of matching items on all pages. */
  get total(): number {
    return this.#items.size
  }

  /** The list reflects all events up to this position. */
  get position(): number {
    return this.#position
  }

  /** Whether the list shows the past. After a replay has reached the present, it is a normal list. */
  get isReplaying(): boolean {
    return this.#replay !== undefined
  }

  /** The reason why the list has ended. */
  get error(): Problem | undefined {
    return this.#error
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Calls back after every change; the first, when the list is loaded, has all items. Returns a function that removes the listener. */
  onChange(listener: Listener<ListChange<T>>): () => void {
    return this.#onChanges.add((changes) => changes && listener(changes.at(this.#position)))
  }

  close(): void {
    this.#end(undefined)
  }

  /**
   * Yields the current items as `entered`, then every change. Changes that happen while the loop body runs are merged
   * into one. Ends when the list is closed.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<ListChange<T>, void> {
    let pending = this.#journal === undefined ? undefined : Changes.between([], this.#visible())
    let wake = (): void => {}
    const remove = this.#onChanges.add((changes) => {
      if (changes) pending = (pending ?? new Changes<T>()).addAll(changes)
      wake()
    })
    try {
      while (!this.#isClosed) {
        const changes = pending
        pending = undefined
        if (changes) yield changes.at(this.#position)
        else await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      remove()
    }
    if (this.#error) throw this.#error
  }

  /** @internal */
  get subscribeMessage(): Subscribe {
    const { collection, query } = this.#options
    const journal = this.#journal
    if (this.#replay)
      return { collection, query, ...this.#replay, ...(journal !== undefined && { from: this.#position }) }
    return { collection, query, ...(journal !== undefined && { after: this.#position, journal }) }
  }

  /** @internal */
  answered(answer: Subscribed): void {
    if ('error' in answer) {
      const { error, message, position, journal, eventTime } = answer
      const isReadable = error === 'TooLarge' && position !== undefined && journal !== undefined
      if (isReadable && !this.#wasReadInPages) {
        this.#items.eventTime = eventTime
        this.#subscribeAfter((signal) => this.#readInPages(position, journal, signal))
      } else if (isReadable || error === 'Busy') {
        // The server has no memory, or too much has changed since the items were read, which may happen again.
        if (isReadable) this.#wasReadInPages = false
        this.#subscribeAfter(pause)
      } else this.#end(problem(error, STATUSES[error], message))
      return
    }
    this.#wasReadInPages = false
    const { items, position, journal, reset, behind, eventTime } = answer
    if (!items) {
      this.#phase = 'catchingUp'
      return
    }
    this.#items.eventTime = eventTime
    const missed = this.#replaceItems(items as readonly JsonObject[], position, journal, reset === true)
    this.#phase = this.#replay || behind ? 'replaying' : 'live'
    this.#connection.settled(this, missed)
  }

  /** @internal */
  change(change: Change): void {
    if (this.#phase === 'catchingUp') {
      this.#missedCount++
      // Deleting first moves the item to the end.
      this.#missed.delete(String(change.id))
      this.#missed.set(String(change.id), change)
      return
    }
    if (this.#phase !== 'lagging') this.#position = change.position
    this.#apply([change])
  }

  /** @internal */
  lagging(): void {
    this.#phase = 'lagging'
  }

  /** @internal */
  current(position: number): void {
    const count = this.#takeMissed(position)
    this.#phase = 'live'
    this.#replay = undefined
    this.#connection.settled(this, count)
  }

  /** @internal */
  notified(position: number): void {
    if (this.#phase === 'live') this.#position = Math.max(this.#position, position)
  }

  /** @internal */
  disconnected(): void {
    // Changes arrive in order, so the list can resume after the last one.
    this.#takeMissed([...this.#missed.values()].at(-1)?.position ?? this.#position)
    this.#phase = 'waiting'
    this.#working?.abort()
    this.#wasReadInPages = false
  }

  /** @internal */
  refused(error: Problem): void {
    // The state of the connection says so, too.
    this.ready.catch(() => {})
    this.#settle.reject(error)
  }

  #visible(): readonly Entry<T>[] {
    const { window } = this.#options
    return this.#items.slice(window?.from, window?.to)
  }

  /** Applies the missed changes: the list reflects everything up to the position. */
  #takeMissed(position: number): number {
    const count = this.#missedCount
    const changes = [...this.#missed.values()]
    this.#missedCount = 0
    this.#missed.clear()
    this.#position = Math.max(this.#position, position)
    this.#apply(changes)
    return count
  }

  #isWanted(id: string | number): boolean {
    const { key } = this.#options
    return key === undefined || String(id) === key
  }

  #apply(all: readonly Change[]): void {
    const { window } = this.#options
    const shown = window && this.#visible()
    const changes = new Changes<T>()
    for (const { kind, id, item } of all) {
      if (!this.#isWanted(id)) continue
      const key = String(id)
      const before = this.#items.get(key)
      if (kind === 'leave') this.#items.remove(key)
      else this.#items.put(id, item as JsonObject)
      changes.add(key, before, this.#items.get(key))
    }
    this.#show(shown ? Changes.between(shown, this.#visible()) : changes)
  }

  /** Returns how many items have changed. */
  #replaceItems(items: readonly JsonObject[], position: number, journal: string, wasReset: boolean): number {
    const isFirst = this.#journal === undefined
    const isOther = !isFirst && journal !== this.#journal
    this.#journal = journal
    this.#position = position
    const wanted = items.filter((item) => this.#isWanted(this.#options.idOf(item)))
    const before = this.#visible()
    this.#items.replace(wanted)
    const changes = Changes.between(before, this.#visible(), wasReset || isOther)
    this.#show(changes, isFirst)
    this.#settle.resolve()
    return isFirst ? 0 : changes.size
  }

  #show(changes: Changes<T>, isFirst = false): void {
    if (changes.size === 0 && !isFirst) return
    this.#shown = undefined
    this.#onChanges.call(changes)
  }

  /** Reads a result that is too large for a subscription. */
  async #readInPages(position: number, journal: string, signal: AbortSignal): Promise<void> {
    const items = await this.#options.readAll(position, signal)
    signal.throwIfAborted()
    this.#replaceItems(items, position, journal, this.#journal !== undefined)
    this.#wasReadInPages = true
  }

  /** Subscribes after that, or after a pause if it fails; not when the connection or the list ends meanwhile. */
  async #subscribeAfter(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#working = new AbortController()
    const { signal } = this.#working
    try {
      await work(signal)
    } catch (error) {
      if (signal.aborted) return
      // With wrong credentials the list waits for `authenticate`, which reconnects.
      if (hasStatus(error, 401)) return this.refused(error)
      if (hasStatus(error, 403)) return this.#end(error)
      return this.#subscribeAfter((later) => pause(later, error))
    }
    this.#connection.subscribe(this)
  }

  #end(error: Problem | undefined): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#error = error
    this.#working?.abort()
    this.#connection.remove(this)
    if (!error) this.ready.catch(() => {})
    this.#settle.reject(error ?? problem('Closed', 0, 'The list was closed.'))
    this.#onChanges.call(undefined)
  }
}

export interface LiveListOptions {
  readonly collection: string
  readonly query: string
  /** Only the item with this key, whatever else the query selects. */
  readonly key?: string | undefined
  readonly sort: readonly Sort[]
  /** The places to show, the second exclusive. */
  readonly window?: { readonly from: number; readonly to: number } | undefined
  /** Selects fields of an item. */
  readonly select?: ((item: JsonObject) => JsonObject) | undefined
  /** Begins in the past and advances at this speed up to the present. */
  readonly replay?: { readonly from: number | string; readonly speed: number } | undefined
  /** The id by which changes name an item. */
  readonly idOf: (item: JsonObject) => string | number
  /** Reads all matching items at a position, for results larger than a subscription begins with. */
  readonly readAll: (position: number, signal: AbortSignal) => Promise<readonly JsonObject[]>
}
