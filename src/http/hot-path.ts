import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { Gate } from '../access/gate.ts'
import { Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { Origin } from '../events/journal.ts'
import { LongText } from '../projections/query/answer.ts'
import { type ApiRequest, type ApiResource, type ApiRoute, isGone, Reply } from './api.ts'
import { publicPath } from './base-path.ts'
import { JSON_PATCH_TYPE, JSON_TYPE } from './bodies.ts'
import { Outbox } from './outbox.ts'
import { PROBLEM_TYPE, problemOf } from './problems.ts'
import type { RequestTimes } from './request-times.ts'
import { requestIdOf } from './requests.ts'
import type { Method } from './resource.ts'

export interface HotPathOptions {
  readonly resources: readonly ApiResource[]
  readonly gate: Gate
  readonly bodyBytes: number
  readonly position: () => Position
  readonly observe: RequestTimes['observe']
  readonly log: Logger
  readonly newId: () => string
}

/** Whether a request has its answer, which is sent within this turn of the event loop, will have it, or is left to others. */
export type Taken = 'answered' | 'pending' | 'left'

/**
 * Answers the plainest requests under `/api` in front of Koa and Socket.IO, by the same routes: Koa, its router and
 * what is mounted around them cost several times what such a route does. Whatever needs more than a route is left to
 * Koa: credentials, pages of other origins, other methods, unusual addresses and bodies.
 */
export function hotPath(options: HotPathOptions): (request: IncomingMessage, response: ServerResponse) => Taken {
  const { gate, bodyBytes } = options
  const found = bySegments(options.resources)
  const outbox = new Outbox()

  return (request, response) => {
    const { method = '', url = '', headers } = request
    if (gate.access || isOfPage(headers) || !gate.hosts.accepts(headers.host) || !url.startsWith('/api/')) return 'left'
    const resource = found(segmentsOf(url))
    const route = resource && routeOf(resource, method)
    if (!resource || !route || !(method === 'GET' || method === 'DELETE' || hasPlainBody(request, bodyBytes)))
      return 'left'
    return new Exchange(options, outbox, resource, request, response).run(route)
  }
}

/** Whether there is more to know of the page that asks. */
function isOfPage({ origin, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  return origin !== undefined || site === 'cross-site'
}

/** A request on the hot path, and its answer. */
class Exchange implements ApiRequest {
  readonly method: string
  readonly path: string
  readonly querystring: string
  readonly headers: IncomingHttpHeaders
  readonly author: Origin
  /** Without authentication everybody is. */
  readonly isAdmin = true
  readonly #options: HotPathOptions
  readonly #resource: ApiResource
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #reply: Reply
  readonly #outbox: Outbox
  readonly #began = performance.now()

  constructor(
    options: HotPathOptions,
    outbox: Outbox,
    resource: ApiResource,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    const { method, url, headers } = request as IncomingMessage & { readonly method: string; readonly url: string }
    const question = url.indexOf('?')
    const requestId = requestIdOf(headers, options.newId)
    this.method = method
    this.path = question < 0 ? url : url.slice(0, question)
    this.querystring = question < 0 ? '' : url.slice(question + 1)
    this.headers = headers
    this.author = { actor: 'anonymous', requestId }
    this.#options = options
    this.#outbox = outbox
    this.#resource = resource
    this.#request = request
    this.#response = response
    // The headers that Koa's way sends, too.
    this.#reply = new Reply(['X-Request-Id', requestId, 'X-Content-Type-Options', 'nosniff', 'Vary', 'Origin'])
  }

  run(route: ApiRoute): Taken {
    try {
      const done = route(this, this.#reply)
      if (done) {
        done.then(
          () => this.#outbox.add(this),
          (error) => this.#refuse(error),
        )
        return 'pending'
      }
      this.#outbox.add(this)
    } catch (error) {
      this.#refuse(error)
    }
    return this.#reply.body instanceof LongText ? 'pending' : 'answered'
  }

  bytes(): Promise<Uint8Array> {
    return gather(this.#request)
  }

  isGone(): boolean {
    return isGone(this.#request)
  }

  #refuse(error: unknown): void {
    const reply = this.#reply
    const asked = { method: this.method, path: publicPath(this.#response, this.path) }
    const { status, text, headers } = problemOf(error, asked, this.#options.log, this.author.requestId)
    for (const [name, value] of Object.entries(headers)) reply.set(name, value)
    reply.set('Content-Type', PROBLEM_TYPE)
    reply.status = status
    reply.body = text
    this.#outbox.add(this)
  }

  send(): void {
    const { observe, log, position } = this.#options
    const { method, path } = this
    const { requestId } = this.author
    const reply = this.#reply
    try {
      send(this.#response, reply, reply.position ?? position())
    } catch (error) {
      log.error({ err: error, requestId, method }, 'an answer could not be sent')
      this.#response.destroy()
    }
    const elapsedMs = performance.now() - this.#began
    observe(method, this.#resource.path, reply.status, elapsedMs / 1000)
    if (!log.isLevelEnabled('debug')) return
    log.debug({ requestId, method, path, status: reply.status, ms: Math.round(elapsedMs) }, 'answered')
  }
}

/** Finds a resource by the number of segments after `/api`: no two have the same, and the last takes any that are more. */
function bySegments(resources: readonly ApiResource[]): (segments: number) => ApiResource | undefined {
  const table: ApiResource[] = []
  let more: ApiResource | undefined
  for (const resource of resources) {
    if (resource.path.includes('*')) more = resource
    else table[resource.path.split('/').length - 2] = resource
  }
  return (segments) => (segments < 0 ? undefined : (table[segments] ?? more))
}

function routeOf({ routes }: ApiResource, method: string): ApiRoute | undefined {
  return Object.hasOwn(routes, method) ? routes[method as Method] : undefined
}

/**
 * How many segments follow `/api`, in an address of nothing but what RFC 3986 lets a path and a query have, or nearly,
 * so that it needs no parser of URLs; -1 of another, and where a segment is empty.
 */
function segmentsOf(url: string): number {
  let segments = 0
  let isPath = true
  for (let at = '/api'.length; at < url.length; at++) {
    const code = url.charCodeAt(at)
    if (code <= 0x20 || code === HASH || code >= 0x7f) return -1
    if (code === QUESTION) isPath = false
    if (code !== SLASH || !isPath) continue
    const next = url.charCodeAt(at + 1)
    if (next === SLASH || next === QUESTION || Number.isNaN(next)) return -1
    segments++
  }
  return segments
}

const SLASH = 0x2f
const HASH = 0x23
const QUESTION = 0x3f

/** Whether the length of the body is known and small enough, and nothing but JSON is to be made of its bytes. */
function hasPlainBody({ headers }: IncomingMessage, limitBytes: number): boolean {
  const type = headers['content-type']
  const length = headers['content-length']
  return (
    (type === JSON_TYPE || type === JSON_PATCH_TYPE || type === 'application/merge-patch+json') &&
    length !== undefined &&
    Number(length) <= limitBytes &&
    headers['transfer-encoding'] === undefined &&
    headers['content-encoding'] === undefined
  )
}

function gather(request: IncomingMessage): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
    const gone = () => {
      if (!request.complete) reject(new Refusal('Invalid', 'The body could not be read: the client went away.'))
    }
    request.on('error', gone)
    request.on('close', gone)
  })
}

function send(response: ServerResponse, { headers, status, body }: Reply, position: Position): void {
  headers.push('Journal-Position', String(position))
  if (body === undefined) {
    response.writeHead(status, headers)
    response.end()
    return
  }
  const bytes = body instanceof LongText ? body.bytes : Buffer.byteLength(body)
  headers.push('Content-Length', String(bytes))
  response.writeHead(status, headers)
  // A client that goes away meanwhile is nothing to be told of.
  if (body instanceof LongText) pipeline(Readable.from(body.pieces), response, () => {})
  // Of ASCII the two are the same, and this one is quicker.
  else response.end(body, bytes === body.length ? 'latin1' : 'utf8')
}
