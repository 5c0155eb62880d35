import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

interface Message {
  readonly id: number
  readonly event: { readonly position: number; readonly type: string; readonly id?: unknown }
}

/** A reader of server-sent events, as EventSource is one. */
async function listen(t: TestContext, server: RunningServer, path: string, headers: Record<string, string> = {}) {
  const ending = new AbortController()
  t.after(() => ending.abort())
  const answer = await server.fetch(path, {
    headers: { Accept: 'text/event-stream', ...headers },
    signal: ending.signal,
  })
  const reader = (answer.body as ReadableStream).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    answer,
    /** The next messages; fewer when the stream ends. */
    async take(count: number): Promise<Message[]> {
      const messages: Message[] = []
      while (messages.length < count) {
        const end = text.indexOf('\n\n')
        if (end < 0) {
          const { value, done } = await within('the next events of a stream', reader.read())
          if (done) return messages
          text += value
          continue
        }
        const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? []
        text = text.slice(end + 2)
        if (id !== undefined) messages.push({ id: Number(id), event: JSON.parse(data as string) })
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

  test('Last-Event-ID resumes after a position, even after a restart of the server', async (t) => {
    let server = await startServer(t, { data: { a: [] } })
    for (let n = 0; n < 5; n++) await server.fetch('/api/a', json('POST', { n }))
    const first = await listen(t, server, '/events')
    const seen = positions(await first.take(3))
    await server.stop('SIGKILL')
    server = await startServer(t, { directory: server.directory })
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
    const head = Number((await server.fetch('/api')).headers.get('Journal-Position'))
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
    assert.equal(await server.stop('SIGTERM'), 0)
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
