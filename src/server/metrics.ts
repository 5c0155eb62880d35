import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import type { ClusterFigures } from '../cluster/figures.ts'
import type { ConnectionFigures } from '../http/connection-limits.ts'
import type { MetricsOptions } from '../http/metrics.ts'
import type { RequestTimes } from '../http/request-times.ts'
import type { IndexStatus, Queries } from '../query/queries.ts'
import type { Histogram } from '../runtime/histogram.ts'
import type { SocketFigures } from '../sockets/sockets.ts'
import type { Engine, EngineFigures } from './engine.ts'

export interface MetricsSources {
  readonly engine: Engine
  readonly requests: RequestTimes
  readonly connections: () => ConnectionFigures
  readonly sockets: () => SocketFigures
  readonly queries: Pick<Queries, 'list'>
  readonly version: string
  readonly ownsProcess: boolean
}

type Labels = Readonly<Record<string, string | number>>

interface Value {
  readonly value: number
  readonly labels?: Labels
  /** For metrics with several series of different names, such as histograms. */
  readonly metricName?: string
}

type Add = (type: 'counter' | 'gauge' | 'histogram', name: string, help: string, read: () => readonly Value[]) => void

const STORE_STATES = ['current', 'building', 'full'] as const
const ROLES = ['leader', 'follower'] as const
const DATA_FILE_STATES = ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] as const

/**
 * The metrics of `/metrics`. Values are read on request: frequent operations count in plain numbers, because
 * prom-client looks up labels on each call, and is used for the output only.
 */
export function metricsOf({
  engine,
  requests,
  connections,
  sockets,
  queries,
  version,
  ownsProcess,
}: MetricsSources): MetricsOptions {
  const registry = new Registry()
  if (ownsProcess) collectDefaultMetrics({ register: registry })
  const { journal, views } = engine

  const add: Add = (type, name, help, read) => {
    const metric = { name: `recollect_${name}`, help, type, aggregator: 'sum' }
    const get = async () => ({ ...metric, values: read() })
    registry.registerMetric({ ...metric, get } as unknown as Metric)
  }
  const { gauge } = singleValued(add)

  add('gauge', 'info', 'Always 1; the version is a label.', () => [{ value: 1, labels: { version } }])
  add(
    'histogram',
    'http_request_duration_seconds',
    'From the first look at a request until its answer is made (of a stream: begun), by method, route and status.',
    () =>
      [...requests.all()].flatMap(({ method, route, status, seconds }) =>
        series('recollect_http_request_duration_seconds', seconds, { method, route, status }),
      ),
  )

  gauge('journal_position', 'Of the last durable event.', () => journal.head)
  gauge('journal_writable', '1 while writes are taken, 0 on a full disk and after a failed sync.', () =>
    Number(engine.health().journal.writable),
  )
  gauge('views_position', 'Of the last event that readers see.', () => views.position)
  gauge('projection_lag_events', 'Durable events that readers do not see yet.', () => journal.head - views.position)
  for (const counted of engine.figures) {
    if (counted.kind === 'cluster') addCluster(engine, counted.figures, add)
    else addFiles(counted, add)
  }

  gauge('collections', 'Collections that there are.', () => views.counts().collections)
  gauge('items', 'Items of all collections.', () => views.counts().items)
  if (engine.health().dataFile) addDataFile(engine, add)
  if (engine.health().store) addStore(engine, add)
  addIndexes(queries, add)
  addConnections(connections, sockets, add)
  return { text: () => registry.metrics(), contentType: registry.contentType }
}

/** Metrics with a single value. */
function singleValued(add: Add, prefix = '') {
  const single = (type: 'gauge' | 'counter') => (name: string, help: string, read: () => number) =>
    add(type, prefix + name, help, () => [{ value: read() }])
  return { gauge: single('gauge'), counter: single('counter') }
}

function addDataFile(engine: Pick<Engine, 'health'>, add: Add): void {
  const { gauge } = singleValued(add)
  add('gauge', 'data_file_state', '1 for the state that the data file is in, 0 for the others.', () => {
    const now = engine.health().dataFile?.state
    return DATA_FILE_STATES.map((state) => ({ value: Number(state === now), labels: { state } }))
  })
  gauge('data_file_position', 'Of the event that the data file shows the state after.', () =>
    Number(engine.health().dataFile?.position ?? 0),
  )
  const behind = () => engine.health().dataFile?.behind
  gauge('data_file_behind_events', 'Events that the data file does not show yet.', () => behind()?.events ?? 0)
  gauge(
    'data_file_behind_bytes',
    'Approximate size, in the journal, of the events that the data file does not show.',
    () => behind()?.bytes ?? 0,
  )
  const next = () => engine.health().dataFile?.nextWrite
  add('gauge', 'data_file_next_write_timestamp_seconds', 'When the data file is written, if that is known.', () => {
    const write = next()
    return write && 'at' in write ? [{ value: Date.parse(write.at) / 1000 }] : []
  })
  add(
    'gauge',
    'data_file_next_write_bytes',
    'Bytes that the journal grows until the data file is written, where no time is known.',
    () => {
      const write = next()
      return write && 'afterJournalBytes' in write ? [{ value: write.afterJournalBytes }] : []
    },
  )
}

function addStore(engine: Pick<Engine, 'health'>, add: Add): void {
  const { gauge } = singleValued(add)
  add('gauge', 'store_state', '1 for the state that the store is in, 0 for the others.', () => {
    const now = engine.health().store?.state
    return STORE_STATES.map((state) => ({ value: Number(state === now), labels: { state } }))
  })
  gauge('store_position', 'Of the last event that is in the store.', () => engine.health().store?.position ?? 0)
  gauge('store_bytes', 'Of the file of the store; compact makes it smaller.', () => engine.health().store?.bytes ?? 0)
}

function addIndexes(queries: MetricsSources['queries'], add: Add): void {
  const ofIndexes = (figure: (index: IndexStatus) => number) => () =>
    queries.list().map((index) => {
      const { collection, path } = index
      return { value: figure(index), labels: { collection, path } }
    })
  add(
    'gauge',
    'index_entries',
    'Keys that an index has, by collection and paths.',
    ofIndexes(({ entries }) => entries),
  )
  add(
    'gauge',
    'index_bytes',
    'What an index takes in the store, about.',
    ofIndexes(({ bytes }) => bytes),
  )
  add(
    'gauge',
    'index_uses',
    'How often an index was used of late: after every 10,000 queries by half.',
    ofIndexes(({ uses }) => uses),
  )
  add(
    'gauge',
    'index_built_ratio',
    'How much of an index is built, 1 when it is in use.',
    ofIndexes(({ built = 1 }) => built),
  )
}

function addConnections(
  connections: MetricsSources['connections'],
  sockets: MetricsSources['sockets'],
  add: Add,
): void {
  const { gauge, counter } = singleValued(add)
  gauge('connections', 'Open TCP connections, those of sockets too.', () => connections().open)
  counter('refused_connections_total', 'Connections beyond a limit, which were answered with 503.', () => {
    return connections().refused
  })
  add('gauge', 'sockets', 'Open sockets, by kind.', () => {
    const { socketIo, plain } = sockets()
    return [
      { value: socketIo, labels: { kind: 'socket.io' } },
      { value: plain, labels: { kind: 'websocket' } },
    ]
  })
  gauge('subscriptions', 'Open subscriptions.', () => sockets().subscriptions)
  gauge('lagging_subscriptions', 'Subscriptions that get only the latest change of an item for now.', () => {
    return sockets().lagging
  })
  counter('lagged_total', 'How often a client was told that it is behind.', () => sockets().laggedEver)
  counter('dropped_clients_total', 'Clients that were disconnected because they did not read.', () => {
    return sockets().dropped
  })
}

/** The metrics of a journal in local files. */
function addFiles({ figures, segments }: EngineFigures & { readonly kind: 'journal' }, add: Add): void {
  const { counter } = singleValued(add, 'journal_')

  add('gauge', 'journal_file_bytes', 'Bytes of the files of the journal, plain and compressed.', () =>
    [false, true].map((compressed) => {
      const those = segments().filter((one) => one.compressed === compressed)
      const form = compressed ? 'compressed' : 'plain'
      return { value: those.reduce((sum, { size }) => sum + size, 0), labels: { form } }
    }),
  )
  counter('appended_events_total', 'Events that became durable since the start.', () => figures.events)
  counter('appended_bytes_total', 'Bytes of these events in the journal.', () => figures.bytes)
  add('histogram', 'journal_flush_duration_seconds', 'From the first byte of a flush until it was synced.', () =>
    series('recollect_journal_flush_duration_seconds', figures.flushSeconds),
  )
  add('histogram', 'journal_flush_writes', 'Writes that shared a flush.', () =>
    series('recollect_journal_flush_writes', figures.flushWrites),
  )
  counter('refused_for_space_total', 'Writes that there was no space for on the disk.', () => figures.refusedForSpace)
}

/** Metrics of a cluster node. */
function addCluster(engine: Pick<Engine, 'health'>, figures: ClusterFigures, add: Add): void {
  const { gauge, counter } = singleValued(add, 'cluster_')

  add('gauge', 'cluster_role', '1 for the role that the node has, 0 for the other.', () => {
    const now = engine.health().cluster?.role
    return ROLES.map((role) => ({ value: Number(role === now), labels: { role } }))
  })
  gauge(
    'lag_events',
    'Events that other nodes are known to have, and this one has not.',
    () => engine.health().cluster?.lag ?? 0,
  )
  gauge('peers', 'Other nodes heard of in the last seconds.', () => engine.health().cluster?.peers.length ?? 0)
  gauge('connected', '1 while a NATS server is connected.', () => Number(engine.health().cluster?.isConnected))
  counter('reconnects_total', 'How often a NATS server was found again.', () => figures.reconnects)
  counter('takeovers_total', 'How often this node became the leader.', () => figures.takeovers)
  add('counter', 'cluster_forwarded_commands_total', 'Commands forwarded to the leader, by outcome.', () =>
    Object.entries(figures.forwarded).map(([outcome, value]) => ({ value, labels: { outcome } })),
  )
  add('histogram', 'cluster_forward_duration_seconds', 'From forwarding a command until its answer.', () =>
    series('recollect_cluster_forward_duration_seconds', figures.forwardSeconds),
  )
  add('histogram', 'cluster_forward_commands', 'Commands that shared a message to the leader.', () =>
    series('recollect_cluster_forward_commands', figures.forwardTogether),
  )
  add(
    'histogram',
    'cluster_publish_duration_seconds',
    'From sending a message until its outcome was known, by outcome.',
    () =>
      Object.entries(figures.publishSeconds).flatMap(([outcome, seconds]) =>
        series('recollect_cluster_publish_duration_seconds', seconds, { outcome }),
      ),
  )
  add('histogram', 'cluster_publish_writes', 'Writes that were sent to the stream together.', () =>
    series('recollect_cluster_publish_writes', figures.publishWrites),
  )
}

/** A distribution as the series of a histogram. */
function series(name: string, spread: Histogram, labels: Labels = {}): readonly Value[] {
  const counts = spread.cumulative()
  const total = counts.at(-1) as number
  return [
    ...spread.bounds.map((bound, index) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound },
      value: counts[index] as number,
    })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total },
    { metricName: `${name}_sum`, labels, value: spread.sum },
    { metricName: `${name}_count`, labels, value: total },
  ]
}
