import { collectDefaultMetrics, type Metric as PromMetric, Registry } from 'prom-client'
import type { Engine, EngineHealth } from '../engine/engine.ts'
import { counter, gauge, histograms, type Metric, metric, PREFIX, state } from '../engine/metric.ts'
import type { MetricsOptions } from '../http/admin.ts'
import type { ConnectionFigures } from '../http/connection-limits.ts'
import type { RequestTimes } from '../http/pipeline.ts'
import type { IndexStatus } from '../query/queries.ts'
import { MEMORY_KINDS, type MemoryBudget } from '../runtime/memory.ts'
import type { SocketFigures } from '../sockets/sockets.ts'
import type { ServiceDependencies } from './platform.ts'
import type { ServiceContext } from './service-context.ts'

type MetricsContext = Pick<ServiceContext, 'engine' | 'requestTimes'> & {
  readonly dependencies: Pick<ServiceDependencies, 'version' | 'ownsProcess' | 'memory'>
}

/**
 * The metrics of `/metrics`. Values are read on request: frequent operations count in plain numbers, because
 * prom-client looks up labels on each call, and is used for the output only.
 */
export function metricsOf(
  { engine, requestTimes, dependencies }: MetricsContext,
  connections: () => ConnectionFigures,
  sockets: () => SocketFigures,
): MetricsOptions {
  const { version, ownsProcess, memory } = dependencies
  const registry = new Registry()
  if (ownsProcess) addProcess(registry)
  const { dataFile, store } = engine.health()
  for (const { type, name, help, read } of [
    ...metricsOfService(engine, requestTimes, version),
    ...engine.metrics,
    ...(dataFile ? metricsOfDataFile(engine) : []),
    ...(store ? metricsOfStore(engine) : []),
    ...metricsOfIndexes(engine),
    ...metricsOfClients(connections, sockets),
    ...metricsOfMemory(memory),
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

function metricsOfService(engine: Engine, requests: RequestTimes, version: string): readonly Metric[] {
  const { journal, views } = engine
  const isWritable = (): number => Number(engine.health().journal.writable)
  return [
    metric('gauge', 'info', 'Always 1; the version is a label.', () => [{ value: 1, labels: { version } }]),
    histograms(
      'http_request_duration_seconds',
      'From the first look at a request until its answer is made (of a stream: begun), by method, route and status.',
      () => requests.all().map(({ method, route, status, seconds }) => [seconds, { method, route, status }]),
    ),
    gauge('journal_position', 'Of the last durable event.', () => journal.head),
    gauge('journal_writable', '1 while writes are taken, 0 on a full disk and after a failed sync.', isWritable),
    gauge('views_position', 'Of the last event that readers see.', () => views.position),
    gauge('projection_lag_events', 'Durable events that readers do not see yet.', () => journal.head - views.position),
    gauge('collections', 'Collections that there are.', () => views.counts().collections),
    gauge('items', 'Items of all collections.', () => views.counts().items),
  ]
}

const DATA_FILE_STATES = ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] as const

function metricsOfDataFile(engine: Engine): readonly Metric[] {
  /** Undefined on a node of a cluster that is not the leader any more. */
  type Status = EngineHealth['dataFile']
  /** Without a sample while the figure is unknown. */
  const figure = (name: string, help: string, read: (status: Status) => number | undefined): Metric =>
    metric('gauge', `data_file_${name}`, help, () => {
      const value = read(engine.health().dataFile)
      return value === undefined ? [] : [{ value }]
    })
  const current = (): string | undefined => engine.health().dataFile?.state
  return [
    state('data_file_state', '1 for the state of the data file, 0 for the others.', 'state', DATA_FILE_STATES, current),
    figure('position', 'Of the event that the data file shows the state after.', (file) => file?.position ?? 0),
    figure('behind_events', 'Events that the data file does not show yet.', (file) => file?.behind.events ?? 0),
    figure('behind_bytes', 'Approximate bytes of these events in the journal.', (file) => file?.behind.bytes ?? 0),
    figure('next_write_timestamp_seconds', 'When the data file is written, if that is known.', (file) =>
      file?.nextWrite && 'at' in file.nextWrite ? Date.parse(file.nextWrite.at) / 1000 : undefined,
    ),
    figure('next_write_bytes', 'Bytes of the journal until it is written, if no time is known.', (file) =>
      file?.nextWrite && 'afterJournalBytes' in file.nextWrite ? file.nextWrite.afterJournalBytes : undefined,
    ),
  ]
}

const STORE_STATES = ['current', 'building', 'full'] as const

function metricsOfStore(engine: Engine): readonly Metric[] {
  const status = (): EngineHealth['store'] => engine.health().store
  const current = (): string | undefined => status()?.state
  return [
    state('store_state', '1 for the state of the store, 0 for the others.', 'state', STORE_STATES, current),
    gauge('store_position', 'Of the last event that is in the store.', () => status()?.position ?? 0),
    gauge('store_bytes', 'Of the file of the store; compact makes it smaller.', () => status()?.bytes ?? 0),
  ]
}

function metricsOfMemory(memory: MemoryBudget): readonly Metric[] {
  return [
    metric('gauge', 'memory_held_bytes', 'Estimated memory that requests hold, by what they hold it for.', () =>
      MEMORY_KINDS.map((kind) => ({ value: memory.held(kind), labels: { kind } })),
    ),
    gauge('memory_budget_bytes', 'What all of them together may hold: Limits.MemoryBytes.', () => memory.bytes),
  ]
}

function metricsOfIndexes({ queries }: Engine): readonly Metric[] {
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

function metricsOfClients(connections: () => ConnectionFigures, sockets: () => SocketFigures): readonly Metric[] {
  return [
    gauge('connections', 'Open TCP connections, those of sockets too.', () => connections().open),
    counter('refused_connections_total', 'Connections beyond a limit: answered with 503.', () => connections().refused),
    metric('gauge', 'sockets', 'Open sockets, by kind.', () => {
      const { socketIo, plain } = sockets()
      return [
        { value: socketIo, labels: { kind: 'socket.io' } },
        { value: plain, labels: { kind: 'websocket' } },
      ]
    }),
    gauge('subscriptions', 'Open subscriptions.', () => sockets().subscriptions),
    gauge('lagging_subscriptions', 'Subscriptions that get only the latest changes for now.', () => sockets().lagging),
    counter('lagged_total', 'How often a client was told that it is behind.', () => sockets().laggedEver),
    counter('dropped_clients_total', 'Clients disconnected because they did not read.', () => sockets().dropped),
  ]
}
