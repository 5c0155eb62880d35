import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { RequestTimes } from '../../src/http/pipeline.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { metricsOf } from '../../src/server/metrics.ts'
import { parseSubscribe } from '../../src/sockets/subscribe-request.ts'
import type { Subscriber } from '../../src/sockets/subscription.ts'
import { Subscriptions } from '../../src/sockets/subscriptions.ts'
import { SimulatedClock } from '../support/clock.ts'
import { fetch, until, within } from '../support/deadline.ts'
import { diskWith, openTestEngine } from '../support/engine.ts'
import { plainSocket, socketIo } from '../support/listeners.ts'
import { send } from '../support/requests.ts'
import { json, ofOneServer, startProgram } from '../support/server.ts'
import { startHere, startServer } from '../support/service.ts'

const DOCUMENT = fileURLToPath(new URL('../../docs/api.md', import.meta.url))
const NO_SOCKETS = { socketIo: 0, plain: 0, subscriptions: 0, lagging: 0, laggedEver: 0, dropped: 0 }

/** Every sample by its name and labels, as the text has them. */
function samplesOf(text: string): ReadonlyMap<string, number> {
  const samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [, series, value] = /^([a-z_]\w*(?:\{(?:[a-z]\w*="[^"\\]*",?)+\})?) (\S+)$/.exec(line) ?? []
    assert.ok(series !== undefined && value !== undefined, `no sample: ${line}`)
    assert.ok(!samples.has(series), `told twice: ${series}`)
    samples.set(series, value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value))
  }
  return samples
}

async function readMetrics(url: string): Promise<ReadonlyMap<string, number>> {
  const { status, headers, text } = await send(url, 'GET', '/metrics')
  assert.equal(status, 200)
  assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
  assert.equal(headers['cache-control'], 'no-store')
  return samplesOf(text)
}

/** Without those of /health, which `startProgram` sends. */
function requests(samples: ReadonlyMap<string, number>): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const [series, value] of samples) {
    const [, method, route, status] =
      /^recollect_http_request_duration_seconds_count\{method="(.*?)",route="(.*?)",status="(.*?)"\}$/.exec(series) ??
      []
    if (method !== undefined && route !== '/health') counts[`${method} ${route} ${status}`] = value
  }
  return counts
}

const skip = ofOneServer('each node counts for itself, and is asked by itself')

/** The server of all tests that do not write; the first one counts every request. */
const server = await startProgram({ after }, { data: { sensors: [{ id: 1 }, { id: 2 }] } })
const { url } = server

test('requests are counted by method, route and status; requests for unknown paths add no series', {
  skip,
}, async () => {
  for (const id of [1, 2]) await send(url, 'GET', `/api/sensors/${id}`)
  await send(url, 'HEAD', '/api/sensors/1?made=up')
  await send(url, 'GET', '/api/sensors')
  await send(url, 'GET', '/api/sensors/7')
  await send(url, 'GET', '/api/other/7')
  for (const path of ['/made', '/up', '/api/']) await send(url, 'GET', path)
  for (const method of ['PROPFIND', 'MKCOL']) await send(url, method, '/api/sensors/1')
  await send(url, 'GET', '/collections.html')
  const samples = await readMetrics(url)
  assert.deepEqual(requests(samples), {
    'GET /api/:collection/:id 200': 2,
    'HEAD /api/:collection/:id 200': 1,
    'GET /api/:collection 200': 1,
    'GET /api/:collection/:id 404': 1,
    'GET /api/:collection/:id 400': 1,
    'GET /api 200': 1,
    'GET none 404': 2,
    'other /api/:collection/:id 405': 2,
    'GET static 200': 1,
  })
  const [buckets] = [...samples].filter(([series]) => /"GET",route="[^"]*:id",status="200",le="\+Inf"/.test(series))
  assert.equal(buckets?.[1], 2)
  assert.ok(![...samples.keys()].some((series) => series.includes('PROPFIND')))
  assert.equal(requests(await readMetrics(url))['GET /metrics 200'], 1)
})

test('metrics report durable writes: positions, events, segment bytes, flushes', {
  skip,
}, async (t) => {
  const { url, directory } = await startServer(t, { data: { sensors: [{ id: 1 }] } })
  const journal = join(directory, 'db.journal')
  const [segment = ''] = readdirSync(journal).filter((name) => name.endsWith('.ndjson'))
  const size = () => statSync(join(journal, segment)).size
  const before = await readMetrics(url)
  const bytes = size()
  await Promise.all(
    Array.from({ length: 9 }, () =>
      fetch(`${url}/api/sensors`, json('POST', { a: 'é' })).then(({ status }) => assert.equal(status, 201)),
    ),
  )
  await fetch(`${url}/api/made`, json('POST', {}))
  const after = await readMetrics(url)
  const grown = (name: string) => (after.get(name) as number) - (before.get(name) as number)
  assert.equal(grown('recollect_journal_appended_events_total'), 11)
  assert.equal(grown('recollect_journal_appended_bytes_total'), size() - bytes)
  assert.equal(grown('recollect_journal_flush_writes_sum'), 10)
  const flushes = grown('recollect_journal_flush_writes_count')
  assert.ok(flushes >= 2 && flushes <= 10)
  assert.equal(grown('recollect_journal_flush_duration_seconds_count'), flushes)
  assert.ok(grown('recollect_journal_flush_duration_seconds_sum') > 0)
  for (const name of ['recollect_journal_position', 'recollect_views_position']) assert.equal(after.get(name), 13)
  assert.equal(after.get('recollect_projection_lag_events'), 0)
  assert.equal(after.get('recollect_items'), 11)
  assert.equal(after.get('recollect_collections'), 2)
  assert.equal(after.get('recollect_journal_writable'), 1)
})

test('metrics report sockets by kind, and subscriptions', { skip }, async (t) => {
  const sockets = (samples: ReadonlyMap<string, number>) => [
    samples.get('recollect_sockets{kind="socket.io"}'),
    samples.get('recollect_sockets{kind="websocket"}'),
    samples.get('recollect_subscriptions'),
  ]
  const { client } = await socketIo(t, url)
  const plain = await plainSocket(t, url)
  for (const subscribed of [1, 2]) {
    await within('the response to a subscription', client.emitWithAck('subscribe', { collection: 'sensors' }))
    assert.deepEqual(sockets(await readMetrics(url)), [1, 1, subscribed])
  }
  await within('the end of a subscription', client.emitWithAck('unsubscribe', { subscription: '1' }))
  assert.deepEqual(sockets(await readMetrics(url)), [1, 1, 1])
  client.close()
  plain.client.close()
  await until('nobody listens', async () => sockets(await readMetrics(url)).join() === '0,0,0')
})

test('metrics report a subscription that lags until it has caught up', async () => {
  const disk = diskWith('{"a":[]}')
  const { engine } = await openTestEngine(disk.files())
  const { views, past, journal, bus, handler } = engine
  const now = () => new Date()
  const clock = new SimulatedClock()
  const log = new LimitedLog(pino({ level: 'silent' }), clock.elapsedMs)
  const queries = new Queries({ views, bytes: 2 ** 20 })
  const memory = new MemoryBudget()
  const subscriptions = new Subscriptions({
    views,
    past,
    queries,
    journal,
    log,
    now,
    clock,
    items: 10,
    perClient: 10,
    memory,
  })
  bus.add({ sockets: { apply: (recorded) => void subscriptions.apply(recorded) } })
  let drained = (): void => {}
  let slow = true
  const client: Subscriber = {
    change: () => {},
    lagging: () => {},
    current: () => {},
    isSlow: () => slow,
    whenDrained: (work) => {
      drained = work
    },
    whenSent: (work) => work(),
    drop: () => {},
  }
  await subscriptions.subscribe(client, parseSubscribe({ collection: 'a' }), () => {})
  assert.deepEqual(subscriptions.figures(), { subscriptions: 1, lagging: 0, laggedEver: 0 })
  const create = () => handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, { actor: 'x', requestId: 'r' })
  await create()
  await create()
  await until('it lags', () => subscriptions.figures().lagging === 1)
  assert.deepEqual(subscriptions.figures(), { subscriptions: 1, lagging: 1, laggedEver: 1 })
  slow = false
  drained()
  await until('it has caught up', () => subscriptions.figures().lagging === 0)
  assert.deepEqual(subscriptions.figures(), { subscriptions: 1, lagging: 0, laggedEver: 1 })
  subscriptions.leave(client)
  assert.deepEqual(subscriptions.figures(), { subscriptions: 0, lagging: 0, laggedEver: 1 })
  await engine.close()
})

test('metrics count writes that fail on a full disk, and report that none are accepted', async () => {
  const disk = diskWith('{"a":[]}')
  let full = false
  const { engine } = await openTestEngine(
    disk.files((operation, path) =>
      full && operation === 'write' && path.includes('.journal/') ? { type: 'error', code: 'ENOSPC' } : undefined,
    ),
  )
  const dependencies = { version: '0', ownsProcess: false, memory: new MemoryBudget() }
  const metrics = metricsOf(
    { engine, requestTimes: new RequestTimes(), dependencies },
    () => ({ open: 0, refused: 0 }),
    () => NO_SOCKETS,
  )
  const create = () =>
    engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, { actor: 'x', requestId: 'r' })
  const told = async () => {
    const samples = samplesOf(await metrics.text())
    return ['refused_for_space_total', 'writable', 'appended_events_total'].map((name) =>
      samples.get(`recollect_journal_${name}`),
    )
  }
  const [, , begun = 0] = await told()
  await create()
  assert.deepEqual(await told(), [0, 1, begun + 1])
  full = true
  await Promise.allSettled([create(), create(), create()])
  assert.deepEqual(await told(), [3, 0, begun + 1])
  full = false
  await create()
  assert.deepEqual(await told(), [3, 1, begun + 2])
  await engine.close()
})

test('metrics report indexes by collection and paths', { skip }, async (t) => {
  const sensors = Array.from({ length: 3000 }, (_, id) => ({ id, 'a"\\\nb': id % 7, n: id }))
  const { url } = await startServer(t, { data: { sensors } })
  const other = encodeURIComponent('a"\\\nb')
  for (const query of ['n_gte=1000&sort=-n', `n_lt=2500&${other}=3&sort=n`]) {
    for (let again = 0; again < 2; again++) {
      const { status } = await send(url, 'GET', `/api/sensors?${query}`)
      assert.equal(status, 200)
    }
    await until('it is built', async () => !(await send(url, 'GET', '/health')).text.includes('"indexing"'))
    await send(url, 'GET', `/api/sensors?${query}&page=2`)
  }
  const { text } = await send(url, 'GET', '/metrics')
  const told = (name: string) => [...text.matchAll(new RegExp(`^recollect_index_${name}\\{(.*)\\} (\\d+)$`, 'gm'))]
  const paths = ['collection="sensors",path="a\\"\\\\\\nb,n"', 'collection="sensors",path="n"']
  for (const name of ['entries', 'bytes', 'uses', 'built_ratio']) {
    const found = told(name)
    assert.deepEqual(found.map(([, labels]) => labels).toSorted(), paths, name)
    assert.ok(found.every(([, , value]) => Number(value) > 0))
  }
  assert.deepEqual(
    told('entries').map(([, , value]) => value),
    ['3000', '3000'],
  )
})

test('two services of one process have separate metrics', async (t) => {
  const [one, other] = await Promise.all([startHere(t, { data: {} }), startHere(t, { data: {} })])
  await send(one.url, 'GET', '/api')
  assert.equal(requests(await readMetrics(one.url))['GET /api 200'], 1)
  assert.equal(requests(await readMetrics(other.url))['GET /api 200'], undefined)
})

test('every metric is documented, and every documented metric exists', { skip }, async () => {
  await send(url, 'GET', '/api')
  const { text } = await send(url, 'GET', '/metrics')
  const told = [...text.matchAll(/^# TYPE (recollect_\w+) /gm)].map(([, name]) => name)
  const [, section = ''] = readFileSync(DOCUMENT, 'utf8').split('\n## Metrics\n')
  const documented = [...(section.split('\n## ')[0] ?? '').matchAll(/`(recollect_\w+)`/g)].map(([, name]) => name)
  assert.deepEqual(told.toSorted(), documented.toSorted())
  assert.match(text, /^nodejs_eventloop_lag_max_seconds \d/m)
  assert.match(text, /^process_resident_memory_bytes \d/m)
})

test('metrics report the state of the data file', { skip }, async () => {
  const state = async () => {
    const samples = [...(await readMetrics(url))].filter(([series]) => series.startsWith('recollect_data_file_state{'))
    assert.equal(samples.length, 6)
    return samples.filter(([, value]) => value === 1).map(([series]) => /state="(\w+)"/.exec(series)?.[1])
  }
  await until('the file is written', async () => (await state()).join() === 'current')
  assert.equal((await readMetrics(url)).get('recollect_data_file_position'), 3)
  writeFileSync(server.file, 'no JSON')
  await server.fetch('/admin/reload', { method: 'POST' })
  assert.deepEqual(await state(), ['invalid'])
})
