import { type EventsFilter, eventsOf, type RecordedEvent } from './events.ts'
import { type Moment, momentOf } from './parameters.ts'
import { Problem } from './problem.ts'
import { type Deleted, type DeleteOptions, deleted, Query } from './query.ts'
import { type Method, positionOf, type Requests, segment } from './requests.ts'

/** An item with its metadata. */
export interface Read<T> {
  readonly item: T
  readonly position: number
  /** For `ifMatch`. */
  readonly etag: string
}

export interface Written {
  /** Position of the event. */
  readonly position: number
  /** Tag of the item after the write; undefined after a deletion. */
  readonly etag: string | undefined
}

export interface Created extends Written {
  readonly id: string | number
}

export interface WriteOptions {
  /** Writes only if the item still has this tag; otherwise a `Problem` with status 412 is thrown. */
  readonly ifMatch?: string
  /** A write that is sent again with the same key is executed once. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

export type CreateOptions = Pick<WriteOptions, 'idempotencyKey' | 'signal'>

export interface CreatedAll {
  /** In the order of the items. */
  readonly ids: readonly (string | number)[]
  /** Position of the last event. */
  readonly position: number
}

export interface CreatedEach {
  readonly results: readonly BatchResult[]
  readonly position: number
}

/** The result for one item of a batch. */
export type BatchResult =
  | { readonly status: 'created'; readonly id: string | number }
  | { readonly status: 'rejected'; readonly problem: Problem }

type AnsweredResult =
  | Extract<BatchResult, { status: 'created' }>
  | { readonly status: 'rejected'; readonly problem: ConstructorParameters<typeof Problem>[0] }

function resultOf(answered: AnsweredResult): BatchResult {
  return answered.status === 'created' ? answered : { status: 'rejected', problem: new Problem(answered.problem) }
}

type ItemId = string | number
type HistoryFilter = Omit<EventsFilter, 'collection' | 'id'>

/** A collection, which need not exist yet. */
export class Collection<T extends object> extends Query<T> {
  /** The server assigns the id, and creates the collection if it does not exist. */
  async create(item: Omit<T, 'id'>, options: CreateOptions = {}): Promise<Created> {
    const path = `/api/${segment(this.collection)}`
    const response = await this.server.requests.send('POST', path, { body: item, ...asked(options) })
    const { id } = (await response.json()) as { id: ItemId }
    return { id, ...written(response) }
  }

  /** Creates all items in one write, or none: the `Problem` names the rejected item. */
  async createAll(items: readonly Omit<T, 'id'>[], options: CreateOptions = {}): Promise<CreatedAll> {
    const response = await this.#post(items, options)
    const { ids } = (await response.json()) as { ids: readonly ItemId[] }
    return { ids, position: positionOf(response) }
  }

  /** Creates the valid items in one write. Returns a result for each item, in order. */
  async createEach(items: readonly Omit<T, 'id'>[], options: CreateOptions = {}): Promise<CreatedEach> {
    const response = await this.#post(items, options, 'handling=lenient')
    const { results } = (await response.json()) as { results: readonly AnsweredResult[] }
    return { results: results.map(resultOf), position: positionOf(response) }
  }

  /** Creates the collection if it does not exist. */
  async createEmpty(options: CreateOptions = {}): Promise<Pick<Written, 'position'>> {
    const response = await this.server.requests.send('PUT', `/api/${segment(this.collection)}`, asked(options))
    return { position: positionOf(response) }
  }

  /** Deletes the collection with all its items. Requires the role admin. */
  drop(options: DeleteOptions = {}): Promise<Deleted> {
    return deleted(this.server.requests, this.collection, new URLSearchParams(), options)
  }

  item(id: ItemId): Item<T> {
    return new Item<T>(this.server.requests, this.collection, id)
  }

  /** All events of the collection and its items, oldest first. */
  history(filter: HistoryFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.server.requests, { ...filter, collection: this.collection })
  }

  #post(items: readonly unknown[], options: CreateOptions, preference?: string): Promise<Response> {
    const { headers, ...rest } = asked(options)
    return this.server.requests.send('POST', `/api/${segment(this.collection)}`, {
      body: items,
      headers: { ...headers, Prefer: preference },
      ...rest,
    })
  }
}

/** An item, which need not exist. */
export class Item<T extends object> {
  readonly collection: string
  readonly id: ItemId
  readonly #requests: Requests
  readonly #asOf: string | undefined

  constructor(requests: Requests, collection: string, id: ItemId, asOf?: string) {
    this.#requests = requests
    this.collection = collection
    this.id = id
    this.#asOf = asOf
  }

  /** The item at an earlier moment, read-only. */
  asOf(at: Moment): Pick<Item<T>, 'get' | 'id' | 'collection'> {
    return new Item<T>(this.#requests, this.collection, this.id, momentOf(at))
  }

  async get(options: { readonly signal?: AbortSignal } = {}): Promise<Read<T>> {
    const search = this.#asOf === undefined ? '' : `?asOf=${encodeURIComponent(this.#asOf)}`
    const response = await this.#requests.send('GET', this.path + search, options)
    return {
      item: (await response.json()) as T,
      position: positionOf(response),
      etag: response.headers.get('ETag') ?? '',
    }
  }

  /**
   * Replaces the item. If it does not exist, the server creates it (setting `Api.UpsertOnPut`) or responds with 404.
   */
  replace(item: T, options: WriteOptions = {}): Promise<Written> {
    return this.#write('PUT', item, options)
  }

  /** Applies a merge patch (RFC 7396) or a JSON Patch (RFC 6902). */
  patch(patch: Patch<T> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    const type = Array.isArray(patch) ? 'application/json-patch+json' : 'application/merge-patch+json'
    return this.#write('PATCH', patch, options, { 'Content-Type': type })
  }

  delete(options: WriteOptions = {}): Promise<Written> {
    return this.#write('DELETE', undefined, options)
  }

  /** All events of the item, oldest first, including deletions. */
  history(filter: HistoryFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.#requests, { ...filter, collection: this.collection, id: this.id })
  }

  protected get path(): string {
    return `/api/${segment(this.collection)}/${segment(String(this.id))}`
  }

  async #write(method: Method, body: unknown, options: WriteOptions, headers = {}): Promise<Written> {
    const { signal, headers: conditions } = asked(options)
    const response = await this.#requests.send(method, this.path, {
      headers: { ...headers, ...conditions },
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    })
    return written(response)
  }
}

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

function asked({ ifMatch, idempotencyKey, signal }: WriteOptions) {
  return {
    headers: { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey },
    ...(signal && { signal }),
  }
}

function written(response: Response): Written {
  return { position: positionOf(response), etag: response.headers.get('ETag') ?? undefined }
}
