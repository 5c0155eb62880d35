import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { authentication, keyOf } from '../support/authentication.ts'
import { within } from '../support/deadline.ts'
import { json } from '../support/server.ts'
import { startServer } from '../support/service.ts'

interface Reading {
  readonly id: number
  readonly mac: string
  readonly timestamp: string
  readonly data: { readonly temperature: number }
}

const READINGS = Array.from({ length: 48 }, (_, id) => ({
  id,
  mac: id % 2 === 0 ? 'a' : 'b',
  timestamp: `2026-01-01T${String(Math.floor(id / 2)).padStart(2, '0')}:00:00`,
  data: { temperature: id },
}))
const FLAGS = ['--Collections', JSON.stringify({ readings: { Indexes: ['mac,timestamp'], Time: 'timestamp' } })]

test('/health names the event time field', async (t) => {
  const server = await startServer(t, { flags: FLAGS, data: { readings: READINGS, rooms: [] } })
  const health = (await (await server.fetch('/health')).json()) as { eventTime: unknown }
  assert.deepEqual(health.eventTime, { readings: 'timestamp' })
})

test('/health names the event time field of a collection to a reader, whatever its name', async (t) => {
  const collections = { segments: { Time: 'at' }, urls: { Time: 'at' } }
  const flags = ['--Collections', JSON.stringify(collections), ...authentication(['apikey'])]
  const server = await startServer(t, { flags, data: { segments: [], urls: [] } })
  const health = await server.fetch('/health', { headers: { 'X-API-KEY': keyOf('reader') } })
  const { eventTime, journal } = (await health.json()) as { eventTime: unknown; journal: object }
  assert.deepEqual(eventTime, { segments: 'at', urls: 'at' })
  assert.equal('segments' in journal, false)
})

test('a field named __proto__, which no item has, is grouped by like any other', async (t) => {
  const server = await startServer(t, { flags: FLAGS, data: { readings: READINGS } })
  const answer = async (search: string) => (await server.fetch(`/api/readings?${search}`)).json()
  assert.deepEqual(await answer('distinct=__proto__'), [null])
  const rows = await (await server.fetch('/api/readings?aggregate=count&groupBy=__proto__')).text()
  assert.equal(rows, '[{"__proto__":null,"count":48}]')
})

test('a dashboard gets averages by sensor and window, now and in the past', async (t) => {
  const server = await startServer(t, { flags: FLAGS, data: { readings: READINGS } })
  const search = 'aggregate=count,avg(data.temperature)&groupBy=mac&window=12h&mac=a'
  const rows = [
    { mac: 'a', window: '2026-01-01T00:00:00.000Z', count: 12, 'avg(data.temperature)': 11 },
    { mac: 'a', window: '2026-01-01T12:00:00.000Z', count: 12, 'avg(data.temperature)': 35 },
  ]
  const first = await server.fetch(`/api/readings?${search}`)
  assert.equal(first.status, 200)
  assert.equal(first.headers.get('x-total-count'), '2')
  assert.deepEqual(await first.json(), rows)
  const position = first.headers.get('journal-position')
  const late = { mac: 'a', timestamp: '2026-01-01T13:30:00', data: { temperature: 100 } }
  assert.equal((await server.fetch('/api/readings', json('POST', late))).status, 201)
  assert.equal(((await (await server.fetch(`/api/readings?${search}`)).json()) as { count: number }[])[1]?.count, 13)
  assert.deepEqual(await (await server.fetch(`/api/readings?${search}&asOf=${position}`)).json(), rows)
  const refused = await server.fetch('/api/readings?aggregate=mean(data.temperature)')
  assert.equal(refused.status, 400)
  assert.match(
    ((await refused.json()) as { detail: string }).detail,
    /"mean\(data.temperature\)" is not known. Possible are count, avg/,
  )
})

test('time ranges may be relative to now, or to the moment of asOf', async (t) => {
  const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
  const readings = [1, 2, 30].map((hours) => ({ id: hours, timestamp: ago(hours) }))
  const server = await startServer(t, { flags: FLAGS, data: { readings } })
  const ids = async (search: string): Promise<number[]> => {
    const response = await server.fetch(`/api/readings?${search}`)
    assert.equal(response.status, 200)
    assert.equal(response.headers.has('etag'), false)
    return ((await response.json()) as { id: number }[]).map(({ id }) => id)
  }
  assert.deepEqual(await ids('timestamp_gte=now-24h'), [1, 2])
  assert.deepEqual(await ids('timestamp_gte=now-90m&timestamp_lt=now'), [1])
  assert.deepEqual(await ids('timestamp_gt=now'), [])
  const position = (await server.fetch('/api/readings')).headers.get('journal-position')
  assert.deepEqual(await ids(`timestamp_lt=now-1d&asOf=${position}`), [30])
  // In another field it is text.
  assert.deepEqual(await ids('id=now'), [])
  for (const search of ['timestamp_gte=now-1y', 'timestamp=now-', 'timestamp_gt=soon', '%24received_gte=today']) {
    const response = await server.fetch(`/api/readings?${search}`)
    assert.equal(response.status, 400, search)
    assert.match(await response.text(), /now-24h/)
  }
})

test('the client gets rows, values and the newest items', async (t) => {
  const server = await startServer(t, { flags: FLAGS, data: { readings: READINGS } })
  const client = connect(server.url)
  t.after(() => client.close())
  const answered = <T>(answer: Promise<T>): Promise<T> => within('a response to the client', answer)
  const readings = client.collection<Reading>('readings')
  const grouped = readings
    .where({ 'data.temperature_lt': 10 })
    .aggregate(['count', 'p50(data.temperature)'], { groupBy: ['mac'], window: '1d', tz: 'Europe/Helsinki' })
  const { items, total } = await answered(grouped)
  assert.equal(total, 2)
  assert.deepEqual(items[1], {
    mac: 'b',
    window: '2026-01-01T00:00:00.000+02:00',
    count: 5,
    'p50(data.temperature)': 5,
  })
  const [row] = (await answered(readings.aggregate(['count', 'avg(data.temperature)', 'first(mac)']))).items
  const sum: number = (row?.count ?? 0) * (row?.['avg(data.temperature)'] ?? 0)
  assert.equal(sum, (47 * 48) / 2)
  assert.equal(row?.['first(mac)'], 'a')
  const columns = ['count as n', 'max(data.temperature) as highest', 'delta(data.temperature)', 'count(mac)'] as const
  const aliased = await answered(readings.aggregate(columns, { window: '1y', tz: '+02:00' }))
  const [year] = aliased.items
  const counts: number = (year?.n ?? 0) + (year?.['count(mac)'] ?? 0) + (year?.['delta(data.temperature)'] ?? 0)
  assert.equal(counts, 48 + 48 + 47)
  assert.deepEqual([year?.highest, year?.window], [47, '2026-01-01T00:00:00.000+02:00'])
  // @ts-expect-error There is no such function.
  await assert.rejects(answered(readings.aggregate(['mode(mac) as m'])))
  assert.deepEqual(await answered(readings.distinct('mac')), ['a', 'b'])
  const newest = await answered(readings.newestBy('mac'))
  assert.deepEqual(
    newest.items.map(({ id }) => id),
    [46, 47],
  )
  const [second] = (await answered(readings.page(2, 1).newestBy('mac'))).items
  assert.equal(second?.id, 47)
  assert.deepEqual(await answered(readings.page(2, 1).distinct('mac')), ['b'])
  // @ts-expect-error There is no such field.
  await assert.rejects(answered(readings.distinct('')))
})
