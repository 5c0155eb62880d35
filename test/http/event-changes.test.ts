import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fetch, within } from '../support/deadline.ts'
import { send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/service.ts'

interface Event {
  readonly position: number
  readonly type: string
  readonly prior?: number
  readonly item?: object
  readonly changes?: readonly object[]
}

async function eventsOf(url: string, search: string): Promise<readonly Event[]> {
  const reply = await send(url, 'GET', `/events?${search}`)
  assert.equal(reply.status, 200, reply.text)
  return reply.json<Event[]>()
}

/** A server with an item that was created, replaced, patched, deleted and created again, and a single object. */
async function storied(t: TestContext) {
  const { url } = await startServer(t, { data: { posts: [], profile: { name: 'ada' } } })
  const write = async (method: string, path: string, body?: object) => {
    const reply = body ? await sendJson(url, method, path, body) : await send(url, method, path)
    assert.ok(reply.status < 300, reply.text)
  }
  await write('POST', '/api/posts', { title: 'a', tags: ['x'], meta: { views: 1 } })
  await write('PUT', '/api/posts/0', { id: 0, title: 'b', tags: ['x', 'y'], meta: { views: 1 } })
  await write('PATCH', '/api/posts/0', { meta: { views: 2 }, title: null })
  await write('DELETE', '/api/posts/0')
  await write('PATCH', '/api/profile', { name: 'grace' })
  await write('DELETE', '/api/profile')
  return url
}

test('changes of an event have the earlier and later value of each path', async (t) => {
  const url = await storied(t)
  const ofPosts = await eventsOf(url, 'changes=true&collection=posts&id=0')
  assert.deepEqual(
    ofPosts.map(({ type, changes }) => [type, changes]),
    [
      ['ItemCreated', [{ path: '', after: { title: 'a', tags: ['x'], meta: { views: 1 }, id: 0 } }]],
      [
        'ItemReplaced',
        [
          { path: '/title', before: 'a', after: 'b' },
          { path: '/tags', before: ['x'], after: ['x', 'y'] },
        ],
      ],
      [
        'ItemPatched',
        [
          { path: '/title', before: 'b' },
          { path: '/meta/views', before: 1, after: 2 },
        ],
      ],
      ['ItemDeleted', [{ path: '', before: { id: 0, tags: ['x', 'y'], meta: { views: 2 } } }]],
    ],
  )
  const ofProfile = await eventsOf(url, 'changes=true&collection=profile')
  assert.deepEqual(
    ofProfile.map(({ changes }) => changes),
    [
      [{ path: '', after: { name: 'ada' } }],
      [{ path: '/name', before: 'ada', after: 'grace' }],
      [{ path: '', before: { name: 'grace' } }],
    ],
  )
})

test('changes are the same in every form, and only added to what an event has without them', async (t) => {
  const url = await storied(t)
  const whole = await eventsOf(url, 'changes=true')
  const get = (path: string, Accept: string) => send(url, 'GET', path, { headers: { Accept } })
  const lines = (await get('/events?changes=true', 'application/x-ndjson')).text.trim().split('\n')
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    whole,
  )
  const stream = (await get('/events?changes=true&follow=false', 'text/event-stream')).text
  const messages = Array.from(stream.matchAll(/^data: (.*)$/gm), ([, data = '']) => JSON.parse(data))
  assert.deepEqual(messages, whole)
  assert.deepEqual(await eventsOf(url, 'changes=true&order=desc'), [...whole].reverse())
  for (const one of whole) {
    const { changes: _, ...rest } = one
    assert.deepEqual((await send(url, 'GET', `/events/${one.position}?changes=true`)).json(), one)
    assert.deepEqual((await send(url, 'GET', `/events/${one.position}?changes=false`)).json(), rest)
  }
  assert.deepEqual(
    await eventsOf(url, 'changes=false'),
    whole.map(({ changes: _, ...rest }) => rest),
  )
  assert.ok(whole.some(({ type, changes }) => type === 'CollectionCreated' && changes === undefined))
})

test('a following stream sends the changes of an event as soon as it is written', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1, n: 1 }] } })
  const controller = new AbortController()
  t.after(() => controller.abort())
  const headers = { Accept: 'application/x-ndjson' }
  const reply = await fetch(`${url}/events?from=now&follow=true&changes=true`, { headers, signal: controller.signal })
  const reader = (reply.body as ReadableStream<Uint8Array>).getReader()
  await sendJson(url, 'PATCH', '/api/posts/1', { n: 2 })
  let text = ''
  await within(
    'the event in the stream',
    (async () => {
      while (!text.includes('\n')) text += Buffer.from((await reader.read()).value ?? []).toString()
    })(),
  )
  assert.deepEqual((JSON.parse(text) as Event).changes, [{ path: '/n', before: 1, after: 2 }])
})

test('pages with changes of long items end earlier, and their links lead through all events', async (t) => {
  const { url } = await startServer(t, { data: { notes: [] } })
  const long = (letter: string) => letter.repeat(300_000)
  await sendJson(url, 'POST', '/api/notes', { text: long('a'), n: 0 })
  for (let n = 1; n <= 6; n++) await sendJson(url, 'PATCH', '/api/notes/0', n % 2 ? { n } : { text: long(String(n)) })
  await send(url, 'DELETE', '/api/notes/0')
  for (const order of ['asc', 'desc']) {
    const found: Event[] = []
    let pages = 0
    for (let path: string | undefined = `/events?changes=true&order=${order}`; path; pages++) {
      const reply = await send(url, 'GET', path)
      assert.equal(reply.status, 200, reply.text.slice(0, 200))
      found.push(...reply.json<Event[]>())
      path = /<([^>]*)>; rel="next"/.exec(String(reply.headers.link ?? ''))?.[1]
    }
    assert.ok(pages > 3, `${pages} pages`)
    const paths = found.map(({ changes }) => changes?.map((change) => (change as { path: string }).path))
    if (order === 'desc') paths.reverse()
    assert.deepEqual(paths.slice(-8), [[''], ['/n'], ['/text'], ['/n'], ['/text'], ['/n'], ['/text'], ['']])
  }
})

test('an unknown parameter of a single event, and a wrong value of changes, are 400', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1 }] } })
  for (const path of ['/events/1?change=true', '/events/1?changes=1', '/events?changes=', '/events/1?from=1']) {
    assert.equal((await send(url, 'GET', path)).status, 400, path)
  }
  assert.equal((await send(url, 'GET', '/events/1?_=5')).status, 200)
})
