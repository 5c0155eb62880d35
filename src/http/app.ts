import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import cors from '@koa/cors'
import Router, { type RouterMiddleware } from '@koa/router'
import Koa, { type Context, type Middleware } from 'koa'
import type { Gate } from '../access/gate.ts'
import { neededRole } from '../access/roles.ts'
import { Refusal } from '../runtime/errors.ts'
import { basePathOf, isOwnPath } from './base-path.ts'
import { gatherBody } from './bodies.ts'
import { HttpRequest, type Method, Reply, type Resource, refuseMethod, type Step } from './exchange.ts'
import type { FastFrontOptions } from './fast-front.ts'
import { securityHeaders } from './headers.ts'
import { formBody } from './koa-body.ts'
import { headersOf, inOrder } from './pipeline.ts'
import { logEndedEarly } from './problems.ts'
import { requestIdOf } from './requests.ts'
import { type FileStreams, statics } from './statics.ts'

export interface AppOptions extends FastFrontOptions {
  readonly gate: Gate
  readonly corsCredentials: boolean
  /** As messages name the addresses of collections. */
  readonly collectionsAt: string
  readonly contentSecurityPolicy: string
  /** The directory of static files; undefined for none. */
  readonly wwwroot: string | undefined
  /** The packaged pages: served if `wwwroot` has no file of that name. */
  readonly pages: string
  readonly streams: FileStreams
  /** The middleware of a library's user. */
  readonly middleware: readonly Middleware[]
}

/** The packaged page at `/`. It is not named index.html, so that a user's `index.html` takes precedence. */
const HOME = 'home.html'

/** Serves all resources and static files with Koa. */
export function createApp(options: AppOptions): Koa {
  const app = new Koa()
  const { log, gate, wwwroot, streams } = options
  app.on('error', (error: Error & { code?: string; expose?: boolean }) => {
    // User middleware may throw errors that are meant for the client.
    if (!error.expose) logEndedEarly(log, error)
  })
  app.use(observed(options))
  app.use(securityHeaders(options.contentSecurityPolicy, join(options.pages, HOME)))
  app.use(crossOrigin(gate, options.corsCredentials))
  for (const middleware of options.middleware) app.use(middleware)
  app.use(throughPipeline(options))
  app.use(serverOptions)
  app.use(slashAfterBasePath)
  app.use(routerOf(options.resources).routes() as unknown as Middleware)
  if (wwwroot !== undefined) app.use(statics(wwwroot, streams))
  app.use(statics(options.pages, streams, { index: HOME, isBuilt: true }))
  return app
}

/** Begins and observes each request. Responses of user middleware get the common headers, too. */
function observed({ newId, observe }: AppOptions): Middleware {
  return async (ctx, next) => {
    const began = performance.now()
    const requestId = requestIdOf(ctx.headers, newId)
    ctx.state.requestId = requestId
    setHeaders(ctx, headersOf(requestId))
    await next()
    const { method, path, status } = ctx
    observe({ method, path, requestId }, routeOf(ctx), status, performance.now() - began)
  }
}

/** The pattern of the route; `static` for static files, `none` for unknown paths. */
function routeOf({ _matchedRoute: route, status }: Context): string {
  if (typeof route === 'string') return route
  return status < 400 ? 'static' : 'none'
}

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
function crossOrigin({ origins }: Gate, credentials: boolean): Middleware {
  return cors({
    origin: (ctx: Context) => (origins.allows(ctx.get('Origin'), ctx.host) ? ctx.get('Origin') : ''),
    allowMethods: ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH'],
    exposeHeaders: EXPOSED,
    credentials,
    maxAge: 600,
  }) as unknown as Middleware
}

/** Runs the steps before the route, and the route as their last one: the router's, or a file. */
function throughPipeline({ pipeline, bodyBytes, memory, collectionsAt }: AppOptions): Middleware {
  const readForm = formBody()
  return async (ctx, next) => {
    const request: HttpRequest = new HttpRequest(ctx.req, ctx.res, memory, {
      path: ctx.path,
      querystring: ctx.querystring,
      base: basePathOf(ctx.res),
      requestId: ctx.state.requestId as string,
      neededRole: isPreflight(ctx.req) ? undefined : neededRole(ctx.method, ctx.path),
      bytes: () => gatherBody(request, { bytes: bodyBytes, listBytes: bodyBytes }),
      fields: async () => {
        await readForm(ctx, async () => {})
        return (ctx.request as { body?: unknown }).body
      },
    })
    const reply = new Reply()
    ctx.state.exchange = { request, reply }
    const route = async (): Promise<void> => {
      await next()
      if (reply.status === 0 && ctx.status === 404 && ctx.body === undefined) throw nothingAt(request, collectionsAt)
    }
    await pipeline.run([...pipeline.access, route], request, reply)
    setHeaders(ctx, reply.headers)
    if (reply.position !== undefined) ctx.set('Journal-Position', String(reply.position))
    // A file is in the context already.
    if (reply.status === 0) return
    ctx.status = reply.status
    if (reply.body !== undefined) ctx.body = reply.body
    if (reply.body instanceof Readable && ctx.req.socket.destroyed) reply.body.destroy()
  }
}

/** Preflights carry no credentials. */
function isPreflight({ method, headers }: IncomingMessage): boolean {
  if (method !== 'OPTIONS') return false
  return Boolean(headers.origin) && Boolean(headers['access-control-request-method'])
}

function nothingAt({ base, path }: HttpRequest, collectionsAt: string): Refusal {
  return new Refusal('NotFound', `Nothing is served at ${base}${path}; collections are at ${base}${collectionsAt}.`)
}

function setHeaders(ctx: Context, headers: readonly string[]): void {
  const seen = new Set<string>()
  for (let at = 0; at < headers.length; at += 2) {
    const [name, value] = headers.slice(at, at + 2) as [string, string]
    if (name === 'Vary') ctx.vary(value)
    else if (seen.has(name)) ctx.append(name, value)
    else ctx.set(name, value)
    seen.add(name)
  }
}

/** `OPTIONS *` asks about the whole server (RFC 9110 §9.3.7). */
const serverOptions: Middleware = (ctx, next) => {
  if (ctx.method !== 'OPTIONS' || ctx.url !== '*') return next()
  ctx.status = 200
  ctx.set('Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS')
  ctx.body = ''
}

/** Redirects the base path without a slash at its end: relative addresses in pages need that slash. */
const slashAfterBasePath: Middleware = (ctx, next) => {
  const base = basePathOf(ctx.res)
  if (base === '' || ctx.path !== base || isOwnPath(base)) return next()
  ctx.status = 308
  ctx.redirect(`${base.slice(base.lastIndexOf('/') + 1)}/${ctx.search}`)
}

/** Serves each resource: its methods, HEAD beside GET, OPTIONS, and 405 with `Allow` for other methods. */
function routerOf(resources: readonly Resource[]): Router {
  const router = new Router({ sensitive: true })
  for (const { path, routes, steps = [], methodsAt, whyNot } of resources) {
    const methodsOf = methodsAt ?? (() => Object.keys(routes) as Method[])
    for (const [method, route] of Object.entries(routes)) {
      router.register(path, method === 'GET' ? ['GET', 'HEAD'] : [method], serving([...steps, route]))
    }
    router.options(path, serving([(request, reply) => reply.options(methodsOf(request.path))]))
    router.all(path, serving([(request, reply) => refuseMethod(request, reply, methodsOf(request.path), whyNot)]))
  }
  return router
}

function serving(steps: readonly Step[]): RouterMiddleware {
  return ((ctx: Context) => {
    const { request, reply } = ctx.state.exchange as { request: HttpRequest; reply: Reply }
    return inOrder(steps, request, reply)
  }) as unknown as RouterMiddleware
}
