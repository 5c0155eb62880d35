import type { Context, Middleware } from 'koa'
import { isSafe } from '../access/roles.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiResource } from './api.ts'

/** The resources without their writing routes. */
export function readable(resources: readonly ApiResource[]): readonly ApiResource[] {
  return resources.map(({ path, routes: { GET } }) => ({ path, routes: { ...(GET && { GET }) } }))
}

/** Middleware of a read-only server: responds to all writes with 405, and offers reading methods only. */
export function readOnly(why: string): Middleware {
  return async (ctx, next) => {
    const allowed = allowedOn(ctx)
    if (allowed !== undefined && !isSafe(ctx.method)) {
      ctx.set('Allow', allowed)
      throw new Refusal('MethodNotAllowed', why)
    }
    await next()
    if (allowed !== undefined && ctx.response.get('Allow') !== '') ctx.set('Allow', allowed)
  }
}

/** Undefined for paths that nobody writes to. */
function allowedOn({ path }: Context): string | undefined {
  if (/^\/api(\/|$)/i.test(path)) return 'GET, HEAD, OPTIONS'
  return /^\/admin(\/|$)/i.test(path) && !changesNoData(path) ? 'OPTIONS' : undefined
}

/** Whether a read-only server offers all methods of a path: reading the settings again changes no data. */
export function changesNoData(path: string): boolean {
  return /^\/admin\/settings\//i.test(path)
}
