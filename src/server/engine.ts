import { randomBytes } from 'node:crypto'
import type { ClusterFigures } from '../cluster/figures.ts'
import type { Peer } from '../cluster/node.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { Rules } from '../commands/rules.ts'
import type { DataFileStatus } from '../data-file/account.ts'
import type { TakenInEdit } from '../data-file/connection.ts'
import type { EventBus } from '../events/bus.ts'
import type { CompressionOptions } from '../events/compression.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import type { JournalFigures } from '../events/journal-figures.ts'
import type { SegmentStatus } from '../events/segment-log.ts'
import type { History } from '../projections/history.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { Queries } from '../query/queries.ts'
import { Ended } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import { keyFieldsOf, type StoreStatus } from './durable-projections.ts'
import type { TokenStorage } from './open-gate.ts'
import type { Projections } from './projections.ts'

/** An open journal, with everything that depends on where it is stored. */
export interface JournalHost {
  readonly journal: Journal
  readonly projections: Projections
  readonly past: Past
  readonly queries: Queries
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'restore'>
  readonly figures: readonly HostFigures[]
  /** The message for attempts to write, if nothing can be written. */
  readonly readOnly: string | undefined
  readonly tokens: TokenStorage
  /** Messages for the operator about where the journal is stored. */
  readonly warnings: readonly string[]
  /** The current time of the served state. */
  now(): Date
  /** Checks the journal's files. Calls and awaits `rest` between batches. */
  verify(rest: (checked: Position) => Promise<void>): Promise<void>
  /** Imports edits of the data file. */
  reload(): Promise<TakenInEdit>
  /** Writes the data file now; resolves with the position that it shows. */
  snapshot(): Promise<Position>
  /** Resolves when the store is complete and writes are accepted. */
  start(): Promise<void>
  /** Resolves when the service should begin before the start is complete, and serve what does not need the store. */
  patience(starting: Promise<void>): Promise<void>
  healthOf(isStarted: boolean): EngineHealth
  /** May be called at any time, also while it starts or after a failed start. */
  close(): Promise<void>
}

/** The counters for `/metrics`. */
export type HostFigures =
  | { readonly kind: 'journal'; readonly figures: JournalFigures; readonly segments: () => readonly SegmentStatus[] }
  | { readonly kind: 'cluster'; readonly figures: ClusterFigures }

/** Everything except the network: commands, durable events, projections. */
export interface Engine extends JournalHost {
  readonly views: Views
  readonly history: History
  readonly bus: EventBus
  /** Progress of building the store; undefined when it is complete. Until then only the journal can be read. */
  building(): { readonly position: Position; readonly of: Position } | undefined
  health(): EngineHealth
}

/** The state of journal and projections for `/health`. */
export interface EngineHealth {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly journal: { readonly id: string; readonly writable: boolean; readonly [name: string]: unknown }
  /** Only in a cluster. */
  readonly cluster?: ClusterHealth
  readonly dataFile?: DataFileStatus
  readonly replay?: { readonly speed: number; readonly from: Position; readonly until: Position; readonly time: string }
  readonly store?: StoreStatus
}

/** The cluster as this node sees it. */
export interface ClusterHealth {
  readonly role: 'leader' | 'follower'
  readonly node: string
  readonly leader?: string
  /** Whether a NATS server is connected. */
  readonly isConnected: boolean
  /** How many events this node is known to be behind others. */
  readonly lag: number
  readonly peers: readonly Peer[]
}

/** Starts the engine of a journal. Closes the host when its start fails. */
export async function openEngine<Host extends JournalHost>(
  host: Host,
  failed: EngineDependencies['failed'],
): Promise<Host & Engine> {
  const { journal, projections } = host
  const { views, history, bus } = projections
  let isStarted = false
  const starting = host.start().then(() => {
    isStarted = true
  })
  starting.catch(() => {})
  try {
    await Promise.race([starting, host.patience(starting)])
  } catch (error) {
    await host.close().catch(() => {})
    throw error
  }
  starting.catch((error) => {
    if (!(error instanceof Ended)) failed(error)
  })
  return {
    ...host,
    views,
    history,
    bus,
    building: () => (isStarted ? undefined : { position: views.applied, of: journal.head }),
    health: () => host.healthOf(isStarted),
  }
}

/** Options for compressing full segments. */
export function compressing(
  { compressAfter }: Pick<Settings, 'compressAfter'>,
  { schedule, log }: Pick<EngineDependencies, 'schedule' | 'log'>,
): { readonly compress?: Omit<CompressionOptions, 'files'> } {
  return compressAfter === 'off' ? {} : { compress: { afterMs: 1000 * compressAfter, schedule, log } }
}

/** The random bytes of an id like those of json-server 1.0. */
const ID_BYTES = 8

/** Without schemas, ajv is not loaded. */
export async function rulesOf({ api, dataStore, limits, collections }: Settings): Promise<Rules> {
  const { schemas } = api
  const hasSchemas = Object.keys(schemas).length > 0
  const all = Object.entries(collections)
  return {
    idField: dataStore.idField,
    upsertOnPut: api.upsertOnPut,
    clientIdsOnPost: api.clientIdsOnPost,
    ...(api.compatibility === 'json-server' && { newId: () => randomBytes(ID_BYTES).toString('base64url') }),
    itemBytes: limits.bodyBytes,
    patchOperations: limits.patchOperations,
    keyFields: keyFieldsOf(collections),
    replacing: new Set(all.filter(([, { isReplacing }]) => isReplacing).map(([name]) => name)),
    times: new Map(all.flatMap(([name, { time }]) => (time ? [[name, time]] : []))),
    latest: new Map(all.flatMap(([name, { latest }]) => (latest ? [[name, latest]] : []))),
    hasSchema: (collection) => Object.hasOwn(schemas, collection),
    faultsOf: hasSchemas ? (await import('../commands/schemas.ts')).compileSchemas(schemas) : () => [],
  }
}
