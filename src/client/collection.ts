import type { JsonObject } from '../json/value.ts'
import { type EventsFilter, eventsOf, type RecordedEvent } from './events.ts'
import { LiveList } from './live-list.ts'
import { type Moment, searchOf, type Where } from './parameters.ts'
import { hasStatus, Problem } from './problem.ts'
import { type Deleted, type DeleteOptions, deleteItems, Query, type Server } from './query.ts'
import {
  type CreateOptions,
  pathSegment,
  type ReadOptions,
  type ReadResponse,
  type Requests,
  type WriteOptions,
  type Written,
} from './requests.ts'

/** A merge patch: `null` removes a member, objects are merged, other values replace. */
export type Patch<T> = {
  readonly [name in keyof T]?: (T[name] extends object ? Patch<T[name]> | T[name] : T[name]) | null
}

export interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy' | 'test'
  readonly path: string
  readonly from?: string
  readonly value?: unknown
}

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
    return { ids, position: response.position }
  }

  /** Creates the valid items in one write. Returns a result for each item, in order. */
  async createEach(items: readonly Omit<T, 'id'>[], options: CreateOptions = {}): Promise<CreatedEach> {
    const response = await this.#post(items, options, 'handling=lenient')
    const { results } = response.json() as { results: readonly BatchResult[] }
    const read = (one: BatchResult): BatchResult =>
      one.status === 'rejected' ? { status: 'rejected', problem: new Problem(one.problem) } : one
    return { results: results.map(read), position: response.position }
  }

  /** Creates the collection if it does not exist. */
  async createEmpty(options: CreateOptions = {}): Promise<Pick<Written, 'position'>> {
    const { position } = await this.server.requests.write('PUT', this.path, undefined, options)
    return { position }
  }

  /** Deletes the collection with all its items. Requires the role admin. */
  drop(options: DeleteOptions = {}): Promise<Deleted> {
    return deleteItems(this.server.requests, this.path, [['all', 'true']], options)
  }

  item(id: ItemId): Item<T> {
    return new Item<T>(this.server, this.collection, id)
  }

  /** All events of the collection and its items, oldest first. */
  history(filter: HistoryFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.server.requests, { ...filter, collection: this.collection })
  }

  #post(body: unknown, options: CreateOptions, prefer?: string): Promise<ReadResponse> {
    return this.server.requests.write('POST', this.path, body, options, prefer)
  }
}

/** The position and the tag of a write. */
function written({ position, etag }: ReadResponse): Written {
  return { position, etag }
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
    return { item: response.json() as T, position: response.position, etag: response.etag ?? '' }
  }

  /** Replaces the item. If it does not exist, it is created (setting `Api.UpsertOnPut`), or the response is 404. */
  async replace(item: T, options: WriteOptions = {}): Promise<Written> {
    return written(await this.server.requests.write('PUT', this.path, item, options))
  }

  /** The same, unless the item has the same event time or a later one. The server ignores that where the collection has no `Time`. */
  async replaceIfNewer(item: T, options: WriteOptions = {}): Promise<Written & { readonly isApplied: boolean }> {
    const response = await this.server.requests.write('PUT', this.path, item, options, 'only-if-newer')
    return { ...written(response), isApplied: response.status !== 200 }
  }

  /** Applies a merge patch (RFC 7396) or a JSON Patch (RFC 6902). */
  async patch(patch: Patch<T> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    return written(await this.server.requests.write('PATCH', this.path, patch, options))
  }

  async delete(options: WriteOptions = {}): Promise<Written> {
    return written(await this.server.requests.write('DELETE', this.path, undefined, options))
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
      idOf: () => OBJECT_ID,
      readAll: async (position, signal) => {
        try {
          return [(await this.asOf(position).get({ signal })).item as JsonObject]
        } catch (error) {
          if (hasStatus(error, 404)) return []
          throw error
        }
      },
    })
  }

  protected override get path(): string {
    return `/api/${pathSegment(this.collection)}`
  }
}

/** A value inside an item; there need not be one. */
export class InnerValue<V> {
  readonly #requests: Requests
  readonly #path: string

  constructor(requests: Requests, path: string) {
    this.#requests = requests
    this.#path = path
  }

  async get(options: ReadOptions = {}) {
    const response = await this.#requests.send('GET', this.#path, options)
    return { value: response.json() as V, position: response.position, etag: response.etag ?? '' }
  }

  /** Puts another value in its place. `etag` of the answer and `ifMatch` are of this value; that of the item matches, too. */
  async replace(value: V, options: WriteOptions = {}): Promise<Written> {
    return written(await this.#requests.write('PUT', this.#path, value, options))
  }

  /** A merge patch (RFC 7396), by which anything but an object replaces the value, or the operations of a JSON Patch (RFC 6902), whose pointers begin at this value. */
  async patch(patch: Patch<V> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    return written(await this.#requests.write('PATCH', this.#path, patch, options))
  }
}
