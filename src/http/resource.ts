import type Router from '@koa/router'
import type { RouterMiddleware } from '@koa/router'
import type { Context, Middleware } from 'koa'
import type { Principal } from '../access/accounts.ts'
import { Refusal } from '../runtime/errors.ts'
import { ApiRequest, type ApiResource, type Method, Reply } from './api.ts'
import { publicPath } from './base-path.ts'
import { principalOf } from './guard.ts'
import { bodyOf } from './koa-body.ts'
import { PATCH_TYPES } from './media-types.ts'

export type Route = (ctx: Context) => void | Promise<void>

/** Whether requests with this method have a body that is read. */
export function takesBody(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Serves a resource through Koa. Calls `body` when the route reads the body. */
export function apiResource(router: Router, { path, routes, methodsAt }: ApiResource, body: Middleware): void {
  const throughKoa = Object.entries(routes).map(([method, route]): [string, Route] => [
    method,
    async (ctx) => {
      const reply = new Reply()
      const request = new ApiRequest(ctx.req, {
        path: ctx.path,
        querystring: ctx.querystring,
        base: publicPath(ctx.res, ''),
        principal: principalOf(ctx) as Principal,
        requestId: ctx.state.requestId as string,
        bytes: async () => {
          await body(ctx, async () => {})
          return bodyOf(ctx)
        },
      })
      try {
        await route(request, reply)
      } finally {
        if (reply.position !== undefined) ctx.set('Journal-Position', String(reply.position))
        for (let at = 0; at < reply.headers.length; at += 2) {
          const [name, value] = reply.headers.slice(at, at + 2) as [string, string]
          if (name === 'Vary') ctx.vary(value)
          else ctx.set(name, value)
        }
      }
      ctx.status = reply.status
      if (reply.body !== undefined) ctx.body = reply.body
    },
  ])
  resource(router, path, Object.fromEntries(throughKoa), { methodsAt })
}

interface ResourceOptions {
  /** Reads the bodies of requests that have one. */
  readonly body?: Middleware
  readonly methodsAt?: ApiResource['methodsAt']
}

/** Serves one resource: its methods, HEAD beside GET, OPTIONS, and 405 with `Allow` for other methods. */
export function resource(
  router: Router,
  path: string,
  routes: Readonly<Partial<Record<Method, Route>>>,
  { body, methodsAt = () => Object.keys(routes) as Method[] }: ResourceOptions = {},
): void {
  for (const [method, route] of Object.entries(routes)) {
    const served = (ctx: Context): void | Promise<void> => route(ctx)
    const all = body && takesBody(method) ? [body, served] : [served]
    router.register(path, method === 'GET' ? ['GET', 'HEAD'] : [method], all as unknown as RouterMiddleware[])
  }
  router.options(path, (ctx) => {
    ctx.status = 200
    const methods = methodsAt(ctx.path)
    ctx.set('Allow', allowOf(methods))
    if (methods.includes('PATCH')) ctx.set('Accept-Patch', PATCH_TYPES.join(', '))
    ctx.body = ''
  })
  router.all(path, (ctx) => {
    const allow = allowOf(methodsAt(ctx.path))
    ctx.set('Allow', allow)
    throw notAllowed(ctx.method, allow)
  })
}

/** The `Allow` header. */
export function allowOf(methods: readonly Method[]): string {
  return [...methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')
}

export function notAllowed(method: string, allow: string): Refusal {
  return new Refusal('MethodNotAllowed', `${method} is not allowed here; these are: ${allow}.`)
}
