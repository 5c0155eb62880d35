import { randomBytes } from 'node:crypto'
import type { ClusterFigures } from './cluster/figures.ts'
import type { Peer } from './cluster/node.ts'
import type { CommandHandler } from './commands/handler.ts'
import type { Rules } from './commands/rules.ts'
import { keyFieldsOf, type StoreStatus } from './durable-projections.ts'
import type { Projections } from './engine-projections.ts'
import type { EngineSurroundings } from './engine-surroundings.ts'
import { Ended } from './errors.ts'
import type { EventBus } from './events/bus.ts'
import type { CompressionOptions } from './events/compression.ts'
import type { Position } from './events/event.ts'
import type { Journal } from './events/journal.ts'
import type { JournalFigures } from './events/journal-figures.ts'
import type { SegmentStatus } from './events/segment-log.ts'
import type { TokenKeeping } from './open-gate.ts'
import type { DataFileStatus } from './projections/data-file/account.ts'
import type { TakenInEdit } from './projections/data-file/connection.ts'
import type { History } from './projections/history.ts'
import type { Past } from './projections/past.ts'
import type { Queries } from './projections/query/queries.ts'
import type { Views } from './projections/views.ts'
import type { Settings } from './settings.ts'

/** A journal that is open, and what depends on where it is kept. */
export interface JournalHost {
  readonly journal: Journal
  readonly projections: Projections
  readonly past: Past
  readonly queries: Queries
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'restore'>
  readonly figures: readonly HostFigures[]
  /** What those are told who try to write where nothing can be written. */
  readonly readOnly: string | undefined
  readonly tokens: TokenKeeping
  /** What whoever runs the server should know of where the journal is. */
  readonly warnings: readonly string[]
  /** The present that is served. */
  now(): Date
  /** Checks the journal's files; `rest` is told how far it came and waited for in between. */
  verify(rest: (checked: Position) => Promise<void>): Promise<void>
  /** Takes in what was edited by hand. */
  reload(): Promise<TakenInEdit>
  /** Writes the data file now; resolves with the position that it shows. */
  snapshot(): Promise<Position>
  /** Resolves when the store has all of the journal, and writes are taken. */
  start(): Promise<void>
  /** Resolves when the service is to begin although the start goes on: what can be read is read. */
  patience(starting: Promise<void>): Promise<void>
  healthOf(isStarted: boolean): EngineHealth
  /** Also after a start that failed or goes on. */
  close(): Promise<void>
}

/** What is counted for `/metrics`. */
export type HostFigures =
  | { readonly kind: 'journal'; readonly figures: JournalFigures; readonly segments: () => readonly SegmentStatus[] }
  | { readonly kind: 'cluster'; readonly figures: ClusterFigures }

/** Everything but the network: commands in, durable events out, projections kept. */
export interface Engine extends JournalHost {
  readonly views: Views
  readonly history: History
  readonly bus: EventBus
  /** How far the store is built from the journal; undefined when it is. Until then only the journal can be read. */
  building(): { readonly position: Position; readonly of: Position } | undefined
  health(): EngineHealth
}

/** How journal and projections are, as `/health` tells it. */
export interface EngineHealth {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly journal: { readonly id: string; readonly writable: boolean; readonly [name: string]: unknown }
  /** Where the journal is shared by several nodes. */
  readonly cluster?: ClusterHealth
  readonly dataFile?: DataFileStatus
  readonly replay?: { readonly speed: number; readonly from: Position; readonly until: Position; readonly time: string }
  readonly store?: StoreStatus
}

/** How a node of a cluster sees itself and the others. */
export interface ClusterHealth {
  readonly role: 'leader' | 'follower'
  readonly node: string
  readonly leader?: string
  /** Whether there is a NATS server at the other end. */
  readonly isConnected: boolean
  /** How many events others are known to have, and this node has not. */
  readonly lag: number
  readonly peers: readonly Peer[]
}

/** Starts the engine of a journal, wherever that is kept. A host whose start fails is closed. */
export async function openEngine<Host extends JournalHost>(
  host: Host,
  failed: EngineSurroundings['failed'],
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

/** How a journal's full segments are compressed. */
export function compressing(
  { compressAfter }: Pick<Settings, 'compressAfter'>,
  { schedule, log }: Pick<EngineSurroundings, 'schedule' | 'log'>,
): { readonly compress?: Omit<CompressionOptions, 'files'> } {
  return compressAfter === 'off' ? {} : { compress: { afterMs: 1000 * compressAfter, schedule, log } }
}

/** Of an id as json-server 1.0 makes it. */
const ID_BYTES = 8

/** Without schemas, what compiles them is not loaded. */
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
    faultsOf: hasSchemas ? (await import('./commands/schemas.ts')).compileSchemas(schemas) : () => [],
  }
}
