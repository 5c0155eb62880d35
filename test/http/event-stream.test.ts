import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { headOf } from '../support/requests.ts'
import { json, type RunningServer, startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'

interface Message {
  readonly id: number
  readonly event: { readonly position: number; readonly type: string; readonly id?: unknown }
}

/** A reader of server-sent events, as EventSource is one. */
function listen(t: TestContext, server: RunningServer, path: string, headers: Record<string, string> = {}) {
  return open(t, server, path, { ...headers, Accept: 'text/event-stream' }, '\n\n', (text) => {
    const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(text) ?? []
    return id === undefined ? undefined : { id: Number(id), event: JSON.parse(data as string) }
  })
}

const NDJSON = 'application/x-ndjson'

/** A reader of lines that come one by one. */
async function follow(t: TestContext, server: RunningServer, query: string) {
  const stream = await open(t, server, `/events?${query}`, { Accept: NDJSON }, '\n', (text) => {
    const event = JSON.parse(text) as Message['event']
    return { id: event.position, event }
  })
  assert.equal(stream.answer.status, 200)
  assert.equal(stream.answer.headers.get('Content-Type'), NDJSON)
  return stream
}

async function open(
  t: TestContext,
  server: RunningServer,
  path: string,
  headers: Record<string, string>,
  separator: string,
  parse: (text: string) => Message | undefined,
) {
  const ending = new AbortController()
  t.after(() => ending.abort())
  const answer = await server.fetch(path, { headers, signal: ending.signal })
  const reader = (answer.body as ReadableStream).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    answer,
    /** The next messages; fewer when the stream ends. */
    async take(count: number): Promise<Message[]> {
      const messages: Message[] = []
      while (messages.length < count) {
        const end = text.indexOf(separator)
        if (end < 0) {
          const { value, done } = await within('the next events of a stream', reader.read())
          if (done) return messages
          text += value
          continue
        }
        const message = parse(text.slice(0, end))
        text = text.slice(end + separator.length)
        if (message) messages.push(message)
      }
      return messages
    },
    stop: () => ending.abort(),
  }
}

const positions = (messages: readonly Message[]): number[] => messages.map(({ id }) => id)

describe('GET /events as text/event-stream', async () => {
  const server = await startServer({ after }, { data: { a: [{ id: 0 }, { id: 1 }] } })

  test('an invalid Last-Event-ID gets 400', async (t) => {
    const { answer } = await listen(t, server, '/events', { 'Last-Event-ID': 'yesterday' })
    assert.equal(answer.status, 400)
  })

  test('a Last-Event-ID beyond the last position gets 400 with that position', async (t) => {
    for (const after of ['4', '99999999999999999999']) {
      const headers = { Accept: 'text/event-stream', 'Last-Event-ID': after }
      const answer = await server.fetch('/events', { headers })
      assert.equal(answer.status, 400)
      assert.match(((await answer.json()) as { detail: string }).detail, /Last-Event-ID .* beyond the last position, 3/)
    }
    const { answer } = await listen(t, server, '/events', { 'Last-Event-ID': '3' })
    assert.equal(answer.status, 200)
  })

  test('sends past and then new events, each with its position as id', async (t) => {
    const stream = await listen(t, server, '/events')
    assert.equal(stream.answer.headers.get('Content-Type'), 'text/event-stream')
    assert.equal(stream.answer.headers.get('Cache-Control'), 'no-store')
    assert.deepEqual(positions(await stream.take(3)), [1, 2, 3])
    for (let n = 0; n < 20; n++) await server.fetch('/api/a', json('POST', { n }))
    const live = await stream.take(20)
    assert.deepEqual(
      positions(live),
      Array.from({ length: 20 }, (_, n) => 4 + n),
    )
    for (const { id, event } of live) assert.equal(event.position, id)
  })

  test('sends new events only from now on, and begins with the id to resume after', async (t) => {
    const server = await startServer(t, { data: { a: [{ id: 0 }], b: [] } })
    const path = '/events?from=now&collection=a'
    const beginning = await open(t, server, path, { Accept: 'text/event-stream' }, '\n\n', (text) => ({
      id: Number(/^id: (\d+)$/m.exec(text)?.[1]),
      event: { position: 0, type: text },
    }))
    assert.deepEqual(positions(await beginning.take(1)), [3])
    const stream = await listen(t, server, path)
    await server.fetch('/api/b', json('POST', {}))
    await server.fetch('/api/a', json('POST', {}))
    assert.deepEqual(positions(await stream.take(1)), [5])
    // A client that connects again, without an event so far, misses none.
    const again = await listen(t, server, path, { 'Last-Event-ID': '3' })
    assert.deepEqual(positions(await again.take(1)), [5])
  })

  test('begins with the journal and an id to resume after, also when all events are wanted', async (t) => {
    const [first] = (await (await server.fetch('/events?limit=1')).json()) as [{ journal: string }]
    for (const path of ['/events', '/events?from=0', '/events?from=1']) {
      const stream = await open(t, server, path, { Accept: 'text/event-stream' }, '\n\n', (text) => ({
        id: 0,
        event: { position: 0, type: text },
      }))
      const [beginning] = await stream.take(1)
      assert.equal(beginning?.event.type, `: journal ${first.journal}\nid: 0`, path)
    }
  })

  test('Last-Event-ID resumes after a position, even after a restart of the server', async (t) => {
    let server = await startProgram(t, { data: { a: [] } })
    for (let n = 0; n < 5; n++) await server.fetch('/api/a', json('POST', { n }))
    const first = await listen(t, server, '/events')
    const seen = positions(await first.take(3))
    await server.stop('SIGKILL')
    server = await startProgram(t, { directory: server.directory })
    const again = await listen(t, server, '/events', { 'Last-Event-ID': String(seen.at(-1)) })
    await server.fetch('/api/a', json('POST', { n: 5 }))
    assert.deepEqual([...seen, ...positions(await again.take(4))], [1, 2, 3, 4, 5, 6, 7])
  })

  test('filters apply to past and new events', async (t) => {
    const server = await startServer(t, { data: { a: [{ id: 0 }, { id: 1 }], b: [{ id: 1 }] } })
    const stream = await listen(t, server, '/events?collection=a&id=1')
    assert.deepEqual(positions(await stream.take(1)), [3])
    await server.fetch('/api/b/1', json('PUT', { n: 1 }))
    await server.fetch('/api/a/1', json('PUT', { n: 1 }))
    await server.fetch('/api/a/0', json('PUT', { n: 1 }))
    await server.fetch('/api/a/1', { method: 'DELETE' })
    const live = await stream.take(2)
    assert.deepEqual(
      live.map(({ event }) => [event.type, event.id]),
      [
        ['ItemReplaced', 1],
        ['ItemDeleted', 1],
      ],
    )
    const limited = await listen(t, server, '/events?collection=a&limit=2')
    assert.deepEqual(positions(await limited.take(99)), [1, 2], 'a limit ends the stream')
  })

  test('a reader that pauses for a while misses nothing', async (t) => {
    const head = await headOf(server.url)
    const stream = await listen(t, server, '/events')
    await stream.take(head)
    const text = 'x'.repeat(100_000)
    for (let batch = 0; batch < 10; batch++) {
      await Promise.all(Array.from({ length: 10 }, () => server.fetch('/api/a', json('POST', { text }))))
    }
    assert.deepEqual(
      positions(await stream.take(100)),
      Array.from({ length: 100 }, (_, n) => head + 1 + n),
    )
  })

  test('event streams end when the server stops, which does not wait for them', async (t) => {
    const server = await startServer(t, { data: { a: [] } })
    const stream = await listen(t, server, '/events')
    await stream.take(1)
    const rest = stream.take(99)
    assert.equal(await server.stop(), 0)
    assert.deepEqual(await rest, [])
  })

  test('with authentication a token in the query is accepted, and the stream ends with it', async (t) => {
    const directory = await temporaryDirectory(t)
    const settings = join(directory, 'settings.json')
    const users = [{ Username: 'ada', Password: 'sesame', Role: 'reader' }]
    await writeFile(settings, JSON.stringify({ Authentication: { Enabled: true, Users: users } }))
    const server = await startServer(t, { directory, data: { a: [] }, flags: ['--settings', settings] })
    assert.equal((await listen(t, server, '/events')).answer.status, 401)
    const granted = await server.fetch('/token', json('POST', { username: 'ada', password: 'sesame' }))
    const { access_token: token } = (await granted.json()) as { access_token: string }
    assert.equal((await server.fetch(`/events?access_token=${token}`)).status, 401, 'only where no header can be set')
    for (const [accept, status] of [
      ['application/json, text/event-stream;q=0.5', 401],
      ['text/event-stream;q=0, */*', 401],
      ['Text/Event-Stream', 200],
      ['text/event-stream; charset=utf-8', 200],
    ] as const) {
      const answer = await server.fetch(`/events?follow=false&access_token=${token}`, { headers: { Accept: accept } })
      assert.equal(answer.status, status, accept)
      await answer.text()
    }
    assert.equal((await listen(t, server, `/events/?access_token=${token}`)).answer.status, 200)
    const stream = await listen(t, server, `/events?access_token=${token}`)
    assert.deepEqual(positions(await stream.take(1)), [1])
    const rest = stream.take(1)
    const bearer = { Authorization: `Bearer ${token}` }
    assert.equal((await server.fetch('/logout', { method: 'POST', headers: bearer })).status, 204)
    assert.deepEqual(await rest, [])
  })
})

describe('GET /events as application/x-ndjson with follow', async () => {
  /** The server of all tests that do not stop it. The first three events are of these items. */
  const server = await startServer({ after }, { data: { a: [{ id: 0 }, { id: 1 }] } })

  /** The positions of the next events, so many of them. */
  async function next(count: number): Promise<number[]> {
    const head = await headOf(server.url)
    return Array.from({ length: count }, (_, index) => head + 1 + index)
  }

  test('without follow NDJSON ends, and with follow=false server-sent events end, too', async (t) => {
    for (const query of ['', 'follow=false']) {
      assert.deepEqual(positions(await (await follow(t, server, query)).take(99)), [1, 2, 3])
    }
    const answer = await server.fetch('/events?follow=false', { headers: { Accept: 'text/event-stream' } })
    assert.deepEqual((await answer.text()).match(/^id: .*$/gm), ['id: 0', 'id: 1', 'id: 2', 'id: 3'])
  })

  test('a stream that follows forbids proxies to compress it, and one that ends does not', async () => {
    for (const [query, accept, encoding] of [
      ['', 'text/event-stream', 'identity'],
      ['follow=true', NDJSON, 'identity'],
      ['follow=false', 'text/event-stream', null],
      ['', NDJSON, null],
    ] as const) {
      const { headers, body } = await server.fetch(`/events?${query}`, { headers: { Accept: accept } })
      assert.equal(headers.get('Content-Encoding'), encoding, `${accept} ${query}`)
      await body?.cancel()
    }
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
})
