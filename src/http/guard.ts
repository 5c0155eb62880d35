import type { IncomingMessage } from 'node:http'
import cors from '@koa/cors'
import type { Context, Middleware } from 'koa'
import type { Principal } from '../access/access.ts'
import { credentialsOf, type Gate, isRefused, type Refused } from '../access/gate.ts'
import { includes, isSafe, neededRole } from '../access/roles.ts'
import { Refusal } from '../errors.ts'

/** What a page of another origin may read of an answer. */
const EXPOSED = [
  'ETag',
  'Link',
  'Location',
  'Journal-Position',
  'Preference-Applied',
  'Retry-After',
  'X-Request-Id',
  'X-Total-Count',
]

/** Lets the pages of allowed origins call; for all others the browser's own rule stands. */
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
    // Caches must know that the answer to a page differs.
    ctx.vary('Origin')
    return next()
  }
}

/** Where who asks makes a difference although nobody has to say. */
const OPTIONAL = ['/health']

/** Lets in who may: before any route, so that none can be forgotten. */
export function guard(gate: Gate): Middleware {
  return async (ctx, next) => {
    refuseForeign(ctx, gate)
    const needed = isPreflight(ctx) ? undefined : neededRole(ctx.method, ctx.path)
    if (needed === undefined && !OPTIONAL.includes(ctx.path)) return next()
    // Caches know of Authorization, but not of an API key or of a token in the address.
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
 * Before anything is counted against the address: what pages send that may not call. What they only read, browsers keep from
 * them, but not what comes with a token that they made up.
 */
function refuseForeign(ctx: Context, { hosts, origins }: Gate): void {
  const { headers, method } = ctx
  if (!hosts.accepts(headers.host)) {
    throw new Refusal(
      'Misdirected',
      `This server is not known as ${JSON.stringify(headers.host)}. Http.Hosts names the hosts that it is reached by.`,
    )
  }
  if ((isSafe(method) && tokenInQuery(ctx) === undefined) || !origins.isForeign(headers)) return
  const page = headers.origin === undefined ? 'another site' : JSON.stringify(headers.origin)
  throw new Refusal('Forbidden', `Pages of ${page} may not do this. Cors.Origins names those that may.`)
}

/** Of the client, as failures are counted by it. */
export function addressOf({ socket, headers }: IncomingMessage, gate: Gate): string {
  return gate.addressOf(socket.remoteAddress, headers)
}

/** The parameter in which a browser's EventSource, which cannot set headers, brings its token. */
export const ACCESS_TOKEN = 'access_token'

function tokenInQuery(ctx: Context): string | undefined {
  if (ctx.path !== '/events' || !ctx.get('Accept').includes('text/event-stream')) return undefined
  return new URLSearchParams(ctx.querystring).get(ACCESS_TOKEN) ?? undefined
}

export function principalOf(ctx: Context): Principal | undefined {
  return ctx.state.principal as Principal | undefined
}

/** The refusal, with the headers that it comes with. */
export function refusalOf(ctx: Context, { access }: Gate, refused: Refused): Refusal {
  if (refused.refused === 'TooManyRequests') {
    ctx.set('Retry-After', String(refused.waitSeconds))
    return new Refusal(
      'TooManyRequests',
      `Too many passwords, or too many wrong ones, came from this address; try again in ${refused.waitSeconds} s.`,
    )
  }
  const challenges = access?.challenges() ?? []
  ctx.set('WWW-Authenticate', [...challenges])
  return new Refusal('Unauthenticated', `Say who you are, by one of: ${access?.schemes.join(', ')}.`)
}

function isPreflight(ctx: Context): boolean {
  return ctx.method === 'OPTIONS' && ctx.get('Origin') !== '' && ctx.get('Access-Control-Request-Method') !== ''
}
