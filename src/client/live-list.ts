import type { Sort } from '../json/order.ts'
import { equal, type JsonObject, type JsonValue } from '../json/value.ts'
import type { Change, Subscribe, Subscribed } from '../sockets/protocol.ts'
import { Changes, type ListChange } from './changes.ts'
import type { Connection, Subscriber } from './connection.ts'
import { type Listener, Listeners } from './listeners.ts'
import { pause } from './pause.ts'
import { Problem, problem } from './problem.ts'
import { type Entry, SortedItems } from './sorted-items.ts'

export interface LiveListOptions {
  readonly collection: string
  readonly query: string
  readonly sort: readonly Sort[]
  /** Only the items of these places, the second exclusive. */
  readonly window: { readonly from: number; readonly to: number } | undefined
  /** What is shown of an item. */
  readonly select: ((item: JsonObject) => JsonObject) | undefined
  /** All that matches at a position, when it is more than a subscription begins with. */
  readonly readAll: (position: number, signal: AbortSignal) => Promise<readonly JsonObject[]>
}

const RETRY_MS = 1000

/** A list of the items that match a query, kept right until it is closed. */
export class LiveList<T extends object> implements AsyncIterable<ListChange<T>>, Subscriber {
  /** Resolved when the list is right for the first time; rejected when the server will not have it, or it is closed before. */
  readonly ready: Promise<void>
  readonly #items: SortedItems<T>
  readonly #options: LiveListOptions
  readonly #connection: Connection
  readonly #onChange = new Listeners<ListChange<T>>()
  readonly #onChanges = new Listeners<Changes<T>>()
  readonly #onEnd = new Listeners<void>()
  readonly #settle: { resolve(): void; reject(error: unknown): void }
  #shown: readonly T[] | undefined
  #isReady = false
  #error: Problem | undefined
  #isClosed = false
  /** Where to go on from: the journal's UUID, and the position up to which everything is in the list. */
  #journal: string | undefined
  #position = 0
  /** Whether every change comes as it happens; else what comes is not yet all up to its position. */
  #isLive = false
  /** What was missed, while it comes in: the last change of each item, and how many there were. */
  #missed: { readonly changes: Map<string, Change>; count: number } | undefined
  #reading: AbortController | undefined

  constructor(connection: Connection, options: LiveListOptions) {
    this.#connection = connection
    this.#options = options
    this.#items = new SortedItems<T>(options.sort, (item) => (options.select?.(item) ?? item) as T)
    let settle: { resolve(): void; reject(error: unknown): void } | undefined
    this.ready = new Promise((resolve, reject) => {
      settle = { resolve, reject }
    })
    this.#settle = settle as NonNullable<typeof settle>
    connection.add(this)
  }

  /** In their order. Another array whenever something changed, and the same one until then. */
  get items(): readonly T[] {
    this.#shown ??= this.#visible().map(({ item }) => item)
    return this.#shown
  }

  /** How many match, on all pages. */
  get total(): number {
    return this.#items.size
  }

  /** Everything up to here is in the list. */
  get position(): number {
    return this.#position
  }

  /** Why there is no list and will be none. */
  get error(): Problem | undefined {
    return this.#error
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Calls after every change, the first time with all items. Returns what ends it. */
  onChange(listener: Listener<ListChange<T>>): () => void {
    return this.#onChange.add(listener)
  }

  close(): void {
    this.#end(undefined)
  }

  /**
   * First the items that are there, as `entered`, then every change. To whoever takes long over one, what happened
   * meanwhile comes as one. Ends when the list is closed.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<ListChange<T>, void> {
    await this.ready.catch(() => {})
    let wake = (): void => {}
    let waiting: Changes<T> | undefined = new Changes<T>()
    for (const { key, item } of this.#visible()) waiting.add(key, undefined, item)
    const ends = [
      this.#onChanges.add((changes) => {
        waiting ??= new Changes()
        waiting.addAll(changes)
        wake()
      }),
      this.#onEnd.add(() => wake()),
    ]
    try {
      while (!this.#isClosed) {
        if (waiting) {
          const told: ListChange<T> = waiting.at(this.#position)
          waiting = undefined
          yield told
        } else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      for (const end of ends) end()
    }
    if (this.#error) throw this.#error
  }

  /** @internal */
  get wanted(): Subscribe {
    const { collection, query } = this.#options
    return { collection, query, ...(this.#journal !== undefined && { after: this.#position, journal: this.#journal }) }
  }

  /** @internal */
  answered(answer: Subscribed): void {
    if ('error' in answer) {
      const { error, message, position, journal } = answer
      if (error === 'TooLarge' && position !== undefined && journal !== undefined) this.#read(position, journal)
      else this.#end(problem(error, error === 'TooMany' ? 429 : 400, message))
      return
    }
    if (!answer.items) {
      this.#missed = { changes: new Map(), count: 0 }
      return
    }
    const missed = this.#load(answer.items as readonly JsonObject[], answer.position, answer.journal)
    this.#isLive = true
    this.#connection.settled(this, missed)
  }

  /** @internal */
  change(change: Change): void {
    if (this.#missed) {
      this.#missed.count++
      this.#missed.changes.set(String(change.id), change)
      return
    }
    if (this.#isLive) this.#position = change.position
    this.#apply([change])
  }

  /** @internal */
  lagging(): void {
    this.#isLive = false
  }

  /** @internal */
  current(position: number): void {
    const count = this.#takeMissed()
    this.#position = Math.max(this.#position, position)
    this.#isLive = true
    this.#connection.settled(this, count)
  }

  /** @internal */
  told(position: number): void {
    if (this.#isLive) this.#position = Math.max(this.#position, position)
  }

  /** @internal */
  disconnected(): void {
    // What came in came in order, so that the rest can be asked for from there.
    const last = this.#missed && Math.max(...Array.from(this.#missed.changes.values(), ({ position }) => position))
    this.#takeMissed()
    if (last !== undefined) this.#position = Math.max(this.#position, last)
    this.#isLive = false
    this.#reading?.abort()
    this.#reading = undefined
  }

  /** @internal */
  ended(): void {
    this.#end(undefined)
  }

  #visible(): readonly Entry<T>[] {
    const { window } = this.#options
    return this.#items.slice(window?.from, window?.to)
  }

  #takeMissed(): number {
    const missed = this.#missed
    this.#missed = undefined
    if (!missed) return 0
    this.#apply([...missed.changes.values()])
    return missed.count
  }

  #apply(those: readonly Change[]): void {
    if (those.length === 0) return
    const put = (): void => {
      for (const { kind, id, item } of those) {
        if (kind === 'leave') this.#items.remove(String(id))
        else this.#items.put(id, item as JsonObject)
      }
    }
    if (this.#options.window) {
      this.#tell(this.#differences(put, false))
      return
    }
    const keys = those.map(({ id }) => String(id))
    const before = keys.map((key) => this.#items.get(key)?.item)
    put()
    const changes = new Changes<T>()
    for (const [index, key] of keys.entries()) changes.add(key, before[index], this.#items.get(key)?.item)
    this.#tell(changes)
  }

  /** Returns how many items are other ones than before. */
  #load(items: readonly JsonObject[], position: number, journal: string): number {
    const isFirst = this.#journal === undefined
    this.#journal = journal
    this.#position = position
    const changes = this.#differences(() => this.#items.replace(items), !isFirst)
    this.#tell(changes)
    return changes.size
  }

  #differences(change: () => void, wasReset: boolean): Changes<T> {
    const before = new Map(this.#visible().map(({ key, item }) => [key, item]))
    change()
    const changes = new Changes<T>(wasReset)
    for (const { key, item } of this.#visible()) {
      const was = before.get(key)
      before.delete(key)
      const isSame = was === item || (wasReset && equal(was as JsonValue | undefined, item as JsonValue))
      if (!isSame) changes.add(key, was, item)
    }
    for (const [key, item] of before) changes.add(key, item, undefined)
    return changes
  }

  #tell(changes: Changes<T>): void {
    if (this.#isReady && changes.size === 0) return
    this.#shown = undefined
    this.#onChange.tell(changes.at(this.#position))
    this.#onChanges.tell(changes)
    if (this.#isReady) return
    this.#isReady = true
    this.#settle.resolve()
  }

  /** Reads what is too much to come at once, then goes on after it; again, where that fails. */
  async #read(position: number, journal: string): Promise<void> {
    const reading = new AbortController()
    this.#reading = reading
    const { signal } = reading
    try {
      const items = await this.#options.readAll(position, signal)
      if (signal.aborted) return
      this.#load(items, position, journal)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) return this.#end(error)
      try {
        await pause(RETRY_MS, signal)
      } catch {
        return
      }
    }
    this.#connection.subscribe(this)
  }

  #end(error: Problem | undefined): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#error = error
    this.#reading?.abort()
    this.#connection.remove(this)
    if (!error) this.ready.catch(() => {})
    this.#settle.reject(error ?? problem('Closed', 0, 'The list was closed.'))
    this.#onEnd.tell()
    this.#onChange.clear()
  }
}
