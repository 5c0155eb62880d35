import Router from '@koa/router'
import { resource } from './resource.ts'

export interface MetricsOptions {
  /** The metrics as of now, in the form that `contentType` names. */
  text(): Promise<string>
  readonly contentType: string
}

/** `/metrics`: what the service does, for Prometheus. */
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
