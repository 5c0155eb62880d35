import type Router from '@koa/router'
import type { Context } from 'koa'
import { Refusal } from '../errors.ts'
import { PATCH_TYPES } from './bodies.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type Route = (ctx: Context) => void | Promise<void>

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
