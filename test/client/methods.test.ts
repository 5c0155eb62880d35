import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { each } from '../support/deadline.ts'
import { startServer } from './host.ts'

interface Reading {
  readonly id: number
  readonly mac: string
  readonly at: string
  readonly n: number
}

const READINGS: readonly Reading[] = [
  { id: 1, mac: 'A', at: '2026-01-01T00:10:00Z', n: 1 },
  { id: 2, mac: 'A', at: '2026-01-01T00:50:00Z', n: 3 },
  { id: 3, mac: 'B', at: '2026-01-01T01:10:00Z', n: 5 },
]
const TIME = ['--Collections', '{"readings": {"Time": "at"}}']

test('aggregates are rows of groups and windows, and distinct values and the newest items are lists', async (t) => {
  const { url } = await startServer(t, { data: { readings: READINGS }, flags: TIME })
  const client = connect(url)
  t.after(() => client.close())
  const readings = client.collection<Reading>('readings')
  const { items, total } = await readings.aggregate(['count', 'avg(n)'], { groupBy: ['mac'], window: '1h' })
  assert.equal(total, 2)
  assert.deepEqual(items[0], { mac: 'A', window: '2026-01-01T00:00:00.000Z', count: 2, 'avg(n)': 2 })
  assert.deepEqual(await readings.distinct('mac'), ['A', 'B'])
  const newest = await readings.newestBy('mac')
  assert.deepEqual(newest.items.map(({ id }) => id).sort(), [2, 3])
})

test('an item is replaced by a newer one, and not by an older one', async (t) => {
  const { url } = await startServer(t, { data: { readings: READINGS }, flags: TIME })
  const client = connect(url)
  t.after(() => client.close())
  const item = client.collection<Reading>('readings').item(1)
  const newer = { id: 1, mac: 'A', at: '2026-01-01T02:00:00Z', n: 7 }
  assert.equal((await item.replaceIfNewer(newer)).isApplied, true)
  assert.equal((await item.replaceIfNewer(READINGS[0] as Reading)).isApplied, false)
  assert.deepEqual((await item.get()).item, newer)
})

test('a value inside an item is read, replaced and patched', async (t) => {
  const data = { users: [{ id: 1, address: { city: 'Espoo', zip: '02' } }] }
  const { url } = await startServer(t, { data })
  const client = connect(url)
  t.after(() => client.close())
  const user = client.collection<(typeof data.users)[number]>('users').item(1)
  const city = user.at<string>('address', 'city')
  const { value, etag } = await city.get()
  assert.equal(value, 'Espoo')
  await city.replace('Vaasa', { ifMatch: etag })
  await assert.rejects(city.replace('Kemi', { ifMatch: etag }), { status: 412 })
  const address = user.at<{ city: string; zip?: string }>('address')
  await address.patch({ zip: null })
  await address.patch([{ op: 'add', path: '/street', value: 'Rantatie' }])
  assert.deepEqual((await address.get()).value, { city: 'Vaasa', street: 'Rantatie' })
})

test('all items are read in pages of one position', async (t) => {
  const data = { things: Array.from({ length: 25 }, (_, id) => ({ id })) }
  const { url } = await startServer(t, { data, flags: ['--Limits.PageSize', '10'] })
  const client = connect(url)
  t.after(() => client.close())
  const things = client.collection<{ id: number }>('things')
  const ids: number[] = []
  for await (const { id } of each('an item', things.all())) {
    if (id === 0) await things.item(24).delete()
    ids.push(id)
  }
  assert.deepEqual(
    ids,
    data.things.map(({ id }) => id),
  )
})

test('all data is replaced in one write, and the collections of before have names still', async (t) => {
  const { url } = await startServer(t, { data: { old: [{ id: 1 }] } })
  const client = connect(url)
  t.after(() => client.close())
  const { position } = await client.health()
  const fresh = { new: [{ id: 1 }, { id: 2 }], profile: { name: 'Ada' } }
  assert.deepEqual((await client.replaceAll(fresh, { dryRun: true })).dryRun, true)
  const replaced = await client.replaceAll(fresh)
  assert.deepEqual([replaced.created, replaced.deleted], [3, 1])
  assert.deepEqual(await client.collections(), ['new', 'profile'])
  assert.deepEqual(await client.collections({ asOf: position }), ['old'])
})

test('a client of a server with another id field finds the ids there', async (t) => {
  const { url } = await startServer(t, { data: { a: [{ _id: 7 }] }, flags: ['--DataStore.IdField', '_id'] })
  const client = connect(url, { idField: '_id' })
  t.after(() => client.close())
  const { id } = await client.collection('a').create({ n: 1 })
  assert.equal(id, 8)
  assert.deepEqual((await client.collection('a').item(8).get()).item, { n: 1, _id: 8 })
})

test('filters are sent also by a browser without URLSearchParams.size', async (t) => {
  const size = Object.getOwnPropertyDescriptor(URLSearchParams.prototype, 'size') as PropertyDescriptor
  Object.defineProperty(URLSearchParams.prototype, 'size', { configurable: true, value: undefined })
  t.after(() => Object.defineProperty(URLSearchParams.prototype, 'size', size))
  const { url } = await startServer(t, { data: { readings: READINGS } })
  const client = connect(url)
  t.after(() => client.close())
  const readings = client.collection<Reading>('readings')
  assert.equal((await readings.where({ mac: 'B' }).deleteAll()).deleted, 1)
  assert.equal((await readings.where({ n: 1 }).get()).total, 1)
  const positions: number[] = []
  for await (const { position } of each('an event', readings.history({ from: 4 }))) positions.push(position)
  assert.deepEqual(positions, [4, 5])
})
