import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { each, until, within } from '../support/deadline.ts'
import { startServer } from './host.ts'

const IDS = [
  'a/b',
  '007',
  '%2F',
  'ü€😀',
  '\r\n',
  '?x=1&y',
  '#',
  ' ',
  '+',
  '__proto__',
  'constructor',
  '"<script>',
  '...',
  ',',
  '-1',
  'swagger',
]
const COLLECTIONS = ['a', 'b/c?d#e', '__proto__', ' ', '€ & 😀', '%41']

test('any id and collection name is preserved, over HTTP and in a live list', async (t) => {
  const server = await startServer(t, { flags: ['--Api.UpsertOnPut', 'true'] })
  const client = connect(server.url)
  t.after(async () => client.close())
  for (const name of COLLECTIONS) {
    const items = client.collection<{ id: string; n: number }>(name)
    const list = items.live()
    await within('the items of a live list', list.ready)
    for (const [n, id] of IDS.entries()) await items.item(id).replace({ id, n })
    for (const [n, id] of IDS.entries()) {
      assert.deepEqual((await items.item(id).get()).item, { id, n }, id)
      assert.deepEqual((await items.where({ id }).get()).items, [{ id, n }], id)
      await items.item(id).patch({ n: n + 1 })
    }
    const { position } = await items.item('a/b').delete()
    await until('all of it', () => list.position === position)
    assert.deepEqual(list.items, (await items.sort('id').get()).items)
    assert.equal(list.total, IDS.length - 1)
    const types: string[] = []
    for await (const { type } of each('an event', items.item('a/b').history())) types.push(type)
    assert.deepEqual(types, ['ItemCreated', 'ItemPatched', 'ItemDeleted'])
  }
  assert.deepEqual(await client.collections(), COLLECTIONS)
})

test('an id that no address can contain is rejected before a request is sent', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: '..' }, { id: '.' }] } })
  const client = connect(server.url)
  const items = client.collection<{ id: string }>('a')
  for (const id of ['.', '..', '']) {
    await assert.rejects(items.item(id).get(), TypeError)
    await assert.rejects(items.item(id).delete(), TypeError)
    await assert.rejects(client.collection(id).create({}), TypeError)
  }
  await assert.rejects(items.item('\ud800').get(), URIError)
  assert.deepEqual((await items.where({ id: '..' }).get()).items, [{ id: '..' }])
})

test('a field named like a parameter is queried as a field', async (t) => {
  const data = {
    a: [
      {
        id: 1,
        page: 1,
        sort: 'x',
        q: 'y',
        data: { limit: 5 },
        _t: 3,
        _delay: 4,
        _where: '{}',
        'temp[0]': 7,
        when: '2026-01-01T00:00:00Z',
        no: null,
      },
      { id: 2, page: 2 },
    ],
  }
  const server = await startServer(t, { data })
  const client = connect(server.url)
  t.after(async () => client.close())
  const items = client.collection<Record<string, unknown>>('a')
  for (const where of [
    { page: 1 },
    { sort: ['w', 'x'] },
    { q: 'y' },
    { 'data.limit': 5 },
    { when: new Date('2026-01-01') },
    { no: null },
    { page: 1, sort: undefined },
    { page_in: ['1', 7] },
    { _t: 3 },
    { _delay: 4 },
    { _where: '{}' },
    { 'temp[0]': [7, 8] },
    { 'temp[0]_lt': 8 },
  ]) {
    const query = items.where(where)
    assert.deepEqual(
      (await query.get()).items.map(({ id }) => id),
      [1],
      JSON.stringify(where),
    )
    const list = query.live()
    await within('the items of a live list', list.ready)
    assert.deepEqual(
      list.items.map(({ id }) => id),
      [1],
      JSON.stringify(where),
    )
    list.close()
  }
})

test('a live item is the one with that id, and not one whose id is the same number', async (t) => {
  const ids = [1, 100, '007', 'null', '..', 'a/b'] as const
  const server = await startServer(t, { data: { a: ids.map((id) => ({ id, n: 0 })) } })
  const client = connect(server.url)
  t.after(async () => client.close())
  const items = client.collection<{ id: string | number; n: number }>('a')
  const lists = [...ids, '1', '1.0', '1e2', 'b'].map((id) => [id, items.item(id).live()] as const)
  for (const [, list] of lists) await within('the item of a live list', list.ready)
  for (const n of [0, 1]) {
    for (const id of ids) if (id !== '..') await items.item(id).patch({ n })
    const { position } = await items.create({ n })
    for (const [id, list] of lists) {
      await until('all of it', () => list.position >= position)
      const found = ids.filter((one) => String(one) === String(id))
      const shown = found.map((one) => ({ id: one, n: one === '..' ? 0 : n }))
      assert.deepEqual(list.items, shown, String(id))
    }
  }
})

test('a live item is found by any name of the id field', async (t) => {
  for (const idField of ['n_gt', 'q', '_page', '$key']) {
    const flags = ['--DataStore.IdField', idField]
    const server = await startServer(t, { data: { a: [{ [idField]: 1 }, { [idField]: 2 }] }, flags })
    const client = connect(server.url, { idField })
    t.after(async () => client.close())
    const list = client.collection('a').item(1).live()
    await within('the item of a live list', list.ready)
    assert.deepEqual(list.items, [{ [idField]: 1 }])
  }
})
