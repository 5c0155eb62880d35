import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import type { Principal } from '../access/accounts.ts'
import type { Tags } from '../commands/command.ts'
import { matches } from '../commands/preconditions.ts'
import type { Position } from '../events/event.ts'
import type { LongText } from '../query/page-text.ts'
import { withoutCacheBusters } from '../query/parameter.ts'
import { acceptedType } from './media-types.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Resolves when the reply is complete; returns nothing if it is complete synchronously. */
export type ApiRoute = (request: ApiRequest, reply: Reply) => void | Promise<void>

export interface ApiResource {
  /** In the syntax of @koa/router. */
  readonly path: string
  readonly routes: Readonly<Partial<Record<Method, ApiRoute>>>
  /** The methods that a path supports, if they depend on the path; other routes refuse with `MethodNotAllowed`. */
  readonly methodsAt?: (path: string) => readonly Method[]
}

/** The same resources, with `wrap` around each of their routes. */
export function wrapRoutes(
  resources: readonly ApiResource[],
  wrap: (route: ApiRoute, method: string) => ApiRoute,
): readonly ApiResource[] {
  return resources.map((resource) => {
    const wrapped = Object.entries(resource.routes).map(([method, route]) => [method, wrap(route, method)])
    return { ...resource, routes: Object.fromEntries(wrapped) as ApiResource['routes'] }
  })
}

/** A request under `/api` or `/events`, received through Koa or on the hot path. */
export class ApiRequest {
  /** As sent, without the query. */
  readonly path: string
  /** Without cache busters. A DELETE has them, since they might be meant as filters there. */
  readonly querystring: string
  /** Below which clients see the server: empty, or a path without a slash at its end. */
  readonly base: string
  readonly principal: Principal
  readonly requestId: string
  /** Reads the body, decompressed, up to `Limits.BodyBytes`. */
  readonly bytes: () => Promise<Uint8Array>
  /** For routes that read the body themselves. */
  readonly incoming: IncomingMessage

  constructor(incoming: IncomingMessage, parts: Pick<ApiRequest, RequestParts>) {
    this.incoming = incoming
    this.path = parts.path
    this.querystring = this.method === 'DELETE' ? parts.querystring : withoutCacheBusters(parts.querystring)
    this.base = parts.base
    this.principal = parts.principal
    this.requestId = parts.requestId
    this.bytes = parts.bytes
  }

  get method(): string {
    return this.incoming.method as string
  }

  /** Path and query. */
  get url(): string {
    return this.querystring === '' ? this.path : `${this.path}?${this.querystring}`
  }

  get headers(): IncomingHttpHeaders {
    return this.incoming.headers
  }

  /** The address of the connection, which may be a proxy's; `Gate.addressOf` returns the client's. */
  get remoteAddress(): string | undefined {
    return this.incoming.socket.remoteAddress
  }

  /** The type that the client prefers; undefined if it accepts none of them. */
  accepts<Type extends string>(types: readonly Type[]): Type | undefined {
    return acceptedType(this.incoming, types)
  }

  /**
   * Whether the client has probably disconnected. A client that closed its side may still read, but most such clients
   * are gone, so long queries and endless streams stop.
   */
  isGone(): boolean {
    const { socket } = this.incoming
    return socket.destroyed || socket.readableEnded
  }
}

type RequestParts = 'path' | 'querystring' | 'base' | 'principal' | 'requestId' | 'bytes'

/** A response. If a route throws, the headers that it has set are sent with the problem. */
export class Reply {
  status = 200
  /** A stream is destroyed when the client disconnects, even if it was not read yet. */
  body: string | Readable | undefined
  /** The position that the response reflects; undefined under `/api`: that of the views when it is sent. */
  position: Position | undefined
  /** Names and values in turn, as `writeHead` accepts them. */
  readonly headers: string[]

  constructor(headers: string[] = []) {
    this.headers = headers
  }

  /** Replaces an existing header. */
  set(name: string, value: string): void {
    const at = this.#indexOf(name)
    if (at < 0) this.headers.push(name, value)
    else this.headers[at + 1] = value
  }

  remove(name: string): void {
    const at = this.#indexOf(name)
    if (at >= 0) this.headers.splice(at, 2)
  }

  /** Adds a request header to `Vary`. */
  vary(name: string): void {
    const at = this.#indexOf('Vary')
    this.set('Vary', at < 0 ? name : `${this.headers[at + 1]}, ${name}`)
  }

  /** Responds with existing JSON text. */
  json(text: string | LongText, status = 200): void {
    this.status = status
    this.set('Content-Type', 'application/json')
    if (typeof text === 'string') this.body = text
    else {
      this.set('Content-Length', String(text.bytes))
      this.body = Readable.from(text.inTurns())
    }
  }

  /** Responds with a body of any length, sent as fast as the client reads. */
  stream(type: string, body: Readable): void {
    this.set('Content-Type', type)
    this.body = body
  }

  /**
   * Sets the entity tag; returns true if the client has that version, so that 304 is the whole response. Koa's `fresh`
   * is not used, since `Cache-Control: no-cache`, which Node's fetch sends, disables it.
   */
  isNotModified({ headers }: Pick<ApiRequest, 'headers'>, tag: string): boolean {
    this.set('ETag', tag)
    const tags = parseTags(headers['if-none-match'])
    if (tags === undefined || !matches(tags, tag)) return false
    this.status = 304
    return true
  }

  #indexOf(name: string): number {
    for (let at = 0; at < this.headers.length; at += 2) if (this.headers[at] === name) return at
    return -1
  }
}

/** Whether a response without a position of its own reflects the views. */
export function reflectsViews(path: string): boolean {
  return path.startsWith('/api/') || path === '/api'
}

/**
 * Parses the entity tags of If-Match or If-None-Match; malformed ones match nothing. `W/` is left out: a proxy that
 * compresses a response makes its tag weak, and the version remains the same.
 */
export function parseTags(header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined
  return header.trim() === '*' ? '*' : (header.match(/"[^"]*"/g) ?? [])
}
