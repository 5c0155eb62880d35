import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventsOf } from '../../src/client/events.ts'
import { connect, type RecordedEvent } from '../../src/client/index.ts'
import type { Requests } from '../../src/client/requests.ts'
import { each, until, within } from '../support/deadline.ts'
import { lineTo, startProgram, startServer } from './host.ts'

test('a stream of past events ends; a stream that follows continues after lost connections and restarts', async (t) => {
  let server = await startProgram(t, { data: { a: [{ id: 0 }], b: [{ id: 0 }] } })
  const line = await lineTo(t, server.url)
  const client = connect(line.url)
  t.after(async () => client.close())
  const positions = async (events: AsyncIterable<RecordedEvent>): Promise<number[]> => {
    const found: number[] = []
    for await (const { position } of each('an event', events)) found.push(position)
    return found
  }
  assert.deepEqual(await positions(client.events()), [1, 2, 3, 4])
  assert.deepEqual(await positions(client.events({ from: 2, limit: 2 })), [2, 3])
  assert.deepEqual(await positions(client.collection('b').history()), [3, 4])
  assert.deepEqual(await positions(client.collection('b').item(0).history({ type: 'ItemDeleted' })), [])
  await assert.rejects(positions(client.events({ type: 'Nothing' as 'ItemDeleted' })), { status: 400 })
  await assert.rejects(positions(client.events({ type: 'Nothing' as 'ItemDeleted', follow: true })), { status: 400 })

  const followed: RecordedEvent[] = []
  const over = (async () => {
    for await (const event of each('an event', client.events({ collection: 'a', from: 2, limit: 5, follow: true })))
      followed.push(event)
  })()
  const create = async (count: number): Promise<void> => {
    await server.send('POST', '/api/a', {})
    await until(`${count} events`, () => followed.length === count)
  }
  await create(2)
  await line.cut()
  await line.mend()
  await create(3)
  await server.kill()
  server = await startProgram(t, { directory: server.directory })
  await line.aim(server.url)
  await create(4)
  await create(5)
  await within('the end of the stream', over)
  assert.deepEqual(
    followed.map(({ position }) => position),
    [2, 5, 6, 7, 8],
  )
})

/** Requests that get these texts as streams of the head 5, one after the other, and the last one again and again. */
function streaming(...texts: readonly string[]) {
  const asked: string[] = []
  const requests = {
    closed: new AbortController().signal,
    stream: async (_method: string, path: string) => {
      asked.push(path)
      return new Response(texts[asked.length - 1] ?? texts.at(-1), { headers: { 'Journal-Position': '5' } })
    },
  } as unknown as Requests
  return { requests, asked }
}

test('a stream of new events that was interrupted before the first one continues where it began', async () => {
  const { requests, asked } = streaming('', ': journal j\nid: 5\n\nid: 6\ndata: {"position":6}\n\n')
  const events = eventsOf(requests, { from: 'now', follow: true })
  assert.equal((await within('an event', events.next())).value?.position, 6)
  assert.deepEqual(asked, ['/events?from=now', '/events?from=6'])
  const following = events.next()
  await until('the next request', () => asked.length === 3)
  assert.equal(asked[2], '/events?from=7&journal=j')
  await following
  await events.return()
})

test('a stream that was interrupted continues behind the position up to which no event was left', async () => {
  const found = 'id: 9\ndata: {"position":9}\n\n'
  const { requests, asked } = streaming(
    ': journal j\nid: 5\n\n: nothing new\nid: 7\n\n',
    'id: 8\n',
    found.slice(0, -1),
    found,
  )
  const events = eventsOf(requests, { from: 'now', type: 'IdsReset', limit: 2, follow: true })
  const first = await within('an event', events.next())
  assert.equal(first.value?.position, 9)
  const followed = '/events?from=8&type=IdsReset&limit=2&journal=j'
  assert.deepEqual(asked, ['/events?from=now&type=IdsReset&limit=2', followed, followed])
  await within('an event', events.next())
  assert.equal(asked[3], '/events?from=10&type=IdsReset&limit=1&journal=j')
  assert.equal((await within('the end', events.next())).done, true)
})

test('a filter with an invalid Date throws, also of a stream that follows', async () => {
  const { requests, asked } = streaming('')
  for (const follow of [false, true]) {
    const events = eventsOf(requests, { since: new Date(Number.NaN), follow })
    await assert.rejects(within('the error', events.next()), RangeError)
  }
  assert.deepEqual(asked, [])
})

test('events name their journal, and those of another one or beyond the end are rejected', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 0 }] } })
  const client = connect(server.url)
  t.after(async () => client.close())
  const [event] = await server.get('/events?limit=1').then((text) => JSON.parse(text) as [RecordedEvent])
  const { journal } = event
  const behind = client.events({ from: 3, journal })
  assert.equal((await within('the end', behind.next())).done, true)
  for (const follow of [false, true]) {
    await assert.rejects(within('the answer', client.events({ from: 4, follow }).next()), {
      status: 400,
      code: 'Invalid',
    })
    const others = client.events({ from: 2, journal: '5e1f7c1e-7f0f-4a43-9a55-3a2f51b6c1ad', follow })
    await assert.rejects(within('the answer', others.next()), { status: 409, code: 'Conflict' })
  }
})

test('a stream that follows rejects when the server has another journal', async (t) => {
  const first = await startServer(t, { data: { a: [{ id: 0 }] } })
  const other = await startServer(t, { data: { a: [{ id: 0 }], b: [{ id: 0 }] } })
  const line = await lineTo(t, first.url)
  const client = connect(line.url)
  t.after(async () => client.close())
  const events = client.events({ follow: true })
  for (const position of [1, 2]) assert.equal((await within('an event', events.next())).value?.position, position)
  await line.cut()
  await line.aim(other.url)
  await line.mend()
  await assert.rejects(within('the end', events.next()), { status: 409, code: 'Conflict' })
})

test('leaving the loop, aborting or closing the client ends the stream', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 0 }] }, flags: ['--Http.KeepAliveSeconds', '1'] })
  const line = await lineTo(t, server.url)
  const client = connect(line.url)
  for await (const { position } of each('an event', client.events({ follow: true }))) if (position === 2) break
  await until('the line to be free', async () => (await line.carried()) === 0)

  const aborting = new AbortController()
  await assert.rejects(async () => {
    for await (const { position } of each('an event', client.events({ follow: true, signal: aborting.signal }))) {
      if (position === 2) aborting.abort(new Error('enough'))
    }
  }, /enough/)
  await assert.rejects(
    async () => {
      for await (const { position } of each('an event', client.events({ follow: true })))
        if (position === 2) client.close()
    },
    { name: 'AbortError' },
  )
  await until('the line to be free', async () => (await line.carried()) === 0)
})

test('every client receives every event', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 'x/y' }] } })
  const client = connect(server.url)
  t.after(async () => client.close())
  const told: object[] = []
  client.onUpdated((updated) => told.push(updated))
  await until('the connection', () => client.state === 'connected')
  await client.collection('a').item('x/y').delete()
  await until('the notification', () => told.length === 1)
  assert.deepEqual(told, [{ method: 'DELETE', path: '/api/a/x%2Fy', collection: 'a', itemId: 'x/y', position: 3 }])
})
