import type { IncomingMessage } from 'node:http'
import cors from '@koa/cors'
import type { Context, Middleware } from 'koa'
import type { Principal } from '../access/accounts.ts'
import { credentialsOf, type Gate, isRefused, type RefusedAccess } from '../access/gate.ts'
import { includes, isSafe, neededRole } from '../access/roles.ts'
import { Refusal } from '../runtime/errors.ts'
import { acceptedType, EVENT_MEDIA_TYPES, EVENT_STREAM } from './media-types.ts'

/** Response headers that pages of other origins may read. */
const EXPOSED = [
  'ETag',
  'Link',
  'Location',
  'Journal-Position',
  'Preference-Applied',
  'Recollect-Hint',
  'Retry-After',
  'X-Request-Id',
  'X-Total-Count',
]

/** Sends CORS headers to pages of allowed origins. */
export function crossOrigin({ origins }: Gate, credentials: boolean): Middleware {
  const answer = cors({
    origin: (ctx: Context) => (origins.allows(ctx.get('Origin'), ctx.host) ? ctx.get('Origin') : ''),
    allowMethods: ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH'],
    exposeHeaders: EXPOSED,
    credentials,
    maxAge: 600,
  }) as unknown as Middleware
  return (ctx, next) => {
    if (ctx.headers.origin !== undefined) return answer(ctx, next)
    // Caches must know that the response depends on the origin.
    ctx.vary('Origin')
    return next()
  }
}

/** The path that uses credentials without requiring them. */
const OPTIONAL = /^\/health\/?$/

/** Authorizes requests before any route, so that no route can be left open. */
export function guard(gate: Gate): Middleware {
  return async (ctx, next) => {
    refuseForeign(ctx, gate)
    const needed = isPreflight(ctx) ? undefined : neededRole(ctx.method, ctx.path)
    if (needed === undefined && !OPTIONAL.test(ctx.path)) return next()
    // Caches know about Authorization, but not about API keys and tokens in the URL.
    if (gate.access) ctx.set('Cache-Control', 'private, no-cache')
    const admitted = await gate.admit(credentialsOf(ctx.headers, tokenInQuery(ctx)), () => addressOf(ctx.req, gate))
    if (isRefused(admitted)) {
      if (needed !== undefined) throw refusalOf(ctx, gate, admitted)
      return next()
    }
    ctx.state.principal = admitted
    ctx.state.actor = admitted.actor
    if (needed !== undefined && !includes(admitted.role, needed)) {
      throw new Refusal('Forbidden', `The role ${admitted.role} does not allow this; ${needed} is needed.`)
    }
    return next()
  }
}

/**
 * Rejects requests of forbidden origins before any failure is counted for the address. Safe requests are not rejected,
 * since browsers withhold their responses, unless they carry a token in the URL.
 */
function refuseForeign(ctx: Context, { hosts, origins }: Gate): void {
  const { headers, method } = ctx
  if (!hosts.accepts(headers.host)) {
    throw new Refusal(
      'Misdirected',
      `This server does not answer to the host ${JSON.stringify(headers.host)}; see the setting Http.Hosts.`,
    )
  }
  if ((isSafe(method) && tokenInQuery(ctx) === undefined) || !origins.isForeign(headers)) return
  const page = headers.origin === undefined ? 'another site' : JSON.stringify(headers.origin)
  throw new Refusal('Forbidden', `Pages of ${page} are not allowed to do this; see the setting Cors.Origins.`)
}

/** The client's address, by which failures are counted. */
export function addressOf({ socket, headers }: IncomingMessage, gate: Gate): string {
  return gate.addressOf(socket.remoteAddress, headers)
}

/** The query parameter for the token of EventSource, which cannot set headers. */
export const ACCESS_TOKEN = 'access_token'

function tokenInQuery(ctx: Context): string | undefined {
  if (!/^\/events\/?$/.test(ctx.path) || acceptedType(ctx.req, EVENT_MEDIA_TYPES) !== EVENT_STREAM) return undefined
  return new URLSearchParams(ctx.querystring).get(ACCESS_TOKEN) ?? undefined
}

export function principalOf(ctx: Context): Principal | undefined {
  return ctx.state.principal as Principal | undefined
}

/** The refusal; sets its headers. */
export function refusalOf(ctx: Context, { access }: Gate, refused: RefusedAccess): Refusal {
  if (refused.refused === 'TooManyRequests') {
    ctx.set('Retry-After', String(refused.waitSeconds))
    return new Refusal(
      'TooManyRequests',
      `Too many passwords, or too many wrong ones, came from this address; try again in ${refused.waitSeconds} s.`,
    )
  }
  const challenges = access?.challenges() ?? []
  ctx.set('WWW-Authenticate', [...challenges])
  return new Refusal('Unauthenticated', `Credentials are required, by one of: ${access?.schemes.join(', ')}.`)
}

function isPreflight(ctx: Context): boolean {
  return ctx.method === 'OPTIONS' && ctx.get('Origin') !== '' && ctx.get('Access-Control-Request-Method') !== ''
}
