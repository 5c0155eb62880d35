import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { within } from '../support/deadline.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

const NDJSON = 'application/x-ndjson'

interface Event {
  readonly position: number
  readonly id?: unknown
}

/** A reader of lines that come one by one. */
async function follow(t: TestContext, server: RunningServer, query: string) {
  const ending = new AbortController()
  t.after(() => ending.abort())
  const answer = await server.fetch(`/events?${query}`, { headers: { Accept: NDJSON }, signal: ending.signal })
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('Content-Type'), NDJSON)
  const reader = (answer.body as ReadableStream).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    /** The next events; fewer when the stream ends. */
    async take(count: number): Promise<Event[]> {
      const events: Event[] = []
      while (events.length < count) {
        const end = text.indexOf('\n')
        if (end >= 0) {
          events.push(JSON.parse(text.slice(0, end)) as Event)
          text = text.slice(end + 1)
          continue
        }
        const { value, done } = await within('the next events of a stream', reader.read())
        if (done) return events
        text += value
      }
      return events
    },
  }
}

const positions = (events: readonly Event[]): number[] => events.map(({ position }) => position)

/** The server of all tests that do not stop it. The first three events are of these items. */
const server = await startServer({ after }, { data: { a: [{ id: 0 }, { id: 1 }] } })

/** The positions of the next events, so many of them. */
async function next(count: number): Promise<number[]> {
  const head = Number((await server.fetch('/api')).headers.get('Journal-Position'))
  return Array.from({ length: count }, (_, index) => head + 1 + index)
}

test('without follow NDJSON ends, and with follow=false server-sent events end, too', async (t) => {
  for (const query of ['', 'follow=false']) {
    assert.deepEqual(positions(await (await follow(t, server, query)).take(99)), [1, 2, 3])
  }
  const answer = await server.fetch('/events?follow=false', { headers: { Accept: 'text/event-stream' } })
  assert.deepEqual((await answer.text()).match(/^id: .*$/gm), ['id: 1', 'id: 2', 'id: 3'])
})

test('follow must be true or false, and does not apply to a page', async () => {
  const refused = await server.fetch('/events?follow=true')
  assert.equal(refused.status, 400)
  assert.match(((await refused.json()) as { detail: string }).detail, /Pages.*x-ndjson/)
  assert.equal((await server.fetch('/events?follow=false')).status, 200)
  for (const query of ['follow=', 'follow=yes', 'follow=true&follow=true']) {
    assert.equal((await server.fetch(`/events?${query}`, { headers: { Accept: NDJSON } })).status, 400, query)
  }
})

test('NDJSON with follow=true continues with new events, one a line', async (t) => {
  const stream = await follow(t, server, 'follow=true')
  assert.deepEqual(positions(await stream.take(3)), [1, 2, 3])
  const expected = await next(20)
  for (let n = 0; n < 20; n++) await server.fetch('/api/a', json('POST', { n }))
  assert.deepEqual(positions(await stream.take(20)), expected)
})

test('the headers of the response are sent before the first event', async (t) => {
  const expected = await next(1)
  const stream = await follow(t, server, `follow=true&from=${expected}&collection=a`)
  await server.fetch('/api/a', json('POST', {}))
  assert.deepEqual(positions(await stream.take(1)), expected)
})

test('filters apply to new events, and limit ends the stream', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 0 }], b: [] } })
  const future = new Date(Date.now() + 3_600_000).toISOString()
  const [created, timed, nothing] = [
    await follow(t, server, 'follow=true&collection=b&type=ItemCreated&limit=2'),
    await follow(t, server, `follow=true&collection=b&from=4&until=${future}&actor=anonymous`),
    await follow(t, server, `follow=true&since=${future}`),
  ] as const
  for (const path of ['a', 'b', 'a', 'b', 'b']) await server.fetch(`/api/${path}`, json('POST', {}))
  assert.deepEqual(positions(await created.take(99)), [5, 7])
  assert.deepEqual(positions(await timed.take(3)), [5, 7, 8])
  const later = nothing.take(1)
  await server.fetch('/api/a/0', { method: 'DELETE' })
  assert.equal(await server.stop(), 0)
  assert.deepEqual(await later, [], 'the stream ends with the server')
})

test('events are followed by the id of an item alone, in any collection', async (t) => {
  const server = await startServer(t, { data: { a: [{ id: 7 }], b: [{ id: 7 }, { id: 8 }] } })
  const stream = await follow(t, server, 'follow=true&id=7')
  assert.deepEqual(positions(await stream.take(2)), [2, 4])
  for (const path of ['b/8', 'b/7', 'a/7']) await server.fetch(`/api/${path}`, json('PUT', {}))
  assert.deepEqual(positions(await stream.take(2)), [7, 8])
})

test('a reader that pauses for a while misses nothing', async (t) => {
  const expected = await next(100)
  const stream = await follow(t, server, `follow=true&from=${expected[0]}`)
  const text = 'x'.repeat(100_000)
  for (let batch = 0; batch < 10; batch++) {
    await Promise.all(Array.from({ length: 10 }, () => server.fetch('/api/a', json('POST', { text }))))
  }
  assert.deepEqual(positions(await stream.take(100)), expected)
})
