import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ErrorEvent, EventSource, type EventSourceInit } from 'eventsource'
import { authentication, keyOf } from '../support/authentication.ts'
import { fetch, once, until } from '../support/deadline.ts'
import { json, startProgram } from '../support/server.ts'
import { startRestartable } from './restarts.ts'

/** A client and what its `message` listener was given so far. */
function follow(t: TestContext, url: string, init: EventSourceInit = {}) {
  const es = new EventSource(url, init)
  t.after(async () => es.close())
  const messages: { readonly id: string; readonly data: { readonly position: number; readonly type: string } }[] = []
  es.addEventListener('message', (event) => {
    messages.push({ id: event.lastEventId, data: JSON.parse(event.data) })
  })
  return { es, messages }
}

test('an EventSource gets all events from the first one on, then each new one', async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }] } })
  const { es, messages } = follow(t, `${server.url}/events`)
  await until('the events of the data file', () => messages.length >= 2)
  assert.equal(es.readyState, EventSource.OPEN)
  await server.fetch('/api/posts', json('POST', { title: 'new' }))
  await server.fetch('/api/posts/1', { method: 'DELETE' })
  await until('the events of the writes', () => messages.length >= 4)
  assert.deepEqual(
    messages.map(({ data }) => data.type),
    ['CollectionCreated', 'ItemCreated', 'ItemCreated', 'ItemDeleted'],
  )
  assert.deepEqual(
    messages.map(({ id, data }) => [id, data.position]),
    [1, 2, 3, 4].map((position) => [String(position), position]),
  )
})

test('an EventSource gets only the events that its address asks for', async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }], comments: [{ id: 1 }] } })
  const { messages } = follow(t, `${server.url}/events?from=5&collection=comments&type=ItemPatched`)
  await server.fetch('/api/posts/1', json('PATCH', { n: 1 }))
  await server.fetch('/api/comments/1', json('PATCH', { n: 1 }))
  await server.fetch('/api/comments/1', json('PUT', {}))
  await server.fetch('/api/comments/1', json('PATCH', { n: 2 }))
  await until('two events', () => messages.length >= 2)
  assert.deepEqual(
    messages.map(({ id }) => id),
    ['6', '8'],
  )
})

test('an EventSource reconnects after restarts of the server, and gets each event once', async (t) => {
  const server = await startRestartable(t, { posts: [] })
  const { es, messages } = follow(t, `${server.url}/events`)
  for (let restart = 1; restart <= 2; restart++) {
    await server.fetch('/api/posts', json('POST', { restart }))
    await until(`${restart * 2} events`, () => messages.length === restart * 2)
    await server.stop()
    await until('a client that reconnects', () => es.readyState === EventSource.CONNECTING)
    await server.start()
    await server.fetch('/api/posts', json('POST', { restart }))
    await until(`${restart * 2 + 1} events`, () => messages.length === restart * 2 + 1)
  }
  assert.equal(es.readyState, EventSource.OPEN)
  assert.deepEqual(
    messages.map(({ id }) => id),
    ['1', '2', '3', '4', '5'],
  )
})

test('an EventSource that is closed gets nothing more and does not reconnect', async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }] } })
  const { es, messages } = follow(t, `${server.url}/events`)
  await until('the events of the data file', () => messages.length >= 2)
  es.close()
  await server.fetch('/api/posts', json('POST', {}))
  const other = follow(t, `${server.url}/events`)
  await until('the events of another client', () => other.messages.length >= 3)
  assert.equal(messages.length, 2)
  assert.equal(es.readyState, EventSource.CLOSED)
})

test('an EventSource without credentials gets an error with the code 401, and ends', async (t) => {
  const { url } = await startProgram(t, { flags: authentication(['apikey']) })
  const { es } = follow(t, `${url}/events`)
  const [error] = (await once(es, 'error')) as [ErrorEvent]
  assert.equal(error.code, 401)
  assert.equal(es.readyState, EventSource.CLOSED)
})

test('an EventSource whose fetch adds a header authenticates', async (t) => {
  const { url } = await startProgram(t, { data: { posts: [] }, flags: authentication(['apikey']) })
  const { messages } = follow(t, `${url}/events`, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, 'X-API-KEY': keyOf('reader') } }),
  })
  await until('the event of the data file', () => messages.length >= 1)
})
