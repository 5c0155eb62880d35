import { Readable } from 'node:stream'
import Router from '@koa/router'
import type { Context } from 'koa'
import type { ImportOutcome } from '../commands/outcome.ts'
import type { Position } from '../events/event.ts'
import { principalOf } from './guard.ts'
import { jsonBody } from './koa-body.ts'
import { NDJSON_TYPE, sendJson } from './media-types.ts'
import { checkBuilt } from './once-built.ts'
import { resource } from './resource.ts'
import { type Reset, type RestorationOptions, resetAll, restore } from './restoration.ts'
import { Verification, type Verify } from './verification.ts'

export interface Health {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly [name: string]: unknown
}

export interface ReloadedSettings {
  readonly users: number
  readonly apiKeys: number
  /** The collections with a schema. */
  readonly schemas: readonly string[]
  /** The names of other settings that have changed. */
  readonly restartRequired: readonly string[]
}

export interface AdminOptions extends RestorationOptions {
  readonly health: () => Health
  /** The active authentication schemes; none if authentication is off. */
  readonly schemes: readonly string[]
  /** The field of the event time of each collection that has one. */
  readonly eventTime: Readonly<Record<string, string>>
  /** Warnings about settings, shown to admins only. */
  readonly warnings: () => readonly string[]
  readonly reload: () => Promise<ImportOutcome>
  readonly reloadSettings: () => Promise<ReloadedSettings>
  readonly snapshot: () => Promise<Position>
  /** Undefined unless the settings offer it. */
  readonly reset: Reset | undefined
  /** Undefined if the server does not own the journal. */
  readonly verify: Verify
  readonly bodyBytes: number
}

export function adminRoutes(options: AdminOptions): Router {
  const { health, schemes, eventTime, warnings, building, reload, reloadSettings, snapshot, reset, verify } = options
  const { journal, bodyBytes } = options
  const router = new Router({ sensitive: true })

  resource(router, '/health', {
    GET: (ctx) => {
      const state = health()
      ctx.set('Cache-Control', 'no-store')
      const who = principalOf(ctx)
      const access = { schemes, actor: who?.actor ?? null, role: who?.role ?? null }
      const isAdmin = who?.role === 'admin'
      const shown = isAdmin ? state : (JSON.parse(JSON.stringify(state, withoutDetails)) as Health)
      const told = { ...shown, ...(who && { eventTime }), access, ...(isAdmin && { warnings: warnings() }) }
      sendJson(ctx, JSON.stringify(told), state.status === 'unavailable' ? 503 : 200)
    },
  })

  resource(router, '/admin/reload', {
    POST: async (ctx) => {
      checkBuilt(building())
      const { basis, events, conflicts, basedOn } = await reload()
      ctx.set('Journal-Position', String(basis + events))
      sendJson(ctx, JSON.stringify({ position: basis + events, events, basedOn, conflicts }))
    },
  })

  resource(router, '/admin/settings/reload', {
    POST: async (ctx) => sendJson(ctx, JSON.stringify(await reloadSettings())),
  })

  resource(router, '/admin/snapshot', {
    POST: async (ctx) => {
      checkBuilt(building())
      const position = await snapshot()
      ctx.set('Journal-Position', String(position))
      sendJson(ctx, JSON.stringify({ position }))
    },
  })

  const verification = new Verification(verify, journal)
  resource(router, '/admin/verify', {
    POST: (ctx) => {
      const { lines, stop } = verification.begin()
      ctx.res.once('close', stop)
      ctx.set('Content-Type', NDJSON_TYPE)
      ctx.set('Cache-Control', 'no-store')
      ctx.body = Readable.from(lines)
    },
  })

  const restoring = { POST: (ctx: Context) => restore(ctx, options) }
  const body = jsonBody(bodyBytes)
  resource(router, '/admin/restore', restoring, { body })
  if (reset) resource(router, '/admin/reset', { POST: (ctx) => resetAll(ctx, reset) }, { body })

  return router
}

/** Error details name items and paths, so only admins see them. */
function withoutDetails(name: string, value: unknown): unknown {
  return name === 'detail' || name === 'cut' || name === 'urls' || name === 'segments' ? undefined : value
}
