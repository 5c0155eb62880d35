import Router from '@koa/router'
import type { TakenInEdit } from '../projections/data-file/connection.ts'
import { sendJson } from './answers.ts'
import { principalOf } from './guard.ts'
import { resource } from './resource.ts'

export interface Health {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly [name: string]: unknown
}

export interface AdminOptions {
  readonly health: () => Health
  /** What only admins are shown of it. */
  readonly warnings: readonly string[]
  readonly reload: () => Promise<TakenInEdit>
}

export function adminRoutes({ health, warnings, reload }: AdminOptions): Router {
  const router = new Router({ sensitive: true })

  resource(router, '/health', {
    GET: (ctx) => {
      const state = health()
      ctx.set('Cache-Control', 'no-store')
      const isAdmin = principalOf(ctx)?.role === 'admin'
      sendJson(
        ctx,
        JSON.stringify(isAdmin ? { ...state, warnings } : state),
        state.status === 'unavailable' ? 503 : 200,
      )
    },
  })

  resource(router, '/admin/reload', {
    POST: async (ctx) => {
      const { basis, events, conflicts } = await reload()
      ctx.set('Journal-Position', String(basis + events))
      sendJson(ctx, JSON.stringify({ position: basis + events, events, conflicts }))
    },
  })

  return router
}
