import Router from '@koa/router'
import Koa, { type Context, type Middleware } from 'koa'
import type { Logger } from 'pino'
import type { Gate } from '../access/gate.ts'
import type { Position } from '../events/event.ts'
import { type AdminOptions, adminRoutes } from './admin.ts'
import { type ApiResource, reflectsViews } from './api.ts'
import { isOwnPath, originForm, publicPath } from './base-path.ts'
import { type DocsOptions, docRoutes } from './docs.ts'
import { crossOrigin, guard, principalOf } from './guard.ts'
import { securityHeaders } from './headers.ts'
import { jsonBody } from './koa-body.ts'
import { type MetricsOptions, metricsRoutes } from './metrics.ts'
import { isClientGone, problems } from './problems.ts'
import { readOnly } from './read-only.ts'
import type { Observe } from './request-times.ts'
import { requestIdOf } from './requests.ts'
import { apiResource } from './resource.ts'
import { statics } from './statics.ts'
import { tokenRoutes } from './tokens.ts'

export interface AppOptions {
  /** What is served under `/api` and `/events`. */
  readonly resources: readonly ApiResource[]
  readonly bodyBytes: number
  /** Of the last event that readers see. */
  readonly position: () => Position
  readonly admin: AdminOptions
  readonly docs: DocsOptions
  readonly metrics: MetricsOptions
  readonly observe: Observe
  readonly gate: Gate
  /** Where nothing can be written: what those are told who try. */
  readonly readOnly?: string | undefined
  readonly corsCredentials: boolean
  readonly contentSecurityPolicy: string
  /** The user's own files; undefined for none. */
  readonly wwwroot: string | undefined
  /** The packaged pages, and what the build has put beside them: served where `wwwroot` has no file of that name. */
  readonly pages: string
  readonly builtPages: string
  /** Of the user: before authentication, so that a request that it changes is authorized as what it became. */
  readonly middleware: readonly Middleware[]
  readonly log: Logger
  readonly newId: () => string
}

/** The packaged page at `/`. It has a name of its own, as a user's `index.html` is served before it. */
const HOME = 'collections.html'

export function createApp(options: AppOptions): Koa {
  const app = new Koa()
  const { log, newId, gate } = options
  app.on('error', (error: Error & { code?: string; expose?: boolean }) => {
    // A middleware of the user may throw a status that is meant for the client.
    if (!isClientGone(error) && !error.expose) log.error({ err: error }, 'a response failed')
  })
  app.use(inOriginForm)
  app.use(identify(newId))
  app.use(answered(options.observe))
  app.use(securityHeaders(options.contentSecurityPolicy))
  app.use(crossOrigin(gate, options.corsCredentials))
  for (const middleware of options.middleware) app.use(middleware)
  app.use(journalPosition(options.position))
  app.use(problems(log))
  app.use(guard(gate))
  app.use(serverOptions)
  app.use(slashAfterBasePath)
  if (options.readOnly !== undefined) app.use(readOnly(options.readOnly))
  for (const routes of [
    apiRoutes(options),
    adminRoutes(options.admin),
    docRoutes(options.docs),
    metricsRoutes(options.metrics),
    tokenRoutes(gate),
  ] satisfies Router[]) {
    app.use(routes.routes() as unknown as Middleware)
  }
  const { streams } = options.docs
  if (options.wwwroot !== undefined) app.use(statics(options.wwwroot, streams))
  app.use(statics(options.pages, streams, HOME))
  app.use(statics(options.builtPages, streams))
  return app
}

/** `/api` and `/events`, by the routes that the hot path has, too. */
function apiRoutes({ resources, bodyBytes }: AppOptions): Router {
  const router = new Router({ sensitive: true })
  const body = jsonBody(bodyBytes)
  for (const resource of resources) apiResource(router, resource, body)
  return router
}

const inOriginForm: Middleware = (ctx, next) => {
  const path = originForm(ctx.url)
  if (path !== ctx.url) ctx.url = path
  return next()
}

/** The base path without the slash at its end: relative addresses in pages need that slash. */
const slashAfterBasePath: Middleware = (ctx, next) => {
  const base = publicPath(ctx.res, '')
  if (base === '' || ctx.path !== base || isOwnPath(base)) return next()
  ctx.status = 308
  ctx.redirect(`${base.slice(base.lastIndexOf('/') + 1)}/${ctx.search}`)
}

/** `OPTIONS *` asks about the server as a whole (RFC 9110 §9.3.7). */
const serverOptions: Middleware = (ctx, next) => {
  if (ctx.method !== 'OPTIONS' || ctx.url !== '*') return next()
  ctx.status = 200
  ctx.set('Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS')
  ctx.body = ''
}

/** Who asks, and by which id the request is found again in journal and log. */
function identify(newId: () => string): Middleware {
  return async (ctx, next) => {
    ctx.state.requestId = requestIdOf(ctx.headers, newId)
    ctx.state.actor = 'anonymous'
    ctx.set('X-Request-Id', ctx.state.requestId as string)
    await next()
  }
}

/** Observes each response once it is made. */
function answered(observe: Observe): Middleware {
  return async (ctx, next) => {
    const began = performance.now()
    await next()
    const { method, path, state, status } = ctx
    observe({ method, path, requestId: state.requestId as string }, routeOf(ctx), status, performance.now() - began)
  }
}

/** As it was registered; static files are one, and what there is not is another. */
function routeOf({ _matchedRoute: route, status }: Context): string {
  if (typeof route === 'string') return route
  return status < 400 ? 'static' : 'none'
}

/** Every answer under /api to somebody who may in says which position it reflects; a write says its own. */
function journalPosition(position: () => number): Middleware {
  return async (ctx, next) => {
    await next()
    if (reflectsViews(ctx.path) && principalOf(ctx) && !ctx.response.get('Journal-Position')) {
      ctx.set('Journal-Position', String(position()))
    }
  }
}
