import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import type { Gate } from '../access/gate.ts'
import { Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import { type ApiRequest, type ApiResource, type ApiRoute, Reply } from './api.ts'
import { JSON_PATCH_TYPE, JSON_TYPE } from './bodies.ts'
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

/**
 * Answers the plainest requests under `/api` in front of Koa, by the same routes: Koa, its router and what is mounted
 * around them cost several times what such a route does. Whatever needs more than a route is left to Koa:
 * credentials, pages of other origins, other methods, unusual addresses and bodies. False: it was left.
 */
export function hotPath(options: HotPathOptions): (request: IncomingMessage, response: ServerResponse) => boolean {
  const { gate, position, observe, log, newId, bodyBytes } = options
  const found = bySegments(options.resources)

  return (request, response) => {
    const { method = '', url = '', headers } = request
    if (gate.access || headers.origin !== undefined || !url.startsWith('/api/')) return false
    const question = url.indexOf('?')
    const path = question < 0 ? url : url.slice(0, question)
    const segments = isPlain(url) ? segmentsOf(path) : undefined
    const resource = segments === undefined ? undefined : found(segments)
    const route = resource && routeOf(resource, method)
    if (!resource || !route || !(method === 'GET' || method === 'DELETE' || hasPlainBody(request, bodyBytes)))
      return false

    const began = performance.now()
    const requestId = requestIdOf(headers, newId)
    const reply = new Reply()
    const asked: ApiRequest = {
      method,
      path,
      querystring: question < 0 ? '' : url.slice(question + 1),
      headers,
      author: { actor: 'anonymous', requestId },
      bytes: () => gather(request),
    }
    const answer = (): void => {
      try {
        send(response, reply, requestId, position)
      } catch (error) {
        log.error({ err: error, requestId, method }, 'an answer could not be sent')
        response.destroy()
      }
      const elapsedMs = performance.now() - began
      observe(method, resource.path, reply.status, elapsedMs / 1000)
      if (!log.isLevelEnabled('debug')) return
      log.debug({ requestId, method, path, status: reply.status, ms: Math.round(elapsedMs) }, 'answered')
    }
    const refuse = (error: unknown): void => {
      const { status, text, retryAfter } = problemOf(error, asked, log, requestId)
      if (retryAfter !== undefined) reply.set('Retry-After', String(retryAfter))
      reply.set('Content-Type', PROBLEM_TYPE)
      reply.status = status
      reply.body = text
      answer()
    }
    try {
      const done = route(asked, reply)
      if (done) done.then(answer, refuse)
      else answer()
    } catch (error) {
      refuse(error)
    }
    return true
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
  return (segments) => table[segments] ?? more
}

function routeOf({ routes }: ApiResource, method: string): ApiRoute | undefined {
  return Object.hasOwn(routes, method) ? routes[method as Method] : undefined
}

/** Whether it consists of what RFC 3986 lets a path and a query have, or nearly: then nothing needs a parser of URLs. */
function isPlain(url: string): boolean {
  for (let at = 0; at < url.length; at++) {
    const code = url.charCodeAt(at)
    if (code <= 0x20 || code === HASH || code >= 0x7f) return false
  }
  return true
}

/** How many segments follow `/api`; undefined when one of them is empty. */
function segmentsOf(path: string): number | undefined {
  let segments = -1
  for (let at = 0; at >= 0; at = path.indexOf('/', at + 1)) {
    const next = path.charCodeAt(at + 1)
    if (next === SLASH || Number.isNaN(next)) return undefined
    segments++
  }
  return segments
}

const SLASH = 0x2f
const HASH = 0x23

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
    request.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
    const gone = () => {
      if (!request.complete) reject(new Refusal('Invalid', 'The body could not be read: the client went away.'))
    }
    request.once('error', gone)
    request.once('close', gone)
  })
}

/** With the headers that Koa's way sends, too. */
function send(response: ServerResponse, reply: Reply, requestId: string, position: () => Position): void {
  const { headers, status, body } = reply
  headers.push('X-Request-Id', requestId)
  headers.push('X-Content-Type-Options', 'nosniff')
  headers.push('Vary', 'Origin')
  headers.push('Journal-Position', String(reply.position ?? position()))
  if (body === undefined) {
    response.writeHead(status, headers)
    response.end()
    return
  }
  headers.push('Content-Length', String(Buffer.byteLength(body)))
  response.writeHead(status, headers)
  response.end(body)
}
