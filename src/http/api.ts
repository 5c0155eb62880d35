import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Tags } from '../commands/command.ts'
import { matches } from '../commands/decide.ts'
import type { Position } from '../events/event.ts'
import type { Origin } from '../events/journal.ts'
import type { LongText } from '../projections/query/answer.ts'
import type { Method } from './resource.ts'

/** A request under `/api` as its routes see it, whichever way it came: through Koa or on the hot path. */
export interface ApiRequest {
  readonly method: string
  /** As it was sent, without the query. */
  readonly path: string
  readonly querystring: string
  readonly headers: IncomingHttpHeaders
  readonly author: Origin
  /** Whether it may hold the server for as long as it takes. */
  readonly isAdmin: boolean
  /** Gathers the body, decompressed, at most `Limits.BodyBytes`. */
  readonly bytes: () => Promise<Uint8Array>
  /** Whether nobody waits for the answer any more. */
  isGone(): boolean
}

/** What is answered. When a route refuses, its headers are still sent, with the problem. */
export class Reply {
  status = 200
  body: string | LongText | undefined
  /** What the answer reflects; undefined: whatever the views hold when it is sent. */
  position: Position | undefined
  /** Names and values in turn, as `writeHead` takes them. */
  readonly headers: string[]

  constructor(headers: string[] = []) {
    this.headers = headers
  }

  set(name: string, value: string): void {
    this.headers.push(name, value)
  }

  /** Of a header that is set already. */
  replace(name: string, value: string): void {
    this.headers[this.#indexOf(name) + 1] = value
  }

  /** Takes back a header that is set. */
  remove(name: string): void {
    this.headers.splice(this.#indexOf(name), 2)
  }

  /** JSON text that is already made. */
  json(text: string | LongText, status = 200): void {
    this.status = status
    this.set('Content-Type', 'application/json')
    this.body = text
  }

  /**
   * Sets the entity tag; true when the client has that version already, and 304 is the whole answer. Compared
   * here and not by Koa, for which `Cache-Control: no-cache` (sent by Node's fetch) is never a match.
   */
  isNotModified({ headers }: ApiRequest, tag: string): boolean {
    this.set('ETag', tag)
    const tags = parseTags(headers['if-none-match'])
    if (tags === undefined || !matches(tags, tag, true)) return false
    this.status = 304
    return true
  }

  #indexOf(name: string): number {
    let at = 0
    while (this.headers[at] !== name) at += 2
    return at
  }
}

/** Answers at once where nothing is to be waited for. */
export type ApiRoute = (request: ApiRequest, reply: Reply) => void | Promise<void>

export interface ApiResource {
  /** As the router takes it. */
  readonly path: string
  readonly routes: Readonly<Partial<Record<Method, ApiRoute>>>
}

/**
 * Whether a client is taken to have gone away. One that has closed its side may still read, but most that do have gone;
 * what takes long is not looked for any further then, nor streamed without end.
 */
export function isGone({ socket }: IncomingMessage): boolean {
  return socket.destroyed || socket.readableEnded
}

/** Entity tags of If-Match or If-None-Match; what is not an entity tag matches nothing. */
export function parseTags(header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined
  return header.trim() === '*' ? '*' : (header.match(/(?:W\/)?"[^"]*"/g) ?? [])
}
