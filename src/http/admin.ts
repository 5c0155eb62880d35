import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import type { ImportOutcome } from '../commands/handler.ts'
import { type Damage, damageText } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import type { Journal, Origin } from '../events/journal.ts'
import { parseFlag } from '../query/parameter.ts'
import { parseParameters } from '../query/query.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import type { Asker } from '../runtime/turns.ts'
import type { Resource, Step } from './exchange.ts'
import { NDJSON_TYPE } from './media-types.ts'
import { type BuildProgress, checkBuilt } from './pipeline.ts'
import { authorOf, BULK_PARAMETERS, DRY_RUN, refuseIgnoredHeaders, refuseUnknown } from './requests.ts'
import { type Reset, type RestorationOptions, resetAll, restore } from './restoration.ts'

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
  /** Undefined if nothing is written. */
  readonly retention: RetentionActions | undefined
  /** Undefined unless the settings offer it. */
  readonly reset: Reset | undefined
  readonly verify: Verify
}

/** The rules by which items expire. */
interface RetentionActions {
  /** Counts what would expire if all rules were confirmed now, by collection. */
  preview(asker: Asker): Promise<readonly object[]>
  /** Resolves with the position. */
  confirm(origin: Origin): Promise<Position>
}

/** `/health` and `/admin`. */
export function adminResources(options: AdminOptions): readonly Resource[] {
  const { health, schemes, eventTime, warnings, building, reload, reloadSettings, snapshot, retention, reset, verify } =
    options
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

  const confirmRules: Step = async (request, reply) => {
    if (!retention) throw new Refusal('Unavailable', 'Nothing expires on a server that only reads.')
    refuseIgnoredHeaders(request)
    const parameters = parseParameters(request.querystring, MOST_PARAMETERS)
    refuseUnknown(parameters, BULK_PARAMETERS)
    const isDryRun = parseFlag(parameters, DRY_RUN)
    const collections = await retention.preview({ isGone: () => request.isGone() })
    if (!isDryRun) reply.position = await retention.confirm(authorOf(request))
    reply.json(JSON.stringify({ position: reply.position ?? options.views.position, dryRun: isDryRun, collections }))
  }

  const resetData: Step | undefined = reset && ((request, reply) => resetAll(request, reply, reset, options))

  const verifyJournal: Step = (_request, reply) => {
    const check = verification.join()
    const body = Readable.from(progressOf(check))
    body.once('close', () => verification.leave(check))
    reply.set('Cache-Control', 'no-store')
    reply.forbidCompression()
    reply.send(NDJSON_TYPE, body)
  }

  return [
    { path: '/health', routes: { GET: showHealth } },
    { path: '/admin/reload', steps, routes: { POST: importEdits } },
    {
      path: '/admin/settings/reload',
      routes: { POST: async (_request, reply) => reply.json(JSON.stringify(await reloadSettings())) },
    },
    { path: '/admin/snapshot', steps, routes: { POST: writeDataFile } },
    { path: '/admin/retention', steps, routes: { POST: confirmRules } },
    { path: '/admin/verify', routes: { POST: verifyJournal } },
    { path: '/admin/restore', steps, routes: { POST: (request, reply) => restore(request, reply, options) } },
    ...(resetData ? [{ path: '/admin/reset', steps, routes: { POST: resetData } }] : []),
  ]
}

/** Parameters of an address that takes one. */
const MOST_PARAMETERS = 16

/** Error details and rules name items, collections and paths, so only admins see them. */
function withoutDetails(name: string, value: unknown): unknown {
  return name === 'retention' ||
    name === 'detail' ||
    name === 'cut' ||
    name === 'damage' ||
    name === 'urls' ||
    name === 'segments'
    ? undefined
    : value
}

export interface MetricsOptions {
  /** The current metrics in the format of `contentType`. */
  text(): Promise<string>
  readonly contentType: string
}

/** `/metrics` for Prometheus. */
export function metricsResource({ text, contentType }: MetricsOptions): Resource {
  const showMetrics: Step = async (_request, reply) => {
    reply.send(contentType, await text())
    // It shows what holds the memory when that is in use.
    reply.isAlwaysSent = true
    reply.set('Cache-Control', 'no-store')
  }
  return { path: '/metrics', routes: { GET: showMetrics } }
}

/** Checks a journal; reports its progress to `rest` and awaits it. Resolves with its damage. */
type Verify = (rest: (checked: Position) => Promise<void>) => Promise<readonly Damage[]>

/** Runs one check of the journal at a time; requests during a check join it. */
export class Verification {
  readonly #verify: Verify
  readonly #journal: Pick<Journal, 'head'>
  #check: SharedCheck | undefined

  constructor(verify: Verify, journal: Pick<Journal, 'head'>) {
    this.#verify = verify
    this.#journal = journal
  }

  /** The check in progress, or a new one. It ends early when all readers have left. */
  join(): SharedCheck {
    const check = this.#check ?? this.#start()
    check.readers++
    return check
  }

  leave(check: SharedCheck): void {
    check.readers--
    if (check.readers === 0) this.#forget(check)
  }

  #start(): SharedCheck {
    const { head } = this.#journal
    const check: SharedCheck = { head, position: 0, readers: 0, result: Promise.resolve({}) }
    const verified = this.#verify(async (position) => {
      check.position = Math.min(position, check.head)
      await setImmediate()
      if (check.readers === 0) throw new Error('nobody wants to know any more')
    })
    check.result = resultOf(verified, check)
    const over = (): void => this.#forget(check)
    check.result.then(over, over)
    this.#check = check
    return check
  }

  #forget(check: SharedCheck): void {
    if (this.#check === check) this.#check = undefined
  }
}

interface SharedCheck {
  readonly head: Position
  /** Everything up to this position is verified. */
  position: Position
  readers: number
  result: Promise<object>
}

async function resultOf(verified: Promise<readonly Damage[]>, check: SharedCheck): Promise<object> {
  try {
    const damage = await verified
    const [first] = damage
    if (!first) return { ok: true, position: check.head }
    const problem = damageText(first)
    return { ok: false, position: first.position - 1, problem, damage }
  } catch (error) {
    if (!(error instanceof Corruption)) throw error
    return { ok: false, position: check.position, problem: error.message }
  }
}

/** How often to report progress. */
const TELL_MS = 100

/** Progress reports, and finally the result: one JSON text per line. */
export async function* progressOf(check: SharedCheck): AsyncGenerator<string> {
  for (;;) {
    yield `${JSON.stringify({ position: check.position, of: check.head })}\n`
    const over = await Promise.race([check.result, new Promise<void>((resolve) => setTimeout(resolve, TELL_MS))])
    if (!over) continue
    yield `${JSON.stringify(over)}\n`
    return
  }
}
