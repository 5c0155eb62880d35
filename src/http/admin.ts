import { Readable } from 'node:stream'
import type { ImportOutcome } from '../commands/outcome.ts'
import type { Position } from '../events/event.ts'
import type { Resource, Step } from './exchange.ts'
import { NDJSON_TYPE } from './media-types.ts'
import { type BuildProgress, checkBuilt } from './pipeline.ts'
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
  readonly building: () => BuildProgress
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
}

/** `/health` and `/admin`. */
export function adminResources(options: AdminOptions): readonly Resource[] {
  const { health, schemes, eventTime, warnings, building, reload, reloadSettings, snapshot, reset, verify } = options
  const steps: readonly Step[] = [() => checkBuilt(building())]
  const verification = new Verification(verify, options.journal)

  const showHealth: Step = ({ client }, reply) => {
    const state = health()
    reply.set('Cache-Control', 'no-store')
    const access = { schemes, actor: client?.actor ?? null, role: client?.role ?? null }
    const isAdmin = client?.role === 'admin'
    const shown = isAdmin ? state : (JSON.parse(JSON.stringify(state, withoutDetails)) as Health)
    const told = { ...shown, ...(client && { eventTime }), access, ...(isAdmin && { warnings: warnings() }) }
    reply.json(JSON.stringify(told), state.status === 'unavailable' ? 503 : 200)
  }

  const importEdits: Step = async (_request, reply) => {
    const { basis, events, conflicts, basedOn } = await reload()
    reply.position = basis + events
    reply.json(JSON.stringify({ position: reply.position, events, basedOn, conflicts }))
  }

  const writeDataFile: Step = async (_request, reply) => {
    reply.position = await snapshot()
    reply.json(JSON.stringify({ position: reply.position }))
  }

  const verifyJournal: Step = (_request, reply) => {
    const { lines, stop } = verification.begin()
    const body = Readable.from(lines)
    body.once('close', stop)
    reply.set('Cache-Control', 'no-store')
    reply.stream(NDJSON_TYPE, body)
  }

  return [
    { path: '/health', routes: { GET: showHealth } },
    { path: '/admin/reload', steps, routes: { POST: importEdits } },
    {
      path: '/admin/settings/reload',
      routes: { POST: async (_request, reply) => reply.json(JSON.stringify(await reloadSettings())) },
    },
    { path: '/admin/snapshot', steps, routes: { POST: writeDataFile } },
    { path: '/admin/verify', routes: { POST: verifyJournal } },
    { path: '/admin/restore', steps, routes: { POST: (request, reply) => restore(request, reply, options) } },
    ...(reset ? [{ path: '/admin/reset', steps, routes: { POST: resetWith(reset) } }] : []),
  ]
}

function resetWith(reset: Reset): Step {
  return (request, reply) => resetAll(request, reply, reset)
}

/** Error details name items and paths, so only admins see them. */
function withoutDetails(name: string, value: unknown): unknown {
  return name === 'detail' || name === 'cut' || name === 'urls' || name === 'segments' ? undefined : value
}

export interface MetricsOptions {
  /** The current metrics in the format of `contentType`. */
  text(): Promise<string>
  readonly contentType: string
}

/** `/metrics` for Prometheus. */
export function metricsResource({ text, contentType }: MetricsOptions): Resource {
  const showMetrics: Step = async (_request, reply) => {
    reply.body = await text()
    reply.status = 200
    reply.set('Content-Type', contentType)
    reply.set('Cache-Control', 'no-store')
  }
  return { path: '/metrics', routes: { GET: showMetrics } }
}
