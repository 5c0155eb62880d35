import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import accepts from 'accepts'
import type { Principal } from '../access/access.ts'
import type { Tags } from '../commands/command.ts'
import { matches } from '../commands/decide.ts'
import type { Position } from '../events/event.ts'
import type { LongText } from '../projections/query/answer.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** Resolves when the reply is complete; returns nothing where it is complete at once. */
export type ApiRoute = (request: ApiRequest, reply: Reply) => void | Promise<void>

export interface ApiResource {
  /** As the router takes it. */
  readonly path: string
  readonly routes: Readonly<Partial<Record<Method, ApiRoute>>>
  /** The methods of what is served at a path, where that differs; the other routes refuse with `MethodNotAllowed`. */
  readonly methodsAt?: (path: string) => readonly Method[]
}

/** A request under `/api` or `/events` as its routes see it, whichever way it came: through Koa or on the hot path. */
export class ApiRequest {
  /** As it was sent, without the query. */
  readonly path: string
  readonly querystring: string
  readonly principal: Principal
  readonly requestId: string
  /** Gathers the body, decompressed, at most `Limits.BodyBytes`. */
  readonly bytes: () => Promise<Uint8Array>
  /** For routes that gather the body themselves. */
  readonly incoming: IncomingMessage

  constructor(incoming: IncomingMessage, parts: Pick<ApiRequest, RequestParts>) {
    this.incoming = incoming
    this.path = parts.path
    this.querystring = parts.querystring
    this.principal = parts.principal
    this.requestId = parts.requestId
    this.bytes = parts.bytes
  }

  get method(): string {
    return this.incoming.method as string
  }

  /** Path and query. */
  get url(): string {
    return this.incoming.url as string
  }

  get headers(): IncomingHttpHeaders {
    return this.incoming.headers
  }

  /** Of the connection, which may be a proxy's: `Gate.addressOf` knows the client's. */
  get remoteAddress(): string | undefined {
    return this.incoming.socket.remoteAddress
  }

  /** The type that the client likes best; undefined when it accepts none of them. */
  accepts<Type extends string>(types: readonly Type[]): Type | undefined {
    return (accepts(this.incoming).type([...types]) || undefined) as Type | undefined
  }

  /**
   * Whether the client is taken to have gone away. One that has closed its side may still read, but most that do have gone;
   * what takes long is not looked for any further then, nor streamed without end.
   */
  isGone(): boolean {
    const { socket } = this.incoming
    return socket.destroyed || socket.readableEnded
  }
}

type RequestParts = 'path' | 'querystring' | 'principal' | 'requestId' | 'bytes'

/** A response. When a route throws, the headers that it set are still sent, with the problem. */
export class Reply {
  status = 200
  /** A stream is destroyed when the client goes away, also before it was read. */
  body: string | Readable | undefined
  /** What the response reflects; undefined under `/api`: whatever the views hold when it is sent. */
  position: Position | undefined
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: string[]

  constructor(headers: string[] = []) {
    this.headers = headers
  }

  /** Replaces the header where it is set already. */
  set(name: string, value: string): void {
    const at = this.#indexOf(name)
    if (at < 0) this.headers.push(name, value)
    else this.headers[at + 1] = value
  }

  remove(name: string): void {
    const at = this.#indexOf(name)
    if (at >= 0) this.headers.splice(at, 2)
  }

  /** Adds a request header to those on which the response depends. */
  vary(name: string): void {
    const at = this.#indexOf('Vary')
    this.set('Vary', at < 0 ? name : `${this.headers[at + 1]}, ${name}`)
  }

  /** JSON text that is already made. */
  json(text: string | LongText, status = 200): void {
    this.status = status
    this.set('Content-Type', 'application/json')
    if (typeof text === 'string') this.body = text
    else {
      this.set('Content-Length', String(text.bytes))
      this.body = Readable.from(text.pieces)
    }
  }

  /** A body of any length, sent at the pace of its reader. */
  stream(type: string, body: Readable): void {
    this.set('Content-Type', type)
    this.body = body
  }

  /**
   * Sets the entity tag; true when the client has that version already, and 304 is the whole response. Compared
   * here and not by Koa, for which `Cache-Control: no-cache` (sent by Node's fetch) is never a match.
   */
  isNotModified({ headers }: Pick<ApiRequest, 'headers'>, tag: string): boolean {
    this.set('ETag', tag)
    const tags = parseTags(headers['if-none-match'])
    if (tags === undefined || !matches(tags, tag, true)) return false
    this.status = 304
    return true
  }

  #indexOf(name: string): number {
    for (let at = 0; at < this.headers.length; at += 2) if (this.headers[at] === name) return at
    return -1
  }
}

/** Whether a response that names no position of its own reflects what the views hold. */
export function reflectsViews(path: string): boolean {
  return path.startsWith('/api/') || path === '/api'
}

/** Entity tags of If-Match or If-None-Match; what is not an entity tag matches nothing. */
export function parseTags(header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined
  return header.trim() === '*' ? '*' : (header.match(/(?:W\/)?"[^"]*"/g) ?? [])
}
