import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { until, within } from '../support/deadline.ts'
import { startServer } from './host.ts'

interface Reading {
  readonly id: number
  readonly data: { readonly t?: unknown }
  readonly n: number
}

const TIMES = [
  '2026-11-20T12:00:00Z',
  1_795_176_001,
  '2026-11-20 14:00:02+02:00',
  1_795_175_999_000,
  '20261120',
  'soon',
  null,
]
const COLLECTIONS = JSON.stringify({ readings: { Time: 'data.t' } })

test('a live list has the order of the server, whatever the spelling of the event times', async (t) => {
  for (const most of ['10000', '3']) {
    const flags = ['--Collections', COLLECTIONS, '--Limits.SubscriptionItems', most]
    const data = { readings: TIMES.map((at, id) => ({ id, data: { t: at }, n: 0 })) }
    const server = await startServer(t, { flags, data })
    const client = connect(server.url)
    t.after(async () => client.close())
    const readings = client.collection<Reading>('readings')
    for (const sort of ['data.t', '-data.t'] as const) {
      // Without the selected field the order is the same.
      const list = readings.sort(sort).fields('n').live()
      await within('the items of a live list', list.ready)
      const wanted = readings.sort(sort).fields('n')
      assert.deepEqual(list.items, (await wanted.get()).items)
      await readings.create({ data: { t: '1795176000500' }, n: 1 })
      await readings.create({ data: {}, n: 2 })
      const { position } = await readings.item(4).patch({ n: 3 })
      await until('all of it', () => list.position === position)
      assert.deepEqual(list.items, (await wanted.get()).items)
      list.close()
    }
  }
})

test('a filter by a Date finds readings in any spelling', async (t) => {
  const data = { readings: TIMES.map((at, id) => ({ id, t: at })) }
  const server = await startServer(t, { flags: ['--Collections', JSON.stringify({ readings: { Time: 't' } })], data })
  const client = connect(server.url)
  t.after(async () => client.close())
  const readings = client.collection<{ id: number; t: string }>('readings')
  const { items } = await readings.where({ t_gte: new Date('2026-11-20T12:00:00Z') }).get()
  assert.deepEqual(
    items.map(({ id }) => id),
    [0, 1, 2],
  )
})
