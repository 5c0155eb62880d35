import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConnectOptions, connect, type Recollect, type StateChange } from '../../src/client/index.ts'
import { each, until, within } from '../support/deadline.ts'
import { type Line, lineTo, type Program, type Server, startProgram, startServer } from './host.ts'

interface Thing {
  readonly id: number
  readonly n: number
  readonly text?: string
}

interface Place {
  readonly client: Recollect
  readonly server: Program
  readonly line: Line
  readonly states: readonly StateChange[]
}

const UPSERT = ['--Api.UpsertOnPut', 'true']

/** A client, and a server behind a line that can be cut. */
async function place(
  t: TestContext,
  a: readonly Thing[],
  flags = UPSERT,
  options: ConnectOptions = {},
): Promise<Place> {
  const server = await startProgram(t, { data: { a }, flags })
  const line = await lineTo(t, server.url)
  const client = connect(line.url, options)
  t.after(async () => client.close())
  const states: StateChange[] = []
  client.onState((change) => states.push(change))
  return { client, server, line, states }
}

const put = (server: Server, id: number, n: number) => server.send('PUT', `/api/a/${id}`, { n })
const shown = (items: readonly Partial<Thing>[]) => items.map(({ id, n }) => `${id}:${n}`).join(' ')

test('changes during a lost connection are applied at once after it', async (t) => {
  const { client, server, line, states } = await place(t, [
    { id: 1, n: 10 },
    { id: 2, n: 20 },
  ])
  const list = client.collection<Thing>('a').where({ n_gt: 5 }).sort('n').live()
  const changes: string[] = []
  list.onChange(({ entered, updated, left, wasReset }) => {
    changes.push(`${shown(entered)}/${shown(updated.map(({ item }) => item))}/${shown(left)}/${wasReset}`)
  })
  await within('the items of a live list', list.ready)
  await until('the connection', () => client.state === 'connected')
  await line.cut()
  await until('the loss to be seen', () => client.state === 'disconnected')
  for (const n of [11, 12, 13]) await put(server, 1, n)
  await put(server, 3, 1)
  await put(server, 3, 15)
  await put(server, 2, 1)
  await line.mend()
  await until('the list to be right', () => shown(list.items) === '1:13 3:15')
  assert.deepEqual(changes, ['1:10 2:20///false', '3:15/1:13/2:20/false'])
  assert.deepEqual(states.at(-1), { state: 'connected', caughtUp: 5 })
  assert.equal(list.position, 9)
})

test('a list continues after the server was killed and restarted', async (t) => {
  const { client, server, line, states } = await place(t, [{ id: 1, n: 10 }])
  const list = client.collection<Thing>('a').live()
  let resets = 0
  list.onChange(({ wasReset }) => {
    if (wasReset) resets++
  })
  await within('the items of a live list', list.ready)
  await put(server, 2, 20)
  await server.kill()
  const next = await startServer(t, { directory: server.directory, flags: UPSERT })
  await put(next, 3, 30)
  await line.aim(next.url)
  await until('the list to be right', () => shown(list.items) === '1:10 2:20 3:30')
  await put(next, 4, 40)
  await until('the list to be live', () => list.items.length === 4)
  assert.equal(resets, 0)
  await until('that to be said', () => states.at(-1)?.state === 'connected')
})

test('a list is reloaded when the journal is another one, and reports it', async (t) => {
  const { client, server, line, states } = await place(t, [
    { id: 1, n: 10 },
    { id: 2, n: 20 },
    { id: 3, n: 30 },
  ])
  const list = client.collection<Thing>('a').live()
  await within('the items of a live list', list.ready)
  const other = await startServer(t, {
    data: {
      a: [
        { id: 2, n: 21 },
        { id: 3, n: 30 },
        { id: 4, n: 40 },
      ],
    },
  })
  const told = new Promise((resolve) => list.onChange(resolve))
  await line.aim(other.url)
  await server.stop()
  assert.deepEqual(await within('a change of the list', told), {
    position: 4,
    entered: [{ id: 4, n: 40 }],
    updated: [{ item: { id: 2, n: 21 }, before: { id: 2, n: 20 } }],
    left: [{ id: 1, n: 10 }],
    wasReset: true,
  })
  await until('that to be said', () => states.at(-1)?.caughtUp === 3)
})

test('a list that is too large for a subscription is read in pages, and then followed', async (t) => {
  const things = Array.from({ length: 45 }, (_, id) => ({ id, n: id % 10 }))
  const limits = ['--Limits.SubscriptionItems', '10', '--Limits.PageSize', '20']
  const { client, server, line } = await place(t, things, [...UPSERT, ...limits])
  const list = client.collection<Thing>('a').where({ n_lt: 9 }).sort('-n').live()
  await within('the items of a live list', list.ready)
  await put(server, 0, 100)
  await put(server, 9, 8)
  await until('the list to be live', async () => list.total === 41 && list.position === 48)
  const { items } = await client.collection<Thing>('a').where({ n_lt: 9 }).sort('-n', 'id').page(1, 20).get()
  assert.deepEqual(list.items.slice(0, 20), items)

  const fresh = await startServer(t, { data: { a: things.slice(0, 40) }, flags: [...UPSERT, ...limits] })
  await line.aim(fresh.url)
  await server.stop()
  await until('the other history', () => list.total === 36)
})

test('a list that is too large to be resumed is refused, and not read again and again', async (t) => {
  const things = Array.from({ length: 21 }, (_, id) => ({ id, n: id }))
  const { client, server } = await place(t, things, [...UPSERT, '--Limits.SubscriptionItems', '2'])
  const list = client.collection<Thing>('a').live()
  await assert.rejects(within('the items of a live list', list.ready), { code: 'TooLarge', status: 413 })
  const grown = client.collection<Thing>('a').where({ n_lt: 20 }).live()
  await within('the items of a live list', grown.ready)
  // It is ready when it was read. The server follows it when it shows a change; an item added before is one too many.
  await put(server, 0, 1)
  await until('the other one to be live', () => shown(grown.items.slice(0, 1)) === '0:1')
  await put(server, 20, 1)
  await until('it to have grown', () => grown.total === 21)
})

test('a slow client gets the latest version of each item, and an interruption then loses nothing', async (t) => {
  const { client, server, line } = await place(t, [{ id: 100, n: 0 }])
  const list = client.collection<Thing>('a').where({ n_gte: 0 }).live()
  await within('the items of a live list', list.ready)
  const text = 'x'.repeat(100_000)
  const flood = async (from: number): Promise<void> => {
    for (let n = from; n < from + 160; n++) await server.send('PUT', `/api/a/${n % 7}`, { n, text })
  }
  const isRight = async (): Promise<boolean> => {
    return (await server.get('/api/a?n_gte=0&sort=id')) === JSON.stringify(list.items)
  }
  await line.stall(true)
  await flood(0)
  await line.stall(false)
  await until('the list to be right', isRight)
  assert.match(await server.get('/metrics'), /^recollect_lagged_total [1-9]/m, 'it was told so')

  await line.stall(true)
  await put(server, 100, -1)
  await flood(160)
  await put(server, 100, -2)
  await line.stall(false)
  await line.cut()
  await line.mend()
  await until('the list to be right again', isRight)
})

test('lists with a page or with selected fields stay right, too', async (t) => {
  const { client, server } = await place(
    t,
    [1, 2, 3, 4].map((id) => ({ id, n: id * 10, text: 'x' })),
  )
  const list = client.collection<Thing>('a').sort('-n').fields('n').page(1, 2).live()
  const changes: string[] = []
  list.onChange(({ entered, left }) => changes.push(`${JSON.stringify(entered)} ${JSON.stringify(left)}`))
  await within('the items of a live list', list.ready)
  assert.deepEqual(list.items, [{ n: 40 }, { n: 30 }])
  await put(server, 1, 50)
  await until('1 to be on the page', () => list.items[0]?.n === 50)
  await server.send('DELETE', '/api/a/2')
  await until('2 to be gone', () => list.total === 3)
  assert.deepEqual(list.items, [{ n: 50 }, { n: 40 }])
  assert.deepEqual(changes, ['[{"n":40},{"n":30}] []', '[{"n":50}] [{"n":30}]'])
})

test('the items array stays the same object until something changes', async (t) => {
  const { client, server } = await place(t, [{ id: 1, n: 1 }])
  const list = client.collection<Thing>('a').live()
  await within('the items of a live list', list.ready)
  const before = list.items
  assert.equal(list.items, before)
  await put(server, 1, 2)
  await until('the change', () => list.items !== before)
  assert.deepEqual(before, [{ id: 1, n: 1 }])
})

test('iteration yields all items, then every change, with concurrent changes combined', async (t) => {
  const { client, server } = await place(t, [{ id: 1, n: 1 }])
  const list = client.collection<Thing>('a').live()
  const told: string[] = []
  for await (const { entered, updated, left, position } of each('a change of the list', list)) {
    const now = [entered, updated.map(({ item }) => item), left].map(shown).join('/')
    told.push(now)
    if (told.length === 1) {
      await put(server, 2, 2)
      await put(server, 1, 3)
      await put(server, 3, 3)
      await server.send('DELETE', '/api/a/3')
      await put(server, 1, 4)
      await until('all of it', () => list.position === 7)
    } else if (position === 7) await put(server, 1, 5)
    else list.close()
  }
  assert.deepEqual(told, ['1:1//', '2:2/1:4/', '/1:5/'])
  assert.equal(list.isClosed, true)
})

test('a list that the server rejects throws the reason', async (t) => {
  const { client } = await place(t, [], [...UPSERT, '--Limits.SubscriptionsPerSocket', '1'])
  const things = client.collection<Thing>('a')
  // @ts-expect-error: it exists or does not
  const wrong = things.where({ n_exists: 'perhaps' }).live()
  await assert.rejects(within('the items of a live list', wrong.ready), {
    name: 'Problem',
    code: 'Invalid',
    status: 400,
  })
  assert.deepEqual([wrong.isClosed, wrong.error?.code], [true, 'Invalid'])
  await assert.rejects(
    async () => {
      for await (const _ of each('a change of the list', wrong)) assert.fail('there is nothing')
    },
    { code: 'Invalid' },
  )
  const first = things.live()
  await within('the items of a live list', first.ready)
  await assert.rejects(within('the items of a live list', things.live().ready), { code: 'TooMany' })
  first.close()
  const again = things.live()
  await within('the items of a live list', again.ready)
  assert.throws(() => things.asOf(1).live(), TypeError)
  assert.throws(() => things.where({ text: 'x'.repeat(20_000) }).live(), { code: 'Invalid' })
})

test('a closed list gets no more changes, and other lists do', async (t) => {
  const { client, server } = await place(t, [])
  const [closed, open] = [client.collection<Thing>('a').live(), client.collection<Thing>('a').live()]
  let calls = 0
  closed.onChange(() => calls++)
  await within('the items of two live lists', Promise.all([closed.ready, open.ready]))
  closed.close()
  await put(server, 1, 1)
  await until('the other one', () => open.items.length === 1)
  assert.deepEqual([calls, closed.items], [1, []])
})

test('a list of a missing collection is empty until the collection is created', async (t) => {
  const { client } = await place(t, [])
  const later = client.collection<Thing>('later')
  const list = later.live()
  await within('the items of a live list', list.ready)
  await later.create({ n: 7 })
  await until('the item', () => shown(list.items) === '0:7')
})

test('a replay shows the past at its pace, and reaches the present', async (t) => {
  const { client, server } = await place(t, [{ id: 1, n: 10 }])
  await put(server, 2, 20)
  await put(server, 1, 11)
  const list = client.collection<Thing>('a').sort('n').replay({ from: 2, speed: 1000 })
  const seen: string[] = []
  let isReplaying: boolean | undefined
  list.onChange(() => {
    isReplaying ??= list.isReplaying
    seen.push(shown(list.items))
  })
  await within('the items of a live list', list.ready)
  await until('the present', () => !list.isReplaying)
  assert.equal(isReplaying, true)
  assert.deepEqual(seen, ['1:10', '1:10 2:20', '1:11 2:20'])
  await put(server, 3, 30)
  await until('what comes', () => list.items.length === 3)
  const early = client.collection('a').replay({ from: 99 })
  await assert.rejects(within('the items of a live list', early.ready), { code: 'Invalid' })
})
