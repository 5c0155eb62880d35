import type { JsonObject } from '../json/value.ts'
import { type EventsFilter, eventsOf, type RecordedEvent } from './events.ts'
import { LiveList } from './live-list.ts'
import { type Moment, searchOf, type Where } from './parameters.ts'
import { Problem } from './problem.ts'
import { Query, type Server } from './query.ts'
import { journalPosition, pathSegment, type ReadOptions, type ReadResponse } from './requests.ts'
import {
  type Deleted,
  type DeleteOptions,
  deleteItems,
  InnerValue,
  type Patch,
  type PatchOperation,
  type WriteOptions,
  type Written,
  write,
  written,
} from './writes.ts'

/** An item with its metadata. */
export interface Read<T> {
  readonly item: T
  readonly position: number
  /** For `ifMatch`. */
  readonly etag: string
}

export interface Created<Id = ItemId> extends Written {
  readonly id: Id
}

export type CreateOptions = Pick<WriteOptions, 'idempotencyKey' | 'signal'>

export interface CreatedAll<Id = ItemId> {
  /** In the order of the items. */
  readonly ids: readonly Id[]
  /** Position of the last event. */
  readonly position: number
}

export interface CreatedEach {
  readonly results: readonly BatchResult[]
  readonly position: number
}

/** The result for one item of a batch. */
export type BatchResult =
  /** Where the collection has a natural key: it took the place of the item that has the same one, or equals it. */
  | { readonly status: 'created' | 'replaced' | 'duplicate'; readonly id: string | number }
  | { readonly status: 'rejected'; readonly problem: Problem }

type ItemId = string | number
/** The type of the ids of items of the type T: that of their member `id`. Which other field is the id, the type does not know. */
type IdOf<T> = T extends { readonly id?: infer V } ? (unknown extends V ? ItemId : Extract<V, ItemId>) : ItemId
type HistoryFilter = Omit<EventsFilter, 'collection' | 'id'>

/** A collection, which need not exist yet. */
export class Collection<T extends object> extends Query<T> {
  /** The server assigns the id, and creates the collection if it does not exist. */
  async create(item: Omit<T, 'id'>, options: CreateOptions = {}): Promise<Created<IdOf<T>>> {
    const response = await this.#post(item, options)
    const created = response.json() as Readonly<Record<string, ItemId>>
    return { id: created[this.server.idField] as IdOf<T>, ...written(response) }
  }

  /** Creates all items in one write, or none: the `Problem` names the rejected item. */
  async createAll(items: readonly Omit<T, 'id'>[], options: CreateOptions = {}): Promise<CreatedAll<IdOf<T>>> {
    const response = await this.#post(items, options)
    const { ids } = response.json() as { ids: readonly IdOf<T>[] }
    return { ids, position: journalPosition(response) }
  }

  /** Creates the valid items in one write. Returns a result for each item, in order. */
  async createEach(items: readonly Omit<T, 'id'>[], options: CreateOptions = {}): Promise<CreatedEach> {
    const response = await this.#post(items, options, 'handling=lenient')
    const { results } = response.json() as { results: readonly SentResult[] }
    return { results: results.map(batchResult), position: journalPosition(response) }
  }

  /** Creates the collection if it does not exist. */
  async createEmpty(options: CreateOptions = {}): Promise<Pick<Written, 'position'>> {
    return { position: journalPosition(await write(this.server.requests, 'PUT', this.#path, undefined, options)) }
  }

  /** Deletes the collection with all its items. Requires the role admin. */
  drop(options: DeleteOptions = {}): Promise<Deleted> {
    return deleteItems(this.server.requests, this.collection, [['all', 'true']], options)
  }

  item(id: ItemId): Item<T> {
    return new Item<T>(this.server, this.collection, id)
  }

  /** All events of the collection and its items, oldest first. */
  history(filter: HistoryFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.server.requests, { ...filter, collection: this.collection })
  }

  #post(body: unknown, options: CreateOptions, prefer?: string): Promise<ReadResponse> {
    return write(this.server.requests, 'POST', this.#path, body, options, prefer)
  }

  get #path(): string {
    return `/api/${pathSegment(this.collection)}`
  }
}

type SentResult =
  | Extract<BatchResult, { status: 'created' | 'replaced' | 'duplicate' }>
  | { readonly status: 'rejected'; readonly problem: ConstructorParameters<typeof Problem>[0] }

function batchResult(sent: SentResult): BatchResult {
  return sent.status === 'rejected' ? { status: 'rejected', problem: new Problem(sent.problem) } : sent
}

/** An item, which need not exist. */
export class Item<T extends object> {
  readonly collection: string
  readonly id: ItemId
  protected readonly server: Server

  constructor(server: Server, collection: string, id: ItemId) {
    this.server = server
    this.collection = collection
    this.id = id
  }

  /** The item at an earlier moment, read-only. */
  asOf(at: Moment): Pick<Item<T>, 'get' | 'id' | 'collection'> {
    const { id, collection } = this
    return { id, collection, get: (options) => this.#read(at, options) }
  }

  get(options: ReadOptions = {}): Promise<Read<T>> {
    return this.#read(undefined, options)
  }

  async #read(asOf: Moment | undefined, options?: ReadOptions): Promise<Read<T>> {
    const response = await this.server.requests.send('GET', this.path + searchOf({ asOf }), options)
    return {
      item: response.json() as T,
      position: journalPosition(response),
      etag: response.headers.get('ETag') ?? '',
    }
  }

  /** Replaces the item. If it does not exist, it is created (setting `Api.UpsertOnPut`), or the response is 404. */
  async replace(item: T, options: WriteOptions = {}): Promise<Written> {
    return written(await write(this.server.requests, 'PUT', this.path, item, options))
  }

  /** The same, unless the item has the same event time or a later one. The server ignores that where the collection has no `Time`. */
  async replaceIfNewer(item: T, options: WriteOptions = {}): Promise<Written & { readonly isApplied: boolean }> {
    const response = await write(this.server.requests, 'PUT', this.path, item, options, 'only-if-newer')
    return { ...written(response), isApplied: response.status !== 200 }
  }

  /** Applies a merge patch (RFC 7396) or a JSON Patch (RFC 6902). */
  async patch(patch: Patch<T> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    return written(await write(this.server.requests, 'PATCH', this.path, patch, options))
  }

  async delete(options: WriteOptions = {}): Promise<Written> {
    return written(await write(this.server.requests, 'DELETE', this.path, undefined, options))
  }

  /** A value inside the item: segments are names of members, and of an array the `id` of an element, or its index where no element has one. */
  at<V = unknown>(...segments: readonly [string | number, ...(string | number)[]]): InnerValue<V> {
    return new InnerValue<V>(
      this.server.requests,
      [this.path, ...segments.map((one) => pathSegment(String(one)))].join('/'),
    )
  }

  /** All events of the item, oldest first, including deletions. */
  history(filter: HistoryFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.server.requests, { ...filter, collection: this.collection, id: this.id })
  }

  /** A list that contains the item while it exists. Call `close()` to end it. */
  live(): LiveList<T> {
    // The name of the field may end like an operator.
    const filter = { [`${this.server.idField}_eq`]: this.id }
    return new Query<T>(this.server, this.collection).where(filter as Where<T>).liveItem(String(this.id))
  }

  /** @internal */
  get identity(): readonly [Server, string] {
    return [this.server, JSON.stringify([this.collection, String(this.id)])]
  }

  protected get path(): string {
    return `/api/${pathSegment(this.collection)}/${pathSegment(String(this.id))}`
  }
}

/** The id in events and changes. Items of lists never have an empty id. */
const OBJECT_ID = ''

/** A single object, which need not exist. It is read and written like an item. */
export class SingleObject<T extends object> extends Item<T> {
  constructor(server: Server, name: string) {
    super(server, name, OBJECT_ID)
  }

  /** A list that contains the object while it exists. Call `close()` to end it. */
  override live(): LiveList<T> {
    return new LiveList<T>(this.server.connection, {
      collection: this.collection,
      query: '',
      sort: [],
      window: undefined,
      select: undefined,
      replay: undefined,
      idOf: () => OBJECT_ID,
      readAll: async (position, signal) => {
        try {
          return [(await this.asOf(position).get({ signal })).item as JsonObject]
        } catch (error) {
          if (error instanceof Problem && error.status === 404) return []
          throw error
        }
      },
    })
  }

  protected override get path(): string {
    return `/api/${pathSegment(this.collection)}`
  }
}
