import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import type { ClusterFigures } from '../cluster/figures.ts'
import type { Engine, EngineFigures } from '../engine/engine.ts'
import type { MetricsOptions } from '../http/admin.ts'
import type { ConnectionFigures } from '../http/connection-limits.ts'
import type { RequestTimes } from '../http/request-times.ts'
import type { IndexStatus, Queries } from '../query/queries.ts'
import type { Histogram } from '../runtime/histogram.ts'
import type { SocketFigures } from '../sockets/sockets.ts'

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
  if (ownsProcess) addProcess(registry)
  const { journal, views } = engine
  const metrics = new Metrics(registry)
  metrics.add('gauge', 'info', 'Always 1; the version is a label.', () => [{ value: 1, labels: { version } }])
  metrics.histogram(
    'http_request_duration_seconds',
    'From the first look at a request until its answer is made (of a stream: begun), by method, route and status.',
    () => [...requests.all()].map(({ method, route, status, seconds }) => [seconds, { method, route, status }]),
  )
  metrics.gauge('journal_position', 'Of the last durable event.', () => journal.head)
  metrics.gauge('journal_writable', '1 while writes are taken, 0 on a full disk and after a failed sync.', () =>
    Number(engine.health().journal.writable),
  )
  metrics.gauge('views_position', 'Of the last event that readers see.', () => views.position)
  const lag = (): number => journal.head - views.position
  metrics.gauge('projection_lag_events', 'Durable events that readers do not see yet.', lag)
  for (const counted of engine.figures) {
    if (counted.kind === 'cluster') addCluster(engine, counted.figures, metrics)
    else addFiles(counted, metrics)
  }
  metrics.gauge('collections', 'Collections that there are.', () => views.counts().collections)
  metrics.gauge('items', 'Items of all collections.', () => views.counts().items)
  if (engine.health().dataFile) addDataFile(engine, metrics)
  if (engine.health().store) addStore(engine, metrics)
  addIndexes(queries, metrics)
  addConnections(connections, sockets, metrics)
  return { text: () => registry.metrics(), contentType: registry.contentType }
}

/** The metrics of prom-client, without three gauges that are named as counters and are sums of other metrics. */
function addProcess(register: Registry): void {
  collectDefaultMetrics({ register })
  for (const name of ['handles', 'requests', 'resources']) register.removeSingleMetric(`nodejs_active_${name}_total`)
}

/** Metrics whose values are read on request. */
class Metrics {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  add(type: 'counter' | 'gauge' | 'histogram', name: string, help: string, read: () => readonly Value[]): void {
    const metric = { name: `recollect_${name}`, help, type, aggregator: 'sum' }
    const get = async () => ({ ...metric, values: read() })
    this.#registry.registerMetric({ ...metric, get } as unknown as Metric)
  }

  gauge(name: string, help: string, read: () => number): void {
    this.add('gauge', name, help, () => [{ value: read() }])
  }

  counter(name: string, help: string, read: () => number): void {
    this.add('counter', name, help, () => [{ value: read() }])
  }

  /** 1 for the current value of a label, 0 for the others. */
  state(name: string, help: string, label: string, values: readonly string[], current: () => string | undefined): void {
    this.add('gauge', name, help, () => {
      const now = current()
      return values.map((value) => ({ value: Number(value === now), labels: { [label]: value } }))
    })
  }

  histogram(name: string, help: string, read: () => readonly (readonly [Histogram, Labels?])[]): void {
    this.add('histogram', name, help, () =>
      read().flatMap(([histogram, labels]) => series(`recollect_${name}`, histogram, labels)),
    )
  }
}

function addDataFile(engine: Pick<Engine, 'health'>, metrics: Metrics): void {
  const status = () => engine.health().dataFile
  const stateHelp = '1 for the state that the data file is in, 0 for the others.'
  metrics.state('data_file_state', stateHelp, 'state', DATA_FILE_STATES, () => status()?.state)
  const positionHelp = 'Of the event that the data file shows the state after.'
  metrics.gauge('data_file_position', positionHelp, () => status()?.position ?? 0)
  const eventsHelp = 'Events that the data file does not show yet.'
  metrics.gauge('data_file_behind_events', eventsHelp, () => status()?.behind.events ?? 0)
  const bytesHelp = 'Approximate size, in the journal, of the events that the data file does not show.'
  metrics.gauge('data_file_behind_bytes', bytesHelp, () => status()?.behind.bytes ?? 0)
  const timeHelp = 'When the data file is written, if that is known.'
  metrics.add('gauge', 'data_file_next_write_timestamp_seconds', timeHelp, () => {
    const write = status()?.nextWrite
    return write && 'at' in write ? [{ value: Date.parse(write.at) / 1000 }] : []
  })
  const growthHelp = 'Bytes that the journal grows until the data file is written, where no time is known.'
  metrics.add('gauge', 'data_file_next_write_bytes', growthHelp, () => {
    const write = status()?.nextWrite
    return write && 'afterJournalBytes' in write ? [{ value: write.afterJournalBytes }] : []
  })
}

function addStore(engine: Pick<Engine, 'health'>, metrics: Metrics): void {
  const status = () => engine.health().store
  const help = '1 for the state that the store is in, 0 for the others.'
  metrics.state('store_state', help, 'state', STORE_STATES, () => status()?.state)
  metrics.gauge('store_position', 'Of the last event that is in the store.', () => status()?.position ?? 0)
  metrics.gauge('store_bytes', 'Of the file of the store; compact makes it smaller.', () => status()?.bytes ?? 0)
}

function addIndexes(queries: MetricsSources['queries'], metrics: Metrics): void {
  const add = (name: string, help: string, figure: (index: IndexStatus) => number): void =>
    metrics.add('gauge', name, help, () =>
      queries.list().map((index) => {
        const { collection, path } = index
        return { value: figure(index), labels: { collection, path } }
      }),
    )
  add('index_entries', 'Keys that an index has, by collection and paths.', ({ entries }) => entries)
  add('index_bytes', 'Approximate size of an index in the store.', ({ bytes }) => bytes)
  add('index_uses', 'Recent uses of an index; halved after every 10,000 queries.', ({ uses }) => uses)
  add('index_built_ratio', 'The part of an index that is built; 1 when it is in use.', ({ built = 1 }) => built)
}

function addConnections(
  connections: MetricsSources['connections'],
  sockets: MetricsSources['sockets'],
  metrics: Metrics,
): void {
  metrics.gauge('connections', 'Open TCP connections, those of sockets too.', () => connections().open)
  const refusedHelp = 'Connections beyond a limit, which were answered with 503.'
  metrics.counter('refused_connections_total', refusedHelp, () => connections().refused)
  metrics.add('gauge', 'sockets', 'Open sockets, by kind.', () => {
    const { socketIo, plain } = sockets()
    return [
      { value: socketIo, labels: { kind: 'socket.io' } },
      { value: plain, labels: { kind: 'websocket' } },
    ]
  })
  metrics.gauge('subscriptions', 'Open subscriptions.', () => sockets().subscriptions)
  const laggingHelp = 'Subscriptions that get only the latest change of an item for now.'
  metrics.gauge('lagging_subscriptions', laggingHelp, () => sockets().lagging)
  metrics.counter('lagged_total', 'How often a client was told that it is behind.', () => sockets().laggedEver)
  const droppedHelp = 'Clients that were disconnected because they did not read.'
  metrics.counter('dropped_clients_total', droppedHelp, () => sockets().dropped)
}

/** The metrics of a journal in local files. */
function addFiles({ figures, segments }: EngineFigures & { readonly kind: 'journal' }, metrics: Metrics): void {
  metrics.add('gauge', 'journal_file_bytes', 'Bytes of the files of the journal, plain and compressed.', () =>
    [false, true].map((compressed) => {
      const those = segments().filter((one) => one.compressed === compressed)
      const form = compressed ? 'compressed' : 'plain'
      return { value: those.reduce((sum, { size }) => sum + size, 0), labels: { form } }
    }),
  )
  const eventsHelp = 'Events that became durable since the start.'
  metrics.counter('journal_appended_events_total', eventsHelp, () => figures.events)
  metrics.counter('journal_appended_bytes_total', 'Bytes of these events in the journal.', () => figures.bytes)
  metrics.histogram('journal_flush_duration_seconds', 'From the first byte of a flush until it was synced.', () => [
    [figures.flushSeconds],
  ])
  metrics.histogram('journal_flush_writes', 'Writes that shared a flush.', () => [[figures.flushWrites]])
  const spaceHelp = 'Writes that there was no space for on the disk.'
  metrics.counter('journal_refused_for_space_total', spaceHelp, () => figures.refusedForSpace)
}

function addCluster(engine: Pick<Engine, 'health'>, figures: ClusterFigures, metrics: Metrics): void {
  const status = () => engine.health().cluster
  const roleHelp = '1 for the role that the node has, 0 for the other.'
  metrics.state('cluster_role', roleHelp, 'role', ROLES, () => status()?.role)
  const lagHelp = 'Events that other nodes are known to have, and this one has not.'
  metrics.gauge('cluster_lag_events', lagHelp, () => status()?.lag ?? 0)
  metrics.gauge('cluster_peers', 'Other nodes heard of in the last seconds.', () => status()?.peers.length ?? 0)
  metrics.gauge('cluster_connected', '1 while a NATS server is connected.', () => Number(status()?.isConnected))
  metrics.counter('cluster_reconnects_total', 'How often a NATS server was found again.', () => figures.reconnects)
  metrics.counter('cluster_takeovers_total', 'How often this node became the leader.', () => figures.takeovers)
  const forwardedHelp = 'Commands forwarded to the leader, by outcome.'
  metrics.add('counter', 'cluster_forwarded_commands_total', forwardedHelp, () =>
    Object.entries(figures.forwarded).map(([outcome, value]) => ({ value, labels: { outcome } })),
  )
  metrics.histogram('cluster_forward_duration_seconds', 'From forwarding a command until its answer.', () => [
    [figures.forwardSeconds],
  ])
  metrics.histogram('cluster_forward_commands', 'Commands that shared a message to the leader.', () => [
    [figures.forwardTogether],
  ])
  const publishHelp = 'From sending a message until its outcome was known, by outcome.'
  metrics.histogram('cluster_publish_duration_seconds', publishHelp, () =>
    Object.entries(figures.publishSeconds).map(([outcome, seconds]) => [seconds, { outcome }]),
  )
  metrics.histogram('cluster_publish_writes', 'Writes that were sent to the stream together.', () => [
    [figures.publishWrites],
  ])
}

/** A distribution as the series of a histogram. */
function series(name: string, histogram: Histogram, labels: Labels = {}): readonly Value[] {
  const counts = histogram.cumulative()
  const total = counts.at(-1) as number
  return [
    ...histogram.bounds.map((bound, index) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound },
      value: counts[index] as number,
    })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total },
    { metricName: `${name}_sum`, labels, value: histogram.sum },
    { metricName: `${name}_count`, labels, value: total },
  ]
}
