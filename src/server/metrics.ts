import { collectDefaultMetrics, type Metric as PromMetric, Registry } from 'prom-client'
import type { Engine, EngineHealth } from '../engine/engine.ts'
import { counter, gauge, histograms, type Metric, metric, PREFIX, state } from '../engine/metric.ts'
import type { MetricsOptions } from '../http/admin.ts'
import type { ConnectionFigures } from '../http/connection-limits.ts'
import type { RequestTimes } from '../http/pipeline.ts'
import type { IndexStatus, Queries } from '../query/queries.ts'
import type { SocketFigures } from '../sockets/sockets.ts'

export interface MetricsSources {
  readonly engine: Engine
  readonly requests: RequestTimes
  readonly connections: () => ConnectionFigures
  readonly sockets: () => SocketFigures
  readonly version: string
  readonly ownsProcess: boolean
}

const STORE_STATES = ['current', 'building', 'full'] as const
const DATA_FILE_STATES = ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] as const

/**
 * The metrics of `/metrics`. Values are read on request: frequent operations count in plain numbers, because
 * prom-client looks up labels on each call, and is used for the output only.
 */
export function metricsOf(sources: MetricsSources): MetricsOptions {
  const { engine, connections, sockets, ownsProcess } = sources
  const registry = new Registry()
  if (ownsProcess) addProcess(registry)
  const { dataFile, store } = engine.health()
  for (const { type, name, help, read } of [
    ...metricsOfService(sources),
    ...engine.metrics,
    ...metricsOfCollections(engine),
    ...(dataFile ? metricsOfDataFile(() => engine.health().dataFile) : []),
    ...(store ? metricsOfStore(() => engine.health().store) : []),
    ...metricsOfIndexes(engine.queries),
    ...metricsOfConnections(connections, sockets),
  ]) {
    const described = { name: PREFIX + name, help, type, aggregator: 'sum' }
    const get = async () => ({ ...described, values: read() })
    registry.registerMetric({ ...described, get } as unknown as PromMetric)
  }
  return { text: () => registry.metrics(), contentType: registry.contentType }
}

/** The metrics of prom-client, without three gauges that are named as counters and are sums of other metrics. */
function addProcess(register: Registry): void {
  collectDefaultMetrics({ register })
  for (const name of ['handles', 'requests', 'resources']) register.removeSingleMetric(`nodejs_active_${name}_total`)
}

function metricsOfService({ engine, requests, version }: MetricsSources): readonly Metric[] {
  const { journal, views } = engine
  return [
    metric('gauge', 'info', 'Always 1; the version is a label.', () => [{ value: 1, labels: { version } }]),
    histograms(
      'http_request_duration_seconds',
      'From the first look at a request until its answer is made (of a stream: begun), by method, route and status.',
      () => requests.all().map(({ method, route, status, seconds }) => [seconds, { method, route, status }]),
    ),
    gauge('journal_position', 'Of the last durable event.', () => journal.head),
    gauge('journal_writable', '1 while writes are taken, 0 on a full disk and after a failed sync.', () =>
      Number(engine.health().journal.writable),
    ),
    gauge('views_position', 'Of the last event that readers see.', () => views.position),
    gauge('projection_lag_events', 'Durable events that readers do not see yet.', () => journal.head - views.position),
  ]
}

function metricsOfCollections({ views }: Engine): readonly Metric[] {
  return [
    gauge('collections', 'Collections that there are.', () => views.counts().collections),
    gauge('items', 'Items of all collections.', () => views.counts().items),
  ]
}

function metricsOfDataFile(status: () => EngineHealth['dataFile']): readonly Metric[] {
  return [
    state(
      'data_file_state',
      '1 for the state that the data file is in, 0 for the others.',
      'state',
      DATA_FILE_STATES,
      () => status()?.state,
    ),
    gauge(
      'data_file_position',
      'Of the event that the data file shows the state after.',
      () => status()?.position ?? 0,
    ),
    gauge(
      'data_file_behind_events',
      'Events that the data file does not show yet.',
      () => status()?.behind.events ?? 0,
    ),
    gauge(
      'data_file_behind_bytes',
      'Approximate size, in the journal, of the events that the data file does not show.',
      () => status()?.behind.bytes ?? 0,
    ),
    metric(
      'gauge',
      'data_file_next_write_timestamp_seconds',
      'When the data file is written, if that is known.',
      () => {
        const write = status()?.nextWrite
        return write && 'at' in write ? [{ value: Date.parse(write.at) / 1000 }] : []
      },
    ),
    metric(
      'gauge',
      'data_file_next_write_bytes',
      'Bytes that the journal grows until the data file is written, where no time is known.',
      () => {
        const write = status()?.nextWrite
        return write && 'afterJournalBytes' in write ? [{ value: write.afterJournalBytes }] : []
      },
    ),
  ]
}

function metricsOfStore(status: () => EngineHealth['store']): readonly Metric[] {
  return [
    state(
      'store_state',
      '1 for the state that the store is in, 0 for the others.',
      'state',
      STORE_STATES,
      () => status()?.state,
    ),
    gauge('store_position', 'Of the last event that is in the store.', () => status()?.position ?? 0),
    gauge('store_bytes', 'Of the file of the store; compact makes it smaller.', () => status()?.bytes ?? 0),
  ]
}

function metricsOfIndexes(queries: Queries): readonly Metric[] {
  const ofEach = (name: string, help: string, figure: (index: IndexStatus) => number): Metric =>
    metric('gauge', name, help, () =>
      queries.list().map((index) => {
        const { collection, path } = index
        return { value: figure(index), labels: { collection, path } }
      }),
    )
  return [
    ofEach('index_entries', 'Keys that an index has, by collection and paths.', ({ entries }) => entries),
    ofEach('index_bytes', 'Approximate size of an index in the store.', ({ bytes }) => bytes),
    ofEach('index_uses', 'Recent uses of an index; halved after every 10,000 queries.', ({ uses }) => uses),
    ofEach('index_built_ratio', 'The part of an index that is built; 1 when it is in use.', ({ built = 1 }) => built),
  ]
}

function metricsOfConnections(
  connections: MetricsSources['connections'],
  sockets: MetricsSources['sockets'],
): readonly Metric[] {
  return [
    gauge('connections', 'Open TCP connections, those of sockets too.', () => connections().open),
    counter(
      'refused_connections_total',
      'Connections beyond a limit, which were answered with 503.',
      () => connections().refused,
    ),
    metric('gauge', 'sockets', 'Open sockets, by kind.', () => {
      const { socketIo, plain } = sockets()
      return [
        { value: socketIo, labels: { kind: 'socket.io' } },
        { value: plain, labels: { kind: 'websocket' } },
      ]
    }),
    gauge('subscriptions', 'Open subscriptions.', () => sockets().subscriptions),
    gauge(
      'lagging_subscriptions',
      'Subscriptions that get only the latest change of an item for now.',
      () => sockets().lagging,
    ),
    counter('lagged_total', 'How often a client was told that it is behind.', () => sockets().laggedEver),
    counter(
      'dropped_clients_total',
      'Clients that were disconnected because they did not read.',
      () => sockets().dropped,
    ),
  ]
}
