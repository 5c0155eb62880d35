import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { within } from '../support/deadline.ts'
import { startServer } from './host.ts'

interface Tree {
  readonly name: string
  readonly children?: readonly Tree[]
}

interface Reading {
  readonly id: number
  readonly mac: string
  readonly data?: { readonly temperature: number; readonly place: { readonly room: string } | null }
  readonly axes: readonly { readonly n: number }[]
  readonly tree?: Tree
  readonly notes?: unknown
  readonly labels?: Readonly<Record<string, string>>
  readonly 'a.b'?: number
  readonly 'c,d'?: { readonly 'e.f': number }
  readonly q?: string
}

const READINGS: readonly Reading[] = [
  { id: 1, mac: 'A', data: { temperature: 21, place: { room: 'cellar' } }, axes: [{ n: 1 }], 'a.b': 1, q: 'x' },
  {
    id: 2,
    mac: 'B',
    data: { temperature: 19, place: null },
    axes: [{ n: 2 }],
    'c,d': { 'e.f': 7 },
    labels: { x: 'y' },
  },
  { id: 3, mac: 'C', axes: [], tree: { name: 'root', children: [{ name: 'leaf' }] }, notes: { deep: { down: 1 } } },
]

test('nested fields are selected by their paths, which are typed', async (t) => {
  const server = await startServer(t, { data: { readings: READINGS } })
  const client = connect(server.url)
  t.after(() => client.close())
  const all = client.collection<Reading>('readings')
  const macs = async (query: { get(): Promise<{ items: readonly Partial<Reading>[] }> }) =>
    (await query.get()).items.map(({ mac }) => mac).join('')
  assert.equal(await macs(all.where({ 'data.temperature_gt': 20 })), 'A')
  assert.equal(await macs(all.where({ 'data.place.room_startswith': 'cell' })), 'A')
  assert.equal(await macs(all.where({ 'axes.n_in': ['1,2'] })), 'AB')
  assert.equal(await macs(all.where({ 'tree.children.name': 'leaf' })), 'C')
  assert.equal(await macs(all.where({ 'notes.deep.down': 1, 'labels.anything_exists': false })), 'C')
  assert.equal(await macs(all.where({ 'labels.x': 'y' })), 'B')
  assert.equal(await macs(all.where({ 'a\\.b': 1 })), 'A')
  assert.equal(await macs(all.where({ 'c\\,d.e\\.f_gte': 7 })), 'B')
  assert.equal(await macs(all.where({ q: 'x' })), 'A')
  assert.equal(await macs(all.where({ $received_gt: new Date(0), $received_lt: 'now+1h' })), 'ABC')
  assert.equal(await macs(all.sort('-data.temperature', 'axes.n_desc', 'mac')), 'ABC')
  assert.equal(await macs(all.sort('-c\\,d.e\\.f', 'mac')), 'BAC')
  assert.deepEqual((await all.fields('data.place.room', 'a\\.b').page(1, 1).get()).items, [
    { data: { place: { room: 'cellar' } }, 'a.b': 1 },
  ])
  const live = all.where({ 'c\\,d.e\\.f_exists': true }).fields('c\\,d', 'mac').live()
  await within('the items of a live list', live.ready)
  assert.deepEqual(live.items, [{ mac: 'B', 'c,d': { 'e.f': 7 } }])
  await all.item(1).patch({ 'c,d': { 'e.f': 8 } })
  await within('a change of the live list', live[Symbol.asyncIterator]().next())
  assert.equal(await macs(client.collection('readings').where({ 'any.path_gt': 1, 'a.b': 1 })), '')
})

test('a path that the item type does not have is a compile error, at every depth', () => {
  const all = connect('http://localhost').collection<Reading>('readings')
  const queries = [
    // @ts-expect-error: no such field
    all.where({ data2: 1 }),
    // @ts-expect-error: nor below the first level
    all.where({ 'data.temperatur_gt': 1 }),
    // @ts-expect-error: nor below the second
    all.where({ 'data.place.rom': 'x' }),
    // @ts-expect-error: nor through an array
    all.where({ 'axes.m': 1 }),
    // @ts-expect-error: text has no fields
    all.where({ 'mac.length': 1 }),
    // @ts-expect-error: no such operator
    all.where({ 'data.temperature_above': 1 }),
    // @ts-expect-error: a dot that belongs to the name needs a backslash
    all.where({ 'a.b': 1 }),
    // @ts-expect-error: sorting and selecting are held to the same
    all.sort('-data.temperatur'),
    // @ts-expect-error
    all.sort('axes.m_asc'),
    // @ts-expect-error
    all.fields('data.place.rom'),
  ]
  assert.equal(queries.length, 10)
})

test('a value that a field cannot have is a compile error', () => {
  const all = connect('http://localhost').collection<Reading>('readings')
  const queries = [
    // @ts-expect-error: a temperature is a number
    all.where({ 'data.temperature_gt': 'warm' }),
    // @ts-expect-error: neither is one of these
    all.where({ 'data.temperature': [20, 'warm'] }),
    // @ts-expect-error: nor in an array
    all.where({ 'axes.n_lte': true }),
    // @ts-expect-error: a mac is text
    all.where({ mac: 7 }),
    // @ts-expect-error: null is before and after nothing
    all.where({ mac_lt: null }),
    // @ts-expect-error: part of a text is text
    all.where({ mac_contains: 7 }),
    // @ts-expect-error: it exists or does not
    all.where({ 'data.temperature_exists': 'yes' }),
    // @ts-expect-error: the time of receipt is an instant
    all.where({ $received_gt: 7 }),
    // @ts-expect-error: an object is compared by its members
    all.where({ 'data.place': 'cellar' }),
  ]
  assert.equal(queries.length, 9)
})

test('a value that a field can have compiles, and so does any value of an untyped field', () => {
  const all = connect('http://localhost').collection<Reading>('readings')
  const any = connect('http://localhost').collection('readings')
  const queries = [
    all.where({ 'data.temperature_gt': 20, 'data.temperature_ne': [21, 22], mac_gte: new Date(0) }),
    all.where({ 'data.place': null, 'data.place.room_in': 'cellar,attic', 'axes.n': [1, 2], id_in: [1, 2] }),
    all.where({ 'notes.deep_gt': 'x', 'labels.any_exists': true, notes: 5, tree: undefined }),
    any.where({ 'data.temperature_gt': 'warm', anything: null }),
  ]
  assert.equal(queries.length, 4)
})
