import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { ClusterJournal, type ClusterJournalOptions } from '../../src/cluster/cluster-journal.ts'
import { ClusterFigures } from '../../src/cluster/figures.ts'
import type { RecordStream } from '../../src/cluster/record-stream.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { until } from './deadline.ts'
import type { Scope } from './directory.ts'
import { type NatsServer, startNats } from './nats.ts'
import { type RunningProgram, startProgram } from './server.ts'

export const SILENT = pino({ level: 'silent' })

export interface OpenedClusterJournal {
  readonly journal: ClusterJournal
  /** The records that it had when it was opened, and those that it followed, in order. */
  readonly seen: readonly Recorded[]
  /** The errors that would have ended the process. */
  readonly failures: readonly unknown[]
  /** How often it ceased to lead. */
  readonly lost: () => number
}

/** One node's journal on a stream, following it. */
export async function openClusterJournal(
  stream: RecordStream,
  files: Files,
  directory: string,
  options: Partial<
    Pick<ClusterJournalOptions, 'now' | 'segmentBytes' | 'compress' | 'node' | 'hasRoom' | 'project'>
  > = {},
): Promise<OpenedClusterJournal> {
  const seen: Recorded[] = []
  const failures: unknown[] = []
  let lost = 0
  const journal = await ClusterJournal.open({
    stream,
    files,
    directory,
    node: options.node ?? 'node',
    now: options.now ?? (() => new Date('2026-11-20T12:00:00.000Z')),
    newId: randomUUID,
    figures: new ClusterFigures(),
    segmentBytes: options.segmentBytes ?? 64 * 1024 * 1024,
    ...(options.compress && { compress: options.compress }),
    ...(options.hasRoom && { hasRoom: options.hasRoom }),
    ...(options.project && { project: options.project }),
    lost: () => lost++,
    failed: (error) => failures.push(error),
  })
  await walk(files, directory, (recorded) => seen.push(recorded))
  journal.follow((recorded) => void seen.push(recorded))
  await journal.begin()
  return { journal, seen, failures, lost: () => lost }
}

export interface RunningCluster {
  readonly nats: readonly NatsServer[]
  readonly nodes: RunningProgram[]
  readonly flags: readonly string[]
  /** Starts a node on a directory of its own, or on one that a node had before. */
  start(directory?: string): Promise<RunningProgram>
}

export interface ClusterOptions {
  readonly nodes?: number
  readonly servers?: 1 | 3
  /** The data file of the first node. */
  readonly data?: unknown
  readonly flags?: readonly string[]
  readonly nats?: readonly NatsServer[]
  /** Through what the nodes reach NATS; default: directly. */
  readonly urls?: (node: number) => readonly string[]
  readonly env?: NodeJS.ProcessEnv
  readonly stream?: string
}

/** Three nats-servers and three nodes on them, as a user runs them; they end with the test. */
export async function startCluster(t: Scope, options: ClusterOptions = {}): Promise<RunningCluster> {
  const { servers = 3, nodes = 3, data } = options
  const nats = options.nats ?? (await startNats(t, { servers }))
  const flags = [
    '--Journal.Type',
    'jetstream',
    '--Journal.Stream',
    options.stream ?? `test-${randomUUID()}`,
    '--Journal.Replicas',
    String(nats.length),
    '--Api.UpsertOnPut',
    'true',
    '--Limits.WaitSeconds',
    '120',
    ...(options.flags ?? []),
  ]
  const started: RunningProgram[] = []
  let count = 0
  const start = async (directory?: string): Promise<RunningProgram> => {
    const urls = options.urls?.(count++) ?? nats.map(({ url }) => url)
    const server = await startProgram(t, {
      ...(directory === undefined ? {} : { directory }),
      ...(started.length === 0 && data !== undefined ? { data } : {}),
      ...(options.env && { env: options.env }),
      flags: [...flags, '--Journal.Servers', urls.join(',')],
    })
    started.push(server)
    return server
  }
  if (nodes > 0) await start()
  await Promise.all(Array.from({ length: Math.max(0, nodes - 1) }, () => start()))
  return { nats, nodes: started, flags, start }
}

export interface ClusterHealth {
  readonly status: string
  readonly position: number
  readonly cluster: {
    readonly role: 'leader' | 'follower'
    readonly node: string
    readonly leader?: string
    readonly lag: number
    readonly isConnected: boolean
    readonly peers: readonly { readonly node: string }[]
  }
  readonly dataFile?: { readonly state: string; readonly position: number }
  readonly store?: { readonly state: string; readonly position: number }
}

export async function healthOf(server: RunningProgram): Promise<ClusterHealth> {
  return (await (await server.fetch('/health')).json()) as ClusterHealth
}

/** The leader, and the others. */
export async function rolesOf(
  nodes: readonly RunningProgram[],
): Promise<{ readonly leader: RunningProgram; readonly followers: readonly RunningProgram[] }> {
  return until('a node leads', async () => {
    // A connection that was kept alive may have come to its end just now.
    const healths = await Promise.all(nodes.map((node) => healthOf(node).catch(() => undefined)))
    if (healths.includes(undefined)) return undefined
    const leader = nodes[healths.findIndex((health) => health?.cluster.role === 'leader')]
    return leader && { leader, followers: nodes.filter((node) => node !== leader) }
  })
}
