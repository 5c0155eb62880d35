/** What the routes read from a request besides its body. */
import { hash } from 'node:crypto'
import type { Context } from 'koa'
import type { Tags } from '../commands/command.ts'
import { Refusal } from '../errors.ts'
import type { Origin } from '../events/journal.ts'
import { type Parameter, parseParameters, type QueryLimits } from '../projections/query/query.ts'

/** The path's segments after `/api`, each decoded once; a trailing slash says nothing. */
export function apiSegments(ctx: Context): readonly string[] {
  const segments = ctx.path.split('/').slice(2)
  if (segments.at(-1) === '') segments.pop()
  return segments.map((segment) => {
    try {
      return decodeURIComponent(segment)
    } catch {
      throw new Refusal('Invalid', `The path holds malformed percent-encoding: ${segment}`)
    }
  })
}

/** Entity tags of If-Match or If-None-Match; what is not an entity tag matches nothing. */
export function parseTags(header: string | undefined): Tags | undefined {
  if (header === undefined) return undefined
  return header.trim() === '*' ? '*' : (header.match(/(?:W\/)?"[^"]*"/g) ?? [])
}

export function wantsRepresentation(ctx: Context): boolean {
  return ctx
    .get('Prefer')
    .split(',')
    .some((preference) => /^\s*return\s*=\s*"?representation"?\s*(;|$)/i.test(preference))
}

const KEY_BYTES = 255

export function authorOf(ctx: Context): Origin {
  return { actor: ctx.state.actor as string, requestId: ctx.state.requestId as string }
}

/** Who writes, and by what a retry of the request is known. */
export function originOf(ctx: Context, body: Uint8Array): Origin {
  const origin = authorOf(ctx)
  if (ctx.headers['idempotency-key'] === undefined) return origin
  const key = ctx.get('Idempotency-Key')
  if (key === '' || Buffer.byteLength(key, 'latin1') > KEY_BYTES) {
    throw new Refusal('Invalid', `An Idempotency-Key has between 1 and ${KEY_BYTES} bytes.`)
  }
  const parts = [
    ctx.method,
    ctx.path,
    ctx.get('Content-Type'),
    ctx.get('If-Match'),
    ctx.get('If-None-Match'),
    String(wantsRepresentation(ctx)),
    Buffer.from(body).toString('latin1'),
  ]
  return { ...origin, key, request: hash('sha256', JSON.stringify(parts), 'hex') }
}

export interface HttpQueryLimits extends QueryLimits {
  /** Of the query string. */
  readonly bytes: number
}

export function parametersOf(ctx: Context, { bytes, parameters }: HttpQueryLimits): readonly Parameter[] {
  if (ctx.querystring.length > bytes) throw new Refusal('Invalid', `The query is longer than ${bytes} bytes.`)
  return parseParameters(ctx.querystring, parameters)
}
