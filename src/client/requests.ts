import { type Credentials, type IssuedToken, type SentCredentials, Session } from './credentials.ts'
import { textOf } from './parameters.ts'
import { problemOf, rethrown, retryDelayMs } from './problem.ts'

/** As the global `fetch`. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

export type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface RequestOptions {
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent as it is, in place of `body`; `headers` say what it is. */
  readonly text?: string
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly signal?: AbortSignal | undefined
  /** Sends no credentials: invalid ones would count as a failure. */
  readonly isOpen?: boolean
  /** Further statuses that are not thrown as a Problem. */
  readonly accept?: readonly number[]
}

export type ReadOptions = Pick<RequestOptions, 'signal'>
export type StreamOptions = Pick<RequestOptions, 'headers' | 'signal'>

/** A response whose body has been read. */
export interface ReadResponse {
  readonly status: number
  readonly headers: Headers
  /** The position that the response reflects; 0 if it names none. */
  readonly position: number
  readonly etag: string | undefined
  text(): string
  json(): unknown
}

export interface Written {
  /** Position of the event. */
  readonly position: number
  /** Tag of the item, or of the value inside it, after the write; undefined after a deletion. */
  readonly etag: string | undefined
}

export interface WriteOptions {
  /** Writes only if the item still has this tag; otherwise a `Problem` with status 412 is thrown. */
  readonly ifMatch?: string
  /**
   * Writes only if the item has not changed since this position, such as the `position` of the page or the live list
   * that shows it; otherwise a `Problem` with status 412 is thrown.
   */
  readonly ifUnchangedSince?: number
  /** A write that is sent again with the same key is executed once. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

export type CreateOptions = Pick<WriteOptions, 'idempotencyKey' | 'signal'>

/** Sends HTTP requests. Throws a `Problem` for error responses. */
export class Requests {
  session: Session
  /** The URL of the server, without a slash at the end. */
  readonly base: string
  readonly #browserCredentials: BrowserCredentials | undefined
  readonly #send: Fetch
  readonly #closing = new AbortController()
  /** The requests that are not streams. A signal for all would collect a listener of each, which Node reports as a leak. */
  readonly #running = new Set<AbortController>()

  constructor(base: string, credentials: Credentials, browserCredentials?: BrowserCredentials, fetch?: Fetch) {
    this.base = base
    this.session = this.newSession(credentials)
    this.#browserCredentials = browserCredentials
    this.#send = fetch ?? ((url, init) => globalThis.fetch(url, init))
  }

  /** `path` begins with a slash and is encoded. */
  async send(method: Method, path: string, options: RequestOptions = {}): Promise<ReadResponse> {
    const { signal } = options
    for (const one of [this.closed, signal]) one?.throwIfAborted()
    const running = new AbortController()
    const abort = (): void => running.abort(signal?.reason)
    this.#running.add(running)
    signal?.addEventListener('abort', abort)
    try {
      const response = await this.#fetch(method, path, options, running.signal)
      const { status, headers } = response
      const etag = headers.get('ETag') ?? undefined
      const text = await response.text().catch(rethrown)
      return { status, headers, position: positionOf(response), etag, text: () => text, json: () => JSON.parse(text) }
    } finally {
      this.#running.delete(running)
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Writes what is at a path. A patch that is an array is a JSON Patch. `prefer` is the header `Prefer`. */
  write(
    method: Method,
    path: string,
    body: unknown,
    { ifMatch, ifUnchangedSince, idempotencyKey, signal }: WriteOptions,
    prefer?: string,
  ): Promise<ReadResponse> {
    const patchType = Array.isArray(body) ? 'application/json-patch+json' : 'application/merge-patch+json'
    const headers = {
      'Content-Type': method === 'PATCH' ? patchType : undefined,
      'If-Match': ifMatch,
      'If-Unchanged-Since': textOf(ifUnchangedSince),
      'Idempotency-Key': idempotencyKey,
      Prefer: prefer,
    }
    return this.send(method, path, { body, headers, signal })
  }

  /** The caller reads the response body as it arrives. */
  stream(method: 'GET' | 'POST', path: string, options: StreamOptions = {}): Promise<Response> {
    const { signal } = options
    return this.#fetch(method, path, options, signal ? AbortSignal.any([signal, this.closed]) : this.closed)
  }

  /** `issued`: the token of a login with these credentials. */
  newSession(credentials: Credentials, issued?: IssuedToken): Session {
    return new Session(credentials, (username, password) => this.login(username, password), issued)
  }

  /** Requests a token. */
  async login(username: string, password: string): Promise<IssuedToken> {
    const response = await this.send('POST', '/token', { body: { username, password }, isOpen: true })
    const { access_token, expires_in } = response.json() as { access_token: string; expires_in: number }
    return { token: access_token, expiresInSeconds: expires_in }
  }

  /** Revokes the token of a session that is no longer used. The server may not know it any more, or have no tokens. */
  async logout({ token }: Session): Promise<void> {
    if (token === undefined) return
    const headers = { Authorization: `Bearer ${token}` }
    await this.send('POST', '/logout', { headers, isOpen: true, accept: [401, 404, 405] })
  }

  async #fetch(method: Method, path: string, options: RequestOptions, signal: AbortSignal): Promise<Response> {
    const { accept = [], isOpen = false } = options
    const access = isOpen ? undefined : await this.#access(signal)
    let response = await this.#attempt(method, path, options, signal, access?.sent)
    // After a logout there are no other credentials.
    const isCurrent = (): boolean => access?.session === this.session
    if (access && response.status === 401 && isCurrent()) {
      if ((await unlessAborted(access.session.rejected(access.sent), signal)) && isCurrent()) {
        await response.body?.cancel()
        response = await this.#attempt(method, path, options, signal, (await this.#access(signal)).sent)
      }
    }
    if (response.ok || accept.includes(response.status)) return response
    throw await problemOf(response)
  }

  /** The session in use, which may be replaced meanwhile, and its credentials. */
  async #access(signal: AbortSignal): Promise<{ readonly session: Session; readonly sent: SentCredentials }> {
    for (;;) {
      const { session } = this
      try {
        const sent = await unlessAborted(session.current(), signal)
        if (session === this.session) return { session, sent }
      } catch (error) {
        if (session === this.session || signal.aborted) throw error
      }
    }
  }

  #attempt(
    method: Method,
    path: string,
    { body, text = JSON.stringify(body), headers = {}, isOpen = false }: RequestOptions,
    signal: AbortSignal,
    credentials: SentCredentials = {},
  ): Promise<Response> {
    const authorization = authorizationHeaders(credentials)
    const omitsBrowserCredentials = isOpen || Object.keys(authorization).length > 0
    const sent = new Headers({ Accept: 'application/json', ...authorization })
    if (text !== undefined) sent.set('Content-Type', 'application/json')
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) sent.set(name, value)
    return this.#send(this.base + path, {
      method,
      headers: sent,
      // Revalidates cached responses, so that changes are visible at once.
      ...({ cache: 'no-cache' } as object),
      // With credentials of its own, the client must not make the browser ask for others after a 401.
      credentials: this.#browserCredentials ?? (omitsBrowserCredentials ? 'omit' : 'same-origin'),
      signal,
      ...(text !== undefined && { body: text }),
    }).catch(rethrown)
  }

  /** Aborts pending requests. */
  close(): void {
    this.#closing.abort(new DOMException('The client was closed.', 'AbortError'))
    for (const one of this.#running) one.abort(this.closed.reason)
  }

  get closed(): AbortSignal {
    return this.#closing.signal
  }
}

/** Waits for a promise. Rejects with the signal's reason when the signal aborts before. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** Waits before what failed with the error is tried again. Rejects with the signal's reason when the signal aborts. */
export function pause(signal: AbortSignal, error?: unknown): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, retryDelayMs(error))
  })
  return unlessAborted(over, signal).finally(() => clearTimeout(timer))
}

export function positionOf({ headers }: Response): number {
  return Number(headers.get('Journal-Position') ?? 0)
}

/** Encodes a segment of a path. `.` and `..` cannot be addressed, since URL parsers remove them. */
export function pathSegment(text: string): string {
  if (text === '.' || text === '..') {
    throw new TypeError(`"${text}" cannot be sent in an address: ask with where({id: "${text}"})`)
  }
  if (text === '') throw new TypeError('a collection and an id have a name that is not empty')
  return encodeURIComponent(text)
}

/** Whether a browser sends credentials of its own: cookies of a proxy, a stored password. */
export type BrowserCredentials = 'omit' | 'same-origin' | 'include'

function authorizationHeaders({ token, apiKey, username, password }: SentCredentials): Record<string, string> {
  if (apiKey !== undefined) return { 'X-API-KEY': apiKey }
  if (token !== undefined) return { Authorization: `Bearer ${token}` }
  if (username === undefined || password === undefined) return {}
  const bytes = new TextEncoder().encode(`${username}:${password}`)
  return { Authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` }
}
