import { parseSort } from '../json/order.ts'
import { parsePath, select, selectionOf } from '../json/paths.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'
import type { Connection } from './connection.ts'
import { LiveList, type LiveListOptions } from './live-list.ts'
import {
  type Field,
  type Filters,
  filtersOf,
  type Moment,
  queryOf,
  searchOf,
  textOf,
  type ValueAt,
  type Where,
} from './parameters.ts'
import { hasStatus, problem } from './problem.ts'
import { type CreateOptions, pathSegment, positionOf, type ReadOptions, type Requests } from './requests.ts'

/** A page of matching items. */
export interface Page<T> {
  readonly items: readonly T[]
  /** Number of matching items on all pages. */
  readonly total: number
  /** The position that the response reflects. */
  readonly position: number
  readonly etag: string | undefined
}

/** The immutable parts of a query. */
interface QueryParts {
  readonly where: Filters
  readonly sort: readonly string[]
  readonly fields: readonly string[]
  /** The parameters `_embed` and `_expand`. */
  readonly related: Filters
  readonly paging: { readonly page: number; readonly pageSize: number } | undefined
  readonly asOf: string | undefined
}

const EVERYTHING: QueryParts = { where: [], sort: [], fields: [], related: [], paging: undefined, asOf: undefined }

export interface Server {
  readonly requests: Requests
  /** Opened on first use. */
  readonly connection: Connection
  readonly idField: string
}

const FORMATS = { csv: 'text/csv', ndjson: 'application/x-ndjson', json: 'application/json' } as const

export type ExportFormat = keyof typeof FORMATS

export interface Exported {
  readonly body: ReadableStream<Uint8Array>
  /** The position that the result reflects. */
  readonly position: number
}

export interface DeleteOptions extends CreateOptions {
  /** One write, however many items are deleted; otherwise many are deleted in several, between which others write. */
  readonly atomic?: boolean
  /** Deletes nothing and returns what would be deleted. */
  readonly dryRun?: boolean
}

export interface Deleted {
  /** Number of items that were, or would be, deleted. */
  readonly deleted: number
  readonly dryRun: boolean
  /** Number of writes; 0 if nothing was written. */
  readonly writes: number
  /** Only of a whole collection: false if it stays, as others added items between several writes. */
  readonly removed?: boolean
  /** The ids of the first 1000 items, of several writes those of the first. */
  readonly ids: readonly (string | number)[]
  /** Position of the last event. */
  readonly position: number
}

/** Page size of `all`. */
const PAGE_SIZE = 5000
/** Filters of a subscription: the server's limit, with some room, as it closes the connection for longer messages. */
const SUBSCRIPTION_BYTES = 14 * 1024

/** An immutable query of a collection: every method returns a new one. */
export class Query<T extends object> {
  readonly collection: string
  protected readonly server: Server
  readonly #parts: QueryParts

  constructor(server: Server, collection: string, parts: QueryParts = EVERYTHING) {
    this.server = server
    this.collection = collection
    this.#parts = parts
  }

  /** Only items that match all filters. Filters on the same field are alternatives. */
  where(filters: Where<T>): Query<T> {
    return this.#with({ where: [...this.#parts.where, ...filtersOf(filters)] })
  }

  /** Only items with the text in any value, ignoring case. */
  q(text: string): Query<T> {
    return this.#with({ where: [...this.#parts.where, ['q', text]] })
  }

  /** `'-timestamp'`, `'timestamp_desc'` or `'mac'`; further fields order items with equal values. */
  sort(...fields: readonly (Field<T> | `-${Field<T>}` | `${Field<T>}_${'asc' | 'desc'}`)[]): Query<T> {
    return this.#with({ sort: fields })
  }

  /** Only these fields of each item. */
  fields(...fields: readonly Field<T>[]): Query<Partial<T>> {
    return this.#with({ fields }) as unknown as Query<Partial<T>>
  }

  /** Shows in each item, as an array, the items of other collections that refer to it: `embed('comments')`. */
  embed<const Name extends string>(...collections: readonly Name[]): Query<T & Readonly<Record<Name, JsonObject[]>>> {
    return this.#relating('_embed', collections) as unknown as Query<T & Readonly<Record<Name, JsonObject[]>>>
  }

  /** Shows in each item the item that it refers to by `<name>Id`: `expand('post')`. */
  expand<const Name extends string>(...names: readonly Name[]): Query<T & Readonly<Partial<Record<Name, JsonObject>>>> {
    return this.#relating('_expand', names) as unknown as Query<T & Readonly<Partial<Record<Name, JsonObject>>>>
  }

  /** Pages count from 1. */
  page(page: number, pageSize = 512): Query<T> {
    return this.#with({ paging: { page, pageSize } })
  }

  /** The state right after an event's position, or at an instant. */
  asOf(at: Moment): Query<T> {
    return this.#with({ asOf: textOf(at) })
  }

  async get(options: ReadOptions = {}): Promise<Page<T>> {
    return this.#read({}, options)
  }

  /** One row for each group of the matching items, with a column for each aggregate. */
  async aggregate<const Name extends Aggregate<T>, const Group extends Field<T> = never>(
    aggregates: readonly Name[],
    { signal, groupBy = [], ...windows }: AggregateOptions<Group> = {},
  ): Promise<Page<AggregateRow<T, Name, Group>>> {
    const page = await this.#read({ aggregate: aggregates, groupBy, ...windows }, { signal })
    return page as unknown as Page<AggregateRow<T, Name, Group>>
  }

  /** The distinct values of a field, in order. */
  async distinct(field: Field<T>, options: ReadOptions = {}): Promise<readonly JsonValue[]> {
    return (await this.#read({ distinct: field }, options)).items as unknown as readonly JsonValue[]
  }

  /** The newest item for each value of a field, by event time. */
  newestBy(field: Field<T>, options: ReadOptions = {}): Promise<Page<T>> {
    return this.#read({ newestBy: field }, options)
  }

  /** All matching items, read page by page. All pages reflect the same position. */
  async *all(options: ReadOptions = {}): AsyncGenerator<T, void> {
    let pageSize: number | undefined = PAGE_SIZE
    let asOf = this.#parts.asOf
    let read = 0
    for (let page = 1; ; page++) {
      const answer = await this.#read({ page, pageSize, asOf }, options).catch((error: unknown) => {
        if (!hasStatus(error, 400) || page > 1) throw error
        // The server's `Limits.PageSize` may be lower.
        pageSize = undefined
        return this.#read({ page, pageSize, asOf }, options)
      })
      yield* answer.items
      read += answer.items.length
      if (answer.items.length === 0 || read >= answer.total) return
      asOf = String(answer.position)
    }
  }

  /** The whole result as text, of a single position. CSV has a header row, NDJSON one item per line. */
  async export(format: ExportFormat, options: ReadOptions = {}): Promise<Exported> {
    if (this.#parts.paging) throw new TypeError('The whole result has no pages.')
    const headers = { Accept: FORMATS[format] }
    const response = await this.server.requests.stream('GET', this.#address({ all: true }), { ...options, headers })
    return { body: response.body as ReadableStream<Uint8Array>, position: positionOf(response) }
  }

  /** Deletes the items that match the filters. */
  async deleteAll(options: DeleteOptions = {}): Promise<Deleted> {
    const { where, sort, fields, related, paging, asOf } = this.#parts
    if (sort.length + fields.length + related.length > 0 || paging || asOf !== undefined) {
      throw new TypeError('What is deleted is selected by filters alone.')
    }
    // Left out, it would delete more than was meant.
    for (const [name, value] of where) if (value === undefined) throw new TypeError(`The filter ${name} is undefined.`)
    if (where.length === 0) throw new TypeError('Without filters the whole collection is deleted: that is drop().')
    return deleteItems(this.server.requests, this.path, where, options)
  }

  /**
   * A list that is kept up to date, also through lost connections and restarts of the server. Items with equal sort
   * values are ordered by `id`. Call `close()` to end it.
   */
  live(): LiveList<T> {
    return this.#list(undefined)
  }

  /**
   * A live list that begins in the past and replays the changes, 1 to 1000 times as fast. When it reaches the present
   * it continues live.
   */
  replay({ from, speed = 1 }: { readonly from: Moment; readonly speed?: number }): LiveList<T> {
    return this.#list({ from: from instanceof Date ? from.toISOString() : from, speed })
  }

  /**
   * Only the item with this key: a filter by `1.0` also selects the item 1.
   * @internal
   */
  liveItem(key: string): LiveList<T> {
    return this.#list(undefined, key)
  }

  #list(replay: LiveListOptions['replay'], key?: string): LiveList<T> {
    const { where, asOf, fields, paging, related, sort } = this.#parts
    if (related.length > 0) throw new TypeError('A live list has no embedded items.')
    if (asOf !== undefined) throw new TypeError('The past does not change: a live list has no asOf.')
    const [order, paths] = [sort.map(parseSort), fields.map(parsePath)]
    if ([...paths, ...order.map(({ path }) => path)].some(([name]) => name === '$received')) {
      throw new TypeError('Changes do not have it: a live list has no $received.')
    }
    const query = queryOf({}, where)
    if (query.length > SUBSCRIPTION_BYTES) {
      throw problem('Invalid', 400, `The filters are longer than ${SUBSCRIPTION_BYTES} bytes.`)
    }
    const selection = fields.length > 0 ? selectionOf(paths) : undefined
    return new LiveList<T>(this.server.connection, {
      collection: this.collection,
      query,
      key,
      sort: order,
      window: paging && { from: (paging.page - 1) * paging.pageSize, to: paging.page * paging.pageSize },
      select: selection && ((item) => select(item, selection)),
      replay,
      idOf: (item) => item[this.server.idField] as string | number,
      readAll: async (position, signal) => {
        const all = new Query<JsonObject>(this.server, this.collection, { ...EVERYTHING, where })
        const items: JsonObject[] = []
        for await (const item of all.asOf(position).all({ signal })) items.push(item)
        return items
      },
    })
  }

  /** @internal */
  get identity(): readonly [Server, string] {
    return [this.server, JSON.stringify([this.collection, this.#parts])]
  }

  /** `others` are parameters besides the parts of the query, or in place of them. */
  async #read(others: object, options: ReadOptions): Promise<Page<T>> {
    const response = await this.server.requests.send('GET', this.#address(others), options)
    const body = response.json() as T[] | { readonly results: T[] }
    return {
      // With Api.UseResultObject a page is an object.
      items: Array.isArray(body) ? body : body.results,
      total: Number(response.headers.get('X-Total-Count')),
      position: response.position,
      etag: response.etag,
    }
  }

  protected get path(): string {
    return `/api/${pathSegment(this.collection)}`
  }

  #address(others: object): string {
    const { where, related, sort, fields, asOf, paging } = this.#parts
    return this.path + searchOf({ sort, fields, asOf, ...paging, ...others }, [...where, ...related])
  }

  #relating(name: '_embed' | '_expand', values: readonly string[]): Query<T> {
    const added = values.map((value) => [name, value] as const)
    return this.#with({ related: [...this.#parts.related, ...added] })
  }

  #with(parts: Partial<QueryParts>): Query<T> {
    return new Query<T>(this.server, this.collection, { ...this.#parts, ...parts })
  }
}

/** Deletes the items at a path that match the filters; with `all=true` instead, the collection. */
export async function deleteItems(
  requests: Requests,
  path: string,
  filters: Filters,
  { dryRun = false, atomic = false, ...options }: DeleteOptions,
): Promise<Deleted> {
  const address = path + searchOf({ dryRun: dryRun || undefined }, filters)
  const response = await requests.write('DELETE', address, undefined, options, atomic ? 'atomic' : undefined)
  return { ...(response.json() as Omit<Deleted, 'position'>), position: response.position }
}

/** A column of an aggregate: `count`, or a function of a field; with ` as ` and a name, of that name. */
export type Aggregate<T> = Column<T> | `${Column<T>} as ${string}`

type Column<T> = 'count' | `${NumberFunction | 'min' | 'max' | 'first' | 'last' | 'count'}(${Field<T>})`

/** Functions that give a number, or null without numbers. */
type NumberFunction = 'avg' | 'sum' | 'stddev' | 'delta' | `p${number}`

/** One row: its columns, the fields that it is grouped by, and `window`. */
export type AggregateRow<T, Name extends string, Group extends string = never> = JsonObject & {
  readonly [Requested in Name as NameOf<Requested>]: ValueOf<Requested>
} & { readonly [Path in Group]: GroupValue<ValueAt<T, Path>, Path> }

/** Items without the field are a group of their own, whose value is null. An array is grouped by one element. */
type GroupValue<V, Path extends string> = unknown extends V
  ? JsonValue
  : Grouped<Exclude<V, undefined>> | (undefined extends V ? null : Path extends `${string}.${string}` ? null : never)

type Grouped<V> = V extends readonly (infer Element)[] ? Element | null : V

type NameOf<Requested extends string> = Requested extends `${string} as ${infer Alias}` ? Alias : Requested

type ValueOf<Requested extends string> = Requested extends 'count' | `count(${string}` | `count as ${string}`
  ? number
  : Requested extends `${NumberFunction}(${string}`
    ? number | null
    : JsonValue

export interface AggregateOptions<Group extends string = string> {
  readonly groupBy?: readonly Group[]
  /** Such as `15m`, `1h`, `1d`, `1mo` or `1y`. */
  readonly window?: string
  /** The time zone of the windows, such as `Europe/Helsinki` or `+02:00`. */
  readonly tz?: string
  readonly fill?: 'none' | 'null' | 'previous'
  readonly signal?: AbortSignal
}
