import type { Context, Middleware } from 'koa'
import { Refusal } from '../errors.ts'
import type { ApiResource } from './api.ts'

const SAFE = ['GET', 'HEAD', 'OPTIONS']

/** What can be read of the resources. */
export function readable(resources: readonly ApiResource[]): readonly ApiResource[] {
  return resources.map(({ path, routes: { GET } }) => ({ path, routes: { ...(GET && { GET }) } }))
}

/**
 * For a server that can only be read: whatever would write is not allowed, be the request good or bad otherwise, and
 * nothing is offered that would (RFC 9110 §15.5.6).
 */
export function readOnly(why: string): Middleware {
  return async (ctx, next) => {
    const allowed = allowedOn(ctx)
    if (allowed !== undefined && !SAFE.includes(ctx.method)) {
      ctx.set('Allow', allowed)
      throw new Refusal('MethodNotAllowed', why)
    }
    await next()
    if (allowed !== undefined && ctx.response.get('Allow') !== '') ctx.set('Allow', allowed)
  }
}

/** Undefined where nothing is ever written. */
function allowedOn({ path }: Context): string | undefined {
  if (/^\/api(\/|$)/i.test(path)) return 'GET, HEAD, OPTIONS'
  return /^\/admin(\/|$)/i.test(path) ? 'OPTIONS' : undefined
}
