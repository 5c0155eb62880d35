import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Principal } from '../access/accounts.ts'
import type { Role } from '../access/roles.ts'
import { matches, type Tags } from '../commands/command.ts'
import type { Position } from '../events/event.ts'
import { withoutIgnored } from '../query/parameter.ts'
import { Refusal } from '../runtime/errors.ts'
import { Memory, type MemoryBudget, type MemoryKind, OutOfMemory } from '../runtime/memory.ts'
import { acceptedType, JSON_TYPE, PATCH_TYPES } from './media-types.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** One step of a request, the last of which is its route. Resolves when it is complete; returns nothing if it is synchronous. */
export type Step = (request: HttpRequest, reply: Reply) => void | Promise<void>

export interface Resource {
  /** In the syntax of @koa/router. */
  readonly path: string
  readonly routes: Readonly<Partial<Record<Method, Step>>>
  /** Run before each of the routes. */
  readonly steps?: readonly Step[]
  /** The methods that a path supports, if they depend on the path; other routes refuse with `MethodNotAllowed`. */
  readonly methodsAt?: (path: string) => readonly Method[]
  /** Why methods that the resource could have are not allowed. */
  readonly whyNot?: string
  /** The fast front leaves the resource to Koa: it is a page, or its body is a form. */
  readonly isKoaOnly?: true
}

/** Whether requests with this method have a body that is read. */
export function takesBody(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** The `Allow` header. */
export function allowOf(methods: readonly Method[]): string {
  return [...methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')
}

/** Refuses a method that is not among those of the path. */
export function refuseMethod(
  { method }: HttpRequest,
  reply: Reply,
  methods: readonly Method[],
  whyNot?: string,
): never {
  const allow = allowOf(methods)
  reply.set('Allow', allow)
  throw new Refusal('MethodNotAllowed', whyNot ?? `${method} is not allowed here; these are: ${allow}.`)
}

/** A request as its steps see it, received through Koa or through the fast front. */
export class HttpRequest {
  /** As sent, without the query. */
  readonly path: string
  /** Without the parameters that reads ignore. A DELETE has them, since they might be meant as filters there. */
  readonly querystring: string
  /** Below which clients see the server: empty, or a path without a slash at its end. */
  readonly base: string
  readonly requestId: string
  /** Reads the body, decompressed, up to `Limits.BodyBytes`. */
  readonly bytes: () => Promise<Uint8Array>
  /** Parses a body of JSON, of a form or multipart, through Koa only; undefined if it is none of them. */
  readonly fields: () => Promise<unknown>
  /** For routes that read the body themselves. */
  readonly incoming: IncomingMessage
  readonly #response: ServerResponse
  readonly #budget: MemoryBudget
  #memories: Map<RequestMemoryKind, Memory> | undefined
  /** The role that the method and the path need; undefined if they are public. */
  readonly neededRole: Role | undefined
  /** The authenticated client; undefined before its step, and for anonymous clients of public paths. */
  client: Principal | undefined

  constructor(
    incoming: IncomingMessage,
    response: ServerResponse,
    budget: MemoryBudget,
    parts: Pick<HttpRequest, RequestParts>,
  ) {
    this.incoming = incoming
    this.#response = response
    this.#budget = budget
    this.path = parts.path
    this.querystring = this.method === 'DELETE' ? parts.querystring : withoutIgnored(parts.querystring)
    this.base = parts.base
    this.requestId = parts.requestId
    this.bytes = parts.bytes
    this.fields = parts.fields
    this.neededRole = parts.neededRole
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

  /** The client of a path that needs a role. */
  get principal(): Principal {
    if (this.client) return this.client
    throw new Error(`${this.path} was reached without authentication`)
  }

  /** The address of the connection, which may be a proxy's; `Gate.addressOf` returns the client's. */
  get remoteAddress(): string | undefined {
    return this.incoming.socket.remoteAddress
  }

  /** The memory that the request holds until its response is sent, or its connection is closed. */
  memoryFor(kind: RequestMemoryKind): Memory {
    this.#memories ??= new Map()
    const known = this.#memories.get(kind)
    if (known) return known
    const memory = new Memory(this.#budget, kind)
    this.#memories.set(kind, memory)
    if (this.#response.closed || this.incoming.socket.destroyed) memory.end()
    else this.#response.once('close', () => memory.end())
    return memory
  }

  /** Makes the refusal of a part's memory that of the whole request. Other errors stay as they are. */
  refusalOf(error: unknown): unknown {
    if (!(error instanceof OutOfMemory)) return error
    let besides = 0
    for (const [kind, { bytes }] of this.#memories ?? []) if (kind !== error.kind) besides += bytes
    return this.#budget.refusalBeside(error, besides)
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

type RequestMemoryKind = Extract<MemoryKind, 'bodies' | 'queries' | 'responses'>

type RequestParts = 'path' | 'querystring' | 'base' | 'requestId' | 'neededRole' | 'bytes' | 'fields'

/** A response. If a step throws, the headers that were set until then are sent with the problem. */
export class Reply {
  /** 0 while there is no response. */
  status = 0
  /** A stream is destroyed when the client disconnects, even if it was not read yet. */
  body: string | Buffer | Readable | undefined
  /** The memory of the response is counted, and not refused. */
  isAlwaysSent = false
  /** The position that the response reflects; undefined under `/api`: that of the views. */
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

  /** Adds a header line, also beside one of the same name. */
  append(name: string, value: string): void {
    this.headers.push(name, value)
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

  /** For a body that is produced slowly: proxies such as Caddy (2.6) hold back what they compress until their buffer is full. */
  forbidCompression(): void {
    this.set('Content-Encoding', 'identity')
  }

  /** Responds with a body; a stream is sent as fast as the client reads. */
  send(type: string, body: string | Buffer | Readable, status = 200): void {
    this.status = status
    this.set('Content-Type', type)
    this.body = body
  }

  /** Responds with existing JSON text. */
  json(text: string | Buffer, status = 200): void {
    this.send(JSON_TYPE, text, status)
  }

  /** Responds to OPTIONS. */
  options(methods: readonly Method[]): void {
    this.status = 200
    this.set('Allow', allowOf(methods))
    if (methods.includes('PATCH')) this.set('Accept-Patch', PATCH_TYPES.join(', '))
    this.body = ''
  }

  /**
   * Sets the entity tag; returns true if the client has that version, so that 304 is the whole response. Koa's `fresh`
   * is not used, since `Cache-Control: no-cache`, which Node's fetch sends, disables it.
   */
  isNotModified({ headers }: Pick<HttpRequest, 'headers'>, tag: string): boolean {
    this.set('ETag', tag)
    const tags = parseTags(headers['if-none-match'])
    if (tags === undefined || !matches(tags, tag)) return false
    this.status = 304
    return true
  }

  /** Responds with existing JSON text, or with 304 if the client has it. */
  tagged(request: Pick<HttpRequest, 'headers'>, { tag, text }: { readonly tag: string; readonly text: string }): void {
    if (!this.isNotModified(request, tag)) this.json(text)
  }

  #indexOf(name: string): number {
    for (let at = 0; at < this.headers.length; at += 2) if (this.headers[at] === name) return at
    return -1
  }
}

/**
 * Parses the entity tags of If-Match or If-None-Match; malformed ones match nothing. `W/` is left out: a proxy that
 * compresses a response makes its tag weak, and the version remains the same.
 */
export function parseTags(header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined
  return header.trim() === '*' ? '*' : (header.match(/"[^"]*"/g) ?? [])
}

/** The resources of a read-only server: those with data have reading methods only, and say why. */
export function readOnly(resources: readonly Resource[], whyNot: string): readonly Resource[] {
  return resources.map((resource) => {
    const { path, routes } = resource
    if (!changesData(path)) return resource
    const { methodsAt: _, ...rest } = resource
    return { ...rest, whyNot, routes: routes.GET ? { GET: routes.GET } : {} }
  })
}

/** Whether a read-only server offers only the reading methods of a path: reading the settings again changes no data. */
export function changesData(path: string): boolean {
  return /^\/(?:api|admin)(?:\/|$)/.test(path) && !path.startsWith('/admin/settings/')
}
