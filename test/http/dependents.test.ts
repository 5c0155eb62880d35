import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type RunningServer, startServer } from '../support/server.ts'

const BLOG = {
  posts: [{ id: 1 }, { id: 2 }, { id: 'a&b' }],
  comments: [
    { id: 1, postId: 1 },
    { id: 2, postId: '1' },
    { id: 3, postId: 2 },
    { id: 4, postId: [1] },
    { id: 5, postId: 'a&b' },
    { id: 6, commentId: 6 },
    { id: 7, commentId: 6 },
  ],
  likes: [{ id: 1, postId: 1 }],
  profile: {},
}

interface Event {
  readonly type: string
  readonly collection: string
  readonly id: unknown
  readonly requestId: string
}

async function idsOf(server: RunningServer, collection: string): Promise<unknown> {
  const answer = await server.fetch(`/api/${collection}`)
  return ((await answer.json()) as readonly { readonly id: unknown }[]).map(({ id }) => id)
}

function remove(server: RunningServer, path: string, headers: Record<string, string> = {}): Promise<Response> {
  return server.fetch(`/api/${path}`, { method: 'DELETE', headers })
}

test('_dependent deletes the items that refer to the deleted one in one write', async (t) => {
  const server = await startServer(t, { data: BLOG })
  const before = Number((await server.fetch('/api')).headers.get('Journal-Position'))
  const answer = await remove(server, 'posts/1?_dependent=comments&_dependent=likes', { 'X-Request-Id': 'one' })
  assert.equal(answer.status, 204)
  assert.equal(answer.headers.get('Journal-Position'), String(before + 4))
  const events = (await (await server.fetch(`/events?from=${before + 1}`)).json()) as readonly Event[]
  assert.deepEqual(
    events.map(({ type, collection, id, requestId }) => [type, collection, id, requestId]),
    [
      ['ItemDeleted', 'comments', 1, 'one'],
      ['ItemDeleted', 'comments', 2, 'one'],
      ['ItemDeleted', 'likes', 1, 'one'],
      ['ItemDeleted', 'posts', 1, 'one'],
    ],
  )
  assert.deepEqual(await idsOf(server, 'comments'), [3, 4, 5, 6, 7])
  assert.equal((await remove(server, `posts/${encodeURIComponent('a&b')}?_dependent=comments,likes`)).status, 204)
  assert.deepEqual(await idsOf(server, 'comments'), [3, 4, 6, 7])
  assert.equal((await remove(server, 'posts/2')).status, 204)
  assert.deepEqual(await idsOf(server, 'comments'), [3, 4, 6, 7])
})

test('items of the same collection may be dependent', async (t) => {
  const server = await startServer(t, { data: BLOG })
  assert.equal((await remove(server, 'comments/6?_dependent=comments')).status, 204)
  assert.deepEqual(await idsOf(server, 'comments'), [1, 2, 3, 4, 5])
})

test('nothing is deleted when the item is missing, a condition fails, or a name is no collection', async (t) => {
  const server = await startServer(t, { data: BLOG })
  assert.equal((await remove(server, 'posts/9?_dependent=comments')).status, 404)
  assert.equal((await remove(server, 'posts/1?_dependent=comments', { 'If-Match': '"other"' })).status, 412)
  for (const name of ['nothing', 'profile']) {
    const refused = await remove(server, `posts/1?_dependent=comments,${name}`)
    assert.equal(refused.status, 400)
    assert.match(((await refused.json()) as { detail: string }).detail, new RegExp(`"${name}", which is no collection`))
  }
  assert.deepEqual(await idsOf(server, 'posts'), [1, 2, 'a&b'])
  assert.deepEqual(await idsOf(server, 'comments'), [1, 2, 3, 4, 5, 6, 7])
})

test('a retry gets the same response and deletes nothing more', async (t) => {
  const server = await startServer(t, { data: BLOG })
  const answers = [1, 2].map(() => remove(server, 'posts/1?_dependent=comments', { 'Idempotency-Key': 'k' }))
  const [first, second] = await Promise.all(answers)
  assert.deepEqual([first?.status, second?.status], [204, 204])
  assert.equal(first?.headers.get('Journal-Position'), second?.headers.get('Journal-Position'))
  const third = await remove(server, 'posts/1?_dependent=comments', { 'Idempotency-Key': 'k' })
  assert.equal(third.headers.get('Journal-Position'), first?.headers.get('Journal-Position'))
})
