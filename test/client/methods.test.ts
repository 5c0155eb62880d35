import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { each, until, within } from '../support/deadline.ts'
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

test('the journal is read in pages, with what each event changed, and counted', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1, title: 'a' }], profile: { name: 'Ada' } } })
  const client = connect(url)
  t.after(() => client.close())
  const before = await client.counts()
  await client.collection('posts').item(1).patch({ title: 'b' })
  await client.collection('posts').create({ title: 'c' })
  const first = await client.eventPage({ order: 'desc', limit: 1, changes: true })
  assert.deepEqual(
    first.events.map(({ type, changes }) => [type, changes]),
    [['ItemCreated', [{ path: '', after: { title: 'c', id: 2 } }]]],
  )
  const second = await client.eventPage({
    order: 'desc',
    limit: 1,
    changes: true,
    ...(first.next && { from: first.next }),
  })
  assert.deepEqual(second.events[0]?.changes, [{ path: '/title', before: 'a', after: 'b' }])
  assert.equal((await client.eventPage({ collection: 'profile' })).next, undefined)
  assert.deepEqual(
    [before, await client.counts()],
    [
      { posts: 1, profile: null },
      { posts: 2, profile: null },
    ],
  )
  assert.deepEqual(await client.counts({ asOf: first.position - 1 }), { posts: 1, profile: null })

  const rows = await client.eventCounts({ groupBy: ['type'], collection: 'posts', window: '1d', tz: 'Europe/Helsinki' })
  const counts = new Map<string | undefined, number>()
  for (const { type, count } of rows) counts.set(type, (counts.get(type) ?? 0) + count)
  assert.deepEqual([counts.get('ItemPatched'), counts.get('ItemCreated')], [1, 2])
  await assert.rejects(client.eventCounts({ window: '1 day' }), { status: 400 })
})

test('any request can be sent with the credentials of the client', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1 }] } })
  const client = connect(url)
  t.after(() => client.close())
  const created = await client.request('POST', '/api/posts', {
    text: 'n\n7\n',
    headers: { 'Content-Type': 'text/csv' },
  })
  assert.deepEqual([created.status, created.json()], [201, { ids: [2] }])
  const head = await client.request('HEAD', '/api/posts')
  assert.deepEqual([head.headers.get('X-Total-Count'), head.text()], ['2', ''])
  await assert.rejects(client.request('GET', '/api/nothing'), { status: 404 })
  assert.equal((await client.request('GET', '/api/nothing', { accept: [404] })).status, 404)
})

test('the journal is checked, and the last line says how it is', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1 }] } })
  const client = connect(url)
  t.after(() => client.close())
  const lines = []
  for await (const line of each('a line of the check', client.verify())) lines.push(line)
  assert.deepEqual(lines.at(-1), { ok: true, position: 2 })
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

interface Tree {
  readonly name: string
  readonly children?: readonly Tree[]
}

interface NestedReading {
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

const NESTED_READINGS: readonly NestedReading[] = [
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
  const server = await startServer(t, { data: { readings: NESTED_READINGS } })
  const client = connect(server.url)
  t.after(() => client.close())
  const all = client.collection<NestedReading>('readings')
  const macs = async (query: { get(): Promise<{ items: readonly Partial<NestedReading>[] }> }) =>
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
  const all = connect('http://localhost').collection<NestedReading>('readings')
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
  const all = connect('http://localhost').collection<NestedReading>('readings')
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

test('created ids and columns of groups have the types of the fields', async (t) => {
  const { url } = await startServer(t, { data: { readings: [] } })
  const client = connect(url)
  t.after(() => client.close())
  const readings = client.collection<NestedReading>('readings')
  const id: number = (await readings.create({ mac: 'A', axes: [] })).id
  const ids: readonly number[] = (await readings.createAll([{ mac: 'A', axes: [] }])).ids
  const untyped: string | number = (await client.collection('untyped').create({})).id
  assert.deepEqual([id, ids, untyped], [0, [1], 0])
  const { items } = await readings.aggregate(['count', 'avg(data.temperature) as t'], {
    groupBy: ['mac', 'data.place.room'],
  })
  const [row] = items
  assert.ok(row)
  const mac: string = row.mac
  const [room, count, t2]: [string | null, number, number | null] = [row['data.place.room'], row.count, row.t]
  assert.deepEqual([mac, room, count, t2], ['A', null, 2, null])
  // @ts-expect-error: no such column
  const missing: string = row.data
  // @ts-expect-error: no such field
  await assert.rejects(readings.aggregate(['count'], { groupBy: ['macs'] }).then(() => Promise.reject(missing)))
})

test('a column of groups by an array is one element or null, and typed so', async (t) => {
  const data = { posts: [{ id: 1, tags: ['a', 'b'], marks: [{ n: 1 }] }, { id: 2 }] }
  const { url } = await startServer(t, { data })
  const client = connect(url)
  t.after(() => client.close())
  const posts = client.collection<{ id: number; tags?: string[]; marks: { n: number }[] }>('posts')
  const byTag = await posts.aggregate(['count'], { groupBy: ['tags'] })
  const tags: readonly (string | null)[] = byTag.items.map((row) => row.tags)
  const byMark = await posts.aggregate(['count'], { groupBy: ['marks.n'] })
  const marks: readonly (number | null)[] = byMark.items.map((row) => row['marks.n'])
  assert.deepEqual(
    [tags, marks],
    [
      [null, 'a'],
      [null, 1],
    ],
  )
  // @ts-expect-error: a column is one element
  assert.equal(byTag.items[0]?.tags?.map, undefined)
})

test('a value that a field can have compiles, and so does any value of an untyped field', () => {
  const all = connect('http://localhost').collection<NestedReading>('readings')
  const any = connect('http://localhost').collection('readings')
  const queries = [
    all.where({ 'data.temperature_gt': 20, 'data.temperature_ne': [21, 22], mac_gte: new Date(0) }),
    all.where({ 'data.place': null, 'data.place.room_in': 'cellar,attic', 'axes.n': [1, 2], id_in: [1, 2] }),
    all.where({ 'notes.deep_gt': 'x', 'labels.any_exists': true, notes: 5, tree: undefined }),
    any.where({ 'data.temperature_gt': 'warm', anything: null }),
  ]
  assert.equal(queries.length, 4)
})

interface TimedReading {
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
const TIMED = JSON.stringify({ readings: { Time: 'data.t' } })

test('a live list has the order of the server, whatever the spelling of the event times', async (t) => {
  for (const most of ['10000', '3']) {
    const flags = ['--Collections', TIMED, '--Limits.SubscriptionItems', most]
    const data = { readings: TIMES.map((at, id) => ({ id, data: { t: at }, n: 0 })) }
    const server = await startServer(t, { flags, data })
    const client = connect(server.url)
    t.after(async () => client.close())
    const readings = client.collection<TimedReading>('readings')
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

test('a long response is read as it arrives, with the credentials of the client', async (t) => {
  const { url } = await startServer(t, { data: { readings: READINGS }, flags: TIME })
  const client = connect(url)
  t.after(() => client.close())
  const headers = { Accept: 'application/x-ndjson' }
  const response = await client.stream('/api/readings?all=true&mac=A', { headers })
  const chunks: string[] = []
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) chunks.push(chunk)
  const items = chunks.join('').trimEnd().split('\n')
  assert.deepEqual(
    items.map((line) => JSON.parse(line)),
    READINGS.slice(0, 2),
  )
  await assert.rejects(() => client.stream('/api/none?all=true'), { name: 'Problem', status: 404 })
})
