import { type BrowserCredentials, type Credentials, headersOf } from './credentials.ts'
import { problemOf } from './problem.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface Asked {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly signal?: AbortSignal
  /** Asked without credentials: old ones would count as a failure. */
  readonly isOpen?: boolean
  /** Statuses beyond 2xx that are an answer, too. */
  readonly accept?: readonly number[]
}

/** Asks over HTTP. What is not answered with success is thrown as a `Problem`. */
export class Requests {
  credentials: Credentials
  /** Where the server is, without a slash at the end. */
  readonly base: string
  readonly #browserCredentials: BrowserCredentials | undefined
  readonly #closing = new AbortController()

  constructor(base: string, credentials: Credentials, browserCredentials?: BrowserCredentials) {
    this.base = base
    this.credentials = credentials
    this.#browserCredentials = browserCredentials
  }

  /** `path` begins with a slash, and is encoded. */
  async send(method: Method, path: string, asked: Asked = {}): Promise<Response> {
    const { body, headers = {}, signal, accept = [], isOpen = false } = asked
    const own = isOpen ? {} : headersOf(this.credentials)
    const isByOwn = isOpen || Object.keys(own).length > 0
    const fields = new Headers({ Accept: 'application/json', ...own })
    if (body !== undefined) fields.set('Content-Type', 'application/json')
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) fields.set(name, value)
    const response = await fetch(this.base + path, {
      method,
      headers: fields,
      // A change must be seen at once: what a browser remembers is asked after, and not taken for granted.
      ...({ cache: 'no-cache' } as object),
      // Who comes with credentials of their own is not to be asked for others by the browser after a 401.
      credentials: this.#browserCredentials ?? (isByOwn ? 'omit' : 'same-origin'),
      signal: signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    if (response.ok || accept.includes(response.status)) return response
    throw await problemOf(response)
  }

  /** Ends what is still being answered. */
  close(): void {
    this.#closing.abort(new DOMException('The client was closed.', 'AbortError'))
  }

  get closed(): AbortSignal {
    return this.#closing.signal
  }
}

export function positionOf({ headers }: Response): number {
  return Number(headers.get('Journal-Position') ?? 0)
}

/** A segment of a path. Two ids, `.` and `..`, have no address that a browser would leave as it is. */
export function segment(text: string): string {
  if (text === '.' || text === '..') {
    throw new TypeError(
      `${JSON.stringify(text)} cannot be sent in an address: ask with where({id: ${JSON.stringify(text)}})`,
    )
  }
  if (text === '') throw new TypeError('a collection and an id have a name that is not empty')
  return encodeURIComponent(text)
}
