import { Readable } from 'node:stream'
import type Router from '@koa/router'
import type { Context } from 'koa'
import { Refusal } from '../errors.ts'
import { LongText } from '../projections/query/answer.ts'
import { type ApiResource, isGone, Reply } from './api.ts'
import { type BodySource, PATCH_TYPES } from './bodies.ts'
import { principalOf } from './guard.ts'
import { authorOf } from './requests.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type Route = (ctx: Context) => void | Promise<void>

/** Serves a resource under `/api` through Koa. */
export function apiResource(router: Router, { path, routes }: ApiResource, bodyOf: (ctx: Context) => BodySource): void {
  const throughKoa = Object.entries(routes).map(([method, route]): [string, Route] => [
    method,
    async (ctx) => {
      const reply = new Reply()
      const { bytes } = bodyOf(ctx)
      try {
        const isAdmin = principalOf(ctx)?.role === 'admin'
        await route({ ...partsOf(ctx), author: authorOf(ctx), isAdmin, bytes, isGone: () => isGone(ctx.req) }, reply)
      } finally {
        if (reply.position !== undefined) ctx.set('Journal-Position', String(reply.position))
        for (let at = 0; at < reply.headers.length; at += 2) {
          ctx.set(reply.headers[at] as string, reply.headers[at + 1] as string)
        }
      }
      ctx.status = reply.status
      if (reply.body instanceof LongText) {
        ctx.body = Readable.from(reply.body.pieces)
        ctx.length = reply.body.bytes
      } else if (reply.body !== undefined) ctx.body = reply.body
    },
  ])
  resource(router, path, Object.fromEntries(throughKoa))
}

function partsOf({ method, path, querystring, headers }: Context) {
  return { method, path, querystring, headers }
}

/** Serves one resource: its methods, HEAD beside GET, OPTIONS, and for every other method 405 with what is allowed. */
export function resource(router: Router, path: string, routes: Readonly<Partial<Record<Method, Route>>>): void {
  const methods = Object.keys(routes) as Method[]
  const allow = [...methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(', ')
  for (const [method, route] of Object.entries(routes)) {
    router.register(path, method === 'GET' ? ['GET', 'HEAD'] : [method], (ctx) => route(ctx))
  }
  router.options(path, (ctx) => {
    ctx.status = 200
    ctx.set('Allow', allow)
    if (routes.PATCH) ctx.set('Accept-Patch', PATCH_TYPES.join(', '))
    ctx.body = ''
  })
  router.all(path, (ctx) => {
    ctx.set('Allow', allow)
    throw new Refusal('MethodNotAllowed', `${ctx.method} is not allowed here; these are: ${allow}.`)
  })
}
