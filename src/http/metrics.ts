import Router from '@koa/router'
import { resource } from './resource.ts'

export interface MetricsOptions {
  /** The current metrics in the format of `contentType`. */
  text(): Promise<string>
  readonly contentType: string
}

/** `/metrics` for Prometheus. */
export function metricsRoutes({ text, contentType }: MetricsOptions): Router {
  const router = new Router({ sensitive: true })
  resource(router, '/metrics', {
    GET: async (ctx) => {
      const body = await text()
      ctx.set('Content-Type', contentType)
      ctx.set('Cache-Control', 'no-store')
      ctx.body = body
    },
  })
  return router
}
