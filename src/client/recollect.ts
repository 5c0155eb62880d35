import type { Updated } from '../sockets/protocol.ts'
import { Collection, SingleObject } from './collection.ts'
import { Connection, type ConnectionState, type Listener, type StateChange } from './connection.ts'
import type { Credentials, Session } from './credentials.ts'
import {
  type EventCount,
  type EventCountsOptions,
  type EventPage,
  type EventPageFilter,
  type EventsFilter,
  eventsOf,
  linesOf,
  type RecordedEvent,
} from './events.ts'
import { type Moment, searchOf } from './parameters.ts'
import type { Server } from './query.ts'
import {
  type BrowserCredentials,
  type Fetch,
  type Method,
  type ReadResponse,
  type RequestOptions,
  Requests,
} from './requests.ts'

export interface ConnectOptions extends Credentials {
  /** Default: `omit` if the client has credentials, otherwise `same-origin`. */
  readonly browserCredentials?: BrowserCredentials
  /** The field of an item that is its id, as the server's `DataStore.IdField`; default: `id`. */
  readonly idField?: string
  /** Sends the requests in place of the global `fetch`. */
  readonly fetch?: Fetch
}

export interface Health {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly position: number
  /** In seconds. */
  readonly uptime: number
  readonly version: string
  readonly readOnly: boolean
  readonly idField: string
  readonly journal: { readonly id: string; readonly [name: string]: unknown }
  /** By collection, the field of the event time. */
  readonly eventTime?: Readonly<Record<string, string>>
  /** The identity and role of the client, and the schemes by which it may sign in. */
  readonly access: {
    readonly schemes: readonly ('token' | 'basic' | 'apikey')[]
    readonly actor: string | null
    readonly role: 'reader' | 'writer' | 'admin' | null
  }
  /** Only of a server that replays the past. */
  readonly replay?: { readonly speed: number; readonly from: number; readonly until: number; readonly time: string }
  readonly [name: string]: unknown
}

export interface RestoreRequest {
  readonly to: Moment
  /** Default: all collections. */
  readonly collection?: string
  /** Default: all items of the collection. */
  readonly id?: string | number
  /** Returns what would change, and changes nothing. */
  readonly dryRun?: boolean
  /** Rejects with a `Problem` of status 412 if something that would change has changed since this position. */
  readonly ifUnchangedSince?: number
}

export interface Restored {
  readonly position: number
  readonly dryRun: boolean
  readonly events: number
  /** The first thousand changes. */
  readonly changes: readonly { readonly type: string; readonly collection: string; readonly id?: string | number }[]
}

export interface Replaced {
  readonly position: number
  readonly dryRun: boolean
  readonly events: number
  /** Items and single objects. */
  readonly created: number
  readonly replaced: number
  readonly deleted: number
}

/** How far a check of the journal has come; the last one says how it ended. */
export interface VerifyProgress {
  /** Everything up to this position is intact. */
  readonly position: number
  /** The position that ends the check. */
  readonly of?: number
  readonly ok?: boolean
  /** The damage and its place. */
  readonly problem?: string
}

/** A client of one server. Opens its connection on first use. */
export class Recollect {
  readonly url: string
  readonly #requests: Requests
  readonly #connection: Connection
  readonly #server: Server
  /** Counts the times that credentials were set, or are about to be. */
  #changes = 0

  constructor(url: string, { browserCredentials, idField = 'id', fetch, ...credentials }: ConnectOptions) {
    const { origin, pathname } = new URL(url)
    this.url = origin + pathname.replace(/\/+$/, '')
    this.#requests = new Requests(this.url, credentials, browserCredentials, fetch)
    this.#connection = new Connection(this.url, () => this.#requests.session, browserCredentials === 'include')
    this.#server = { requests: this.#requests, connection: this.#connection, idField }
  }

  collection<T extends object = Record<string, unknown>>(name: string): Collection<T> {
    return new Collection<T>(this.#server, name)
  }

  /** A single object of the data file, such as `{"profile": {"name": "Ada"}}`. */
  object<T extends object = Record<string, unknown>>(name: string): SingleObject<T> {
    return new SingleObject<T>(this.#server, name)
  }

  /** The names of collections and single objects, now or at an earlier moment. */
  async collections({ asOf }: { readonly asOf?: Moment } = {}): Promise<readonly string[]> {
    return (await this.#requests.send('GET', `/api${searchOf({ asOf })}`)).json() as string[]
  }

  /** The number of items of each collection by its name, now or at an earlier moment; null for a single object. */
  async counts({ asOf }: { readonly asOf?: Moment } = {}): Promise<Readonly<Record<string, number | null>>> {
    const response = await this.#requests.send('GET', `/api${searchOf({ count: true, asOf })}`)
    return response.json() as Record<string, number | null>
  }

  /** The journal's events, oldest first; with `follow` also new ones. */
  events<T = Readonly<Record<string, unknown>>>(filter: EventsFilter = {}): AsyncGenerator<RecordedEvent<T>, void> {
    return eventsOf<T>(this.#requests, filter)
  }

  /** A page of the journal's events. */
  async eventPage<T = Readonly<Record<string, unknown>>>({
    signal,
    ...filter
  }: EventPageFilter = {}): Promise<EventPage<T>> {
    const response = await this.#requests.send('GET', `/events${searchOf(filter)}`, { signal })
    const next = /<[^>]*[?&]from=(\d+)[^>]*>; rel="next"/.exec(response.headers.get('Link') ?? '')?.[1]
    return {
      events: response.json() as EventPage<T>['events'],
      next: next === undefined ? undefined : Number(next),
      position: response.position,
    }
  }

  /** Counts the journal's events by window of time, type, collection or actor. */
  async eventCounts({ signal, ...options }: EventCountsOptions = {}): Promise<readonly EventCount[]> {
    const search = searchOf({ ...options, aggregate: 'count' })
    return (await this.#requests.send('GET', `/events${search}`, { signal })).json() as readonly EventCount[]
  }

  /**
   * Sends a request of any kind with the client's credentials. `path` begins with a slash and is encoded. Rejects with a
   * `Problem` unless the status is a success, or one of `accept`.
   */
  request(method: Method, path: string, options: RequestOptions = {}): Promise<ReadResponse> {
    return this.#requests.send(method, path, options)
  }

  /** Sends a GET request whose response body the caller reads as it arrives, such as a long export. */
  stream(path: string, options: Pick<RequestOptions, 'headers' | 'signal'> = {}): Promise<Response> {
    return this.#requests.stream('GET', path, options)
  }

  /**
   * Calls back for each event while connected. Use a live list, or follow the events, to miss none. Returns a function
   * that removes the listener.
   */
  onUpdated(listener: Listener<Updated>): () => void {
    return this.#connection.onUpdated(listener)
  }

  get state(): ConnectionState {
    return this.#connection.state
  }

  /** Calls back for each new state of the connection. Returns a function that removes the listener. */
  onState(listener: Listener<StateChange>): () => void {
    return this.#connection.onState(listener)
  }

  /** Resolves also when the server is unhealthy. */
  async health(): Promise<Health> {
    return (await this.#requests.send('GET', '/health', { accept: [503] })).json() as Health
  }

  /**
   * Requests a token and uses it from now on, and new ones before it expires. The client keeps the password in memory.
   * Rejects with an `AbortError` if other credentials are set meanwhile.
   */
  async login(username: string, password: string): Promise<{ readonly expiresInSeconds: number }> {
    const change = ++this.#changes
    const issued = await this.#requests.login(username, password)
    if (change !== this.#changes) throw new DOMException('Other credentials were set meanwhile.', 'AbortError')
    this.#use(this.#requests.newSession({ username, password }, issued))
    return { expiresInSeconds: issued.expiresInSeconds }
  }

  /** Stops using the credentials, and revokes the token if there is one. */
  async logout(): Promise<void> {
    const { session } = this.#requests
    this.authenticate({})
    await this.#requests.logout(session)
  }

  /** Uses these credentials from now on. */
  authenticate(credentials: Credentials): void {
    this.#changes++
    this.#use(this.#requests.newSession(credentials))
  }

  #use(session: Session): void {
    this.#requests.session = session
    this.#connection.reconnect()
  }

  /** Restores an item, a collection or everything by appending events (docs/api.md, "Restoring"). */
  async restore({ ifUnchangedSince, ...body }: RestoreRequest): Promise<Restored> {
    const condition = ifUnchangedSince === undefined ? {} : { ifUnchangedSince }
    return (await this.#requests.write('POST', '/admin/restore', body, condition)).json() as Restored
  }

  /** Checks the whole journal, which takes the role admin. Leaving the loop ends the check. */
  async *verify(): AsyncGenerator<VerifyProgress, void> {
    const response = await this.#requests.stream('POST', '/admin/verify')
    for await (const line of linesOf(response)) if (line !== '') yield JSON.parse(line) as VerifyProgress
  }

  /** Puts lists of items and single objects, by their names, in place of all that there are, which takes the role admin. */
  async replaceAll(
    data: Readonly<Record<string, object>>,
    { dryRun = false }: { readonly dryRun?: boolean } = {},
  ): Promise<Replaced> {
    const search = searchOf({ dryRun: dryRun || undefined })
    return (await this.#requests.send('POST', `/api${search}`, { body: data })).json() as Replaced
  }

  /** Closes the connection and every live list, and aborts pending requests. */
  close(): void {
    this.#connection.close()
    this.#requests.close()
  }
}

/** A client of the server at `url`; in a browser the default is the origin of the page. */
export function connect(url?: string, options: ConnectOptions = {}): Recollect {
  const page = (globalThis as { readonly location?: { readonly origin: string } }).location
  // The origin of a page from a file or a data URL is "null".
  const origin = page?.origin === 'null' ? undefined : page?.origin
  const address = url ?? origin
  if (address === undefined)
    throw new TypeError('connect needs the address of the server, such as http://localhost:57602')
  return new Recollect(new URL(address, origin).href, options)
}
