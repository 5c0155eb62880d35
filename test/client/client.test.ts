import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connect, Problem, type Recollect, Unreachable } from '../../src/client/index.ts'
import { problemOf } from '../../src/client/problem.ts'
import { each, until, within } from '../support/deadline.ts'
import { lineTo, type Server, startProxy, startServer } from './host.ts'

interface Reading {
  readonly id: number
  readonly mac: string
  readonly battery: number
  readonly data?: { readonly temperature: number }
}

const SENSORS: readonly Reading[] = [
  { id: 1, mac: 'A', battery: 2900, data: { temperature: 21 } },
  { id: 2, mac: 'B', battery: 3100, data: { temperature: 19 } },
  { id: 3, mac: 'C', battery: 2800 },
]

async function sensors(t: TestContext, flags: readonly string[] = []): Promise<[Recollect, Server]> {
  const server = await startServer(t, { data: { sensors: SENSORS, 'a/b': [] }, flags })
  const client = connect(server.url)
  t.after(() => client.close())
  return [client, server]
}

const macs = (items: readonly Partial<Reading>[]) => items.map(({ mac }) => mac).join('')

test('each method of a query returns a new query and leaves the original unchanged', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const low = all.where({ battery_lt: 3000 })
  assert.equal(macs((await low.sort('-battery').get()).items), 'AC')
  assert.equal(macs((await low.get()).items), 'AC')
  assert.equal(macs((await all.get()).items), 'ABC')
  assert.equal(
    macs(
      (
        await all
          .where({ mac: ['A', 'B'] })
          .sort('battery_desc')
          .get()
      ).items,
    ),
    'BA',
  )
  assert.equal(macs((await all.where({ 'data.temperature_gte': 20 }).get()).items), 'A')
  assert.equal(macs((await all.q('b').get()).items), 'B')
  const { items, total, position, etag } = await all.fields('mac').page(2, 2).get()
  assert.deepEqual(items, [{ mac: 'C' }])
  assert.deepEqual({ total, position }, { total: 3, position: 5 })
  assert.match(etag ?? '', /^"/)
  assert.deepEqual(await client.collections(), ['sensors', 'a/b'])
})

test('a filter by one of no values is rejected, as leaving it out would select every item', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  assert.throws(() => all.where({ id: [], mac_exists: true }), {
    name: 'TypeError',
    message: 'No item matches id: [].',
  })
  assert.throws(() => all.where({ mac_in: [] }), TypeError)
  assert.throws(() => all.where({ id: [undefined] as unknown as number[] }), TypeError)
  assert.equal((await all.where({ mac_ne: [], id: undefined }).get()).total, SENSORS.length)
})

test('items are created, read, changed and deleted, and their history can be read', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const { id, position } = await all.create({ mac: 'D', battery: 1 })
  assert.deepEqual([id, position], [4, 6])
  const item = all.item(4)
  const { etag } = await item.get()
  await item.patch({ battery: 2 }, { ifMatch: etag })
  await item.patch([{ op: 'replace', path: '/mac', value: 'E' }])
  const replaced = await item.replace({ id: 4, mac: 'F', battery: 3 })
  assert.deepEqual((await item.get()).item, { id: 4, mac: 'F', battery: 3 })
  assert.equal((await item.get()).etag, replaced.etag)
  assert.deepEqual((await item.asOf(7).get()).item, { mac: 'D', battery: 2, id: 4 })
  assert.equal(macs((await all.asOf(8).where({ id: 4 }).get()).items), 'E')
  await item.delete()
  const types: string[] = []
  for await (const { type } of each('an event', item.history())) types.push(type)
  assert.deepEqual(types, ['ItemCreated', 'ItemPatched', 'ItemPatched', 'ItemReplaced', 'ItemDeleted'])
  const deleted = { to: 9, collection: 'sensors', id: 4 }
  await assert.rejects(client.restore({ ...deleted, ifUnchangedSince: 9 }), { status: 412 })
  await client.restore({ ...deleted, ifUnchangedSince: 10 })
  assert.equal((await item.get()).item.mac, 'F')
})

test('an edit of what a page or a live list showed fails when somebody else has changed it meanwhile', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const list = all.sort('mac').live()
  await within('the items of a live list', list.ready)
  const shown = list.position
  const page = await all.get()
  assert.equal(page.position, shown)
  await all.item(1).patch({ battery: 7 }, { ifUnchangedSince: shown })
  for (const ifUnchangedSince of [shown, page.position]) {
    await assert.rejects(all.item(1).patch({ battery: 8 }, { ifUnchangedSince }), {
      status: 412,
      code: 'PreconditionFailed',
    })
    await assert.rejects(all.item(1).delete({ ifUnchangedSince }), { status: 412 })
  }
  await all.item(2).patch({ battery: 8 }, { ifUnchangedSince: shown })
  await until('the list to show it', () => list.items.find(({ id }) => id === 2)?.battery === 8)
  await all.item(2).delete({ ifUnchangedSince: list.position })
})

test('a single object is read, changed, deleted and created again, and a live list holds it', async (t) => {
  const profile = { id: 7, name: 'Ada', in: { x: 1 } }
  const { url } = await startServer(t, { data: { profile } })
  const client = connect(url)
  t.after(() => client.close())
  const object = client.object<{ id?: number; name: string; n?: number }>('profile')
  const { item, etag, position } = await object.get()
  assert.deepEqual(item, profile)
  const list = object.live()
  await within('the items of a live list', list.ready)
  assert.deepEqual([...list.items], [profile])
  await object.patch({ n: 1 }, { ifMatch: etag })
  await assert.rejects(object.replace({ name: 'x' }, { ifMatch: etag }), { status: 412 })
  await object.patch([{ op: 'replace', path: '/name', value: 'Grace' }])
  await until('the list to have the object', () => list.items[0]?.name === 'Grace')
  assert.deepEqual([list.items.length, list.items[0]?.n], [1, 1])
  await object.delete()
  await until('the list to be empty', () => list.items.length === 0)
  await assert.rejects(object.get(), { status: 404 })
  await object.replace({ name: 'Eve' })
  await until('the list to have it again', () => list.items[0]?.name === 'Eve')
  assert.deepEqual((await object.asOf(position).get()).item, profile)
  const types: string[] = []
  for await (const { type } of each('an event', object.history())) types.push(type)
  assert.deepEqual(types, ['ObjectCreated', 'ItemPatched', 'ItemPatched', 'ObjectDeleted', 'ObjectCreated'])
  await assert.rejects(client.collection('profile').item('').delete(), TypeError)
})

test('an error response is thrown as a Problem with all its members', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const refused = (work: Promise<unknown>, status: number, code: string) =>
    assert.rejects(work, (error) => {
      assert.ok(error instanceof Problem)
      assert.deepEqual([error.status, error.code], [status, code])
      assert.notEqual(error.detail, '')
      return true
    })
  await refused(all.item(99).get(), 404, 'NotFound')
  await refused(all.item(1).replace(SENSORS[0] as Reading, { ifMatch: '"x"' }), 412, 'PreconditionFailed')
  await refused(all.asOf(1000).get(), 400, 'Invalid')
  await refused(client.collection('none').get(), 404, 'NotFound')
  await refused(client.restore({ to: 1, collection: 'none' }), 422, 'Unprocessable')
})

test('the error response of a proxy without a reason phrase has a message', async () => {
  const problem = await problemOf(new Response('<h1>Bad Gateway</h1>', { status: 502 }))
  assert.deepEqual([problem.message, problem.status], ['status 502', 502])
})

test('live lists beyond the limit of the server are refused, and the others work', async (t) => {
  // A search takes long enough for the other subscriptions to be queued.
  const data = { a: Array.from({ length: 5000 }, (_, id) => ({ id, text: 'x'.repeat(200) })) }
  const server = await startServer(t, { data })
  const client = connect(server.url)
  t.after(() => client.close())
  const lists = Array.from({ length: 300 }, (_, n) => client.collection('a').q(`no ${n}`).live())
  const results = await within('the answers to 300 subscriptions', Promise.allSettled(lists.map((list) => list.ready)))
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 100)
  assert.deepEqual(new Set(lists.map(({ error }) => error?.code)), new Set([undefined, 'TooMany']))
  await client.collection('a').create({ text: 'no 1' })
  await until('one to be told', () => lists[1]?.items.length === 1)
  assert.equal(client.state, 'connected')
})

test('a live list begins with the matching items and follows changes', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const list = all.where({ battery_lt: 3000 }).sort('battery').live()
  const told: string[] = []
  list.onChange(({ entered, updated, left }) =>
    told.push(`+${macs(entered)} =${macs(updated.map(({ item }) => item))} -${macs(left)}`),
  )
  await within('the items of a live list', list.ready)
  assert.equal(macs(list.items), 'CA')
  await all.item(2).patch({ battery: 2850 })
  await until('B to be there', () => macs(list.items) === 'CBA')
  await all.item(1).patch({ battery: 1 })
  await all.item(3).delete()
  const { position } = await all.create({ mac: 'X', battery: 9999 })
  await until('the last position', () => list.position === position)
  assert.equal(macs(list.items), 'AB')
  assert.equal(list.total, 2)
  assert.deepEqual(told, ['+CA = -', '+B = -', '+ =A -', '+ = -C'])
})

test('the client, its lists and its events work below a base path', async (t) => {
  const [, server] = await sensors(t)
  const client = connect(`${await startProxy(t, server.url)}/`)
  t.after(() => client.close())
  const all = client.collection<Reading>('sensors')
  const list = all.live()
  await within('the items of a live list', list.ready)
  const { id } = await all.create({ mac: 'D', battery: 1 })
  await until('the new one, without WebSockets', () => list.items.some((item) => item.id === id))
  for await (const { position } of each('an event', all.history({ from: 6 }))) assert.equal(position, 6)
})

test('batches are created all or none, or item by item, and filters delete many items', async (t) => {
  const [client] = await sensors(t)
  const logs = client.collection<{ id: number; level: string }>('logs')
  const { ids, position } = await logs.createAll([{ level: 'a' }, { level: 'b' }, { level: 'b' }], {
    idempotencyKey: 'k',
  })
  assert.deepEqual(ids, [0, 1, 2])
  assert.deepEqual(await logs.createAll([{ level: 'a' }, { level: 'b' }, { level: 'b' }], { idempotencyKey: 'k' }), {
    ids,
    position,
  })
  const { results } = await logs.createEach([{ level: 'c' }, 7 as unknown as { level: string }])
  assert.deepEqual(results[0], { status: 'created', id: 3 })
  assert.ok(results[1]?.status === 'rejected' && results[1].problem instanceof Problem)
  assert.equal(results[1].problem.status, 422)

  const b = logs.where({ level: 'b' })
  const dry = await b.deleteAll({ dryRun: true })
  assert.deepEqual([dry.deleted, dry.dryRun, dry.ids], [2, true, [1, 2]])
  assert.deepEqual((await b.deleteAll()).ids, [1, 2])
  assert.equal((await logs.get()).total, 2)
  await assert.rejects(() => logs.deleteAll(), TypeError)
  await assert.rejects(() => b.sort('level').deleteAll(), TypeError)
  for (const unset of [
    b.where({ id: undefined }),
    logs.where({ level: undefined, id_gte: 0 }),
    logs.where({ id: undefined }).q('a'),
  ]) {
    await assert.rejects(() => unset.deleteAll(), /^TypeError: The filter (id|level) is undefined/)
  }
  assert.equal((await logs.drop()).deleted, 2)
  assert.equal((await client.collections()).includes('logs'), false)
  await logs.createEmpty()
  assert.equal((await logs.get()).total, 0)
})

test('a whole result is exported as text', async (t) => {
  const [client] = await sensors(t)
  const all = client.collection<Reading>('sensors')
  const csv = await all.where({ battery_lt: 3000 }).sort('-battery').fields('mac', 'battery').export('csv')
  assert.equal(await new Response(csv.body).text(), 'mac,battery\r\nA,2900\r\nC,2800\r\n')
  assert.equal(csv.position, 5)
  const ndjson = await all.asOf(csv.position).export('ndjson')
  assert.deepEqual(
    (await new Response(ndjson.body).text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    SENSORS,
  )
  assert.deepEqual(await new Response((await all.export('json')).body).json(), SENSORS)
  await assert.rejects(() => all.page(1).export('csv'), TypeError)
})

test('items are read with the items that refer to them, and with those they refer to', async (t) => {
  const data = {
    posts: [{ id: 1, title: 'first' }],
    comments: [
      { id: 1, body: 'a', postId: 1 },
      { id: 2, body: 'b' },
    ],
  }
  const { url } = await startServer(t, { data })
  const client = connect(url)
  t.after(() => client.close())
  const posts = client.collection<{ id: number; title: string }>('posts').embed('comments')
  const [post] = (await posts.get()).items
  assert.deepEqual(
    post?.comments.map(({ body }) => body),
    ['a'],
  )
  const comments = client.collection<{ id: number; body: string }>('comments').expand('post')
  assert.deepEqual(
    (await comments.get()).items.map(({ body, post }) => [body, post?.title]),
    [
      ['a', 'first'],
      ['b', undefined],
    ],
  )
  assert.throws(() => posts.live(), TypeError)
  await assert.rejects(comments.where({ body: 'a' }).deleteAll(), TypeError)
})

test('a server that cannot be reached is told from one that refuses, and from an error of the program', async (t) => {
  const { url } = await startServer(t, { data: { a: [{ id: 1 }] } })
  const line = await lineTo(t, url)
  const client = connect(line.url)
  t.after(async () => client.close())
  await assert.rejects(client.collection('a').item(2).get(), (error) => !(error instanceof Unreachable))
  await line.cut()
  const isUnreachable = (error: unknown) => error instanceof Unreachable && error.cause instanceof TypeError
  await assert.rejects(within('the answer', client.collections()), isUnreachable)
  await assert.rejects(within('an event', client.events().next()), isUnreachable)
  const noText = { toJSON: () => (undefined as unknown as Date).toISOString() }
  await assert.rejects(client.collection('a').create({ noText }), (error) => !(error instanceof Unreachable))
})
