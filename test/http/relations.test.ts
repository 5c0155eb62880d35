import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { headOf } from '../support/requests.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const BLOG = {
  posts: [
    { id: 1, title: 'first', userId: 'ada' },
    { id: 2, title: 'second', userId: 'nobody', comments: 'of its own' },
    { id: '3', title: 'third' },
  ],
  comments: [
    { id: 1, body: 'a', postId: 1 },
    { id: 2, body: 'b', postId: '3' },
    { id: 3, body: 'c', postId: '1' },
    { id: 4, body: 'd', postId: [1, 3] },
    { id: 5, body: 'e', postId: null },
  ],
  users: [{ id: 'ada', name: 'Ada' }],
  profile: { name: 'typicode' },
}

interface Post {
  readonly id: number | string
  readonly comments: readonly { readonly id: number }[]
}

async function read<T>(server: RunningServer, path: string): Promise<T> {
  const answer = await server.fetch(`/api/${path}`)
  assert.equal(answer.status, 200, `${path}: ${await answer.clone().text()}`)
  return (await answer.json()) as T
}

function idsOfEmbedded(posts: readonly Post[]): unknown {
  return posts.map(({ id, comments }) => [id, comments.map((comment) => comment.id)])
}

const EMBEDDED = [
  [1, [1, 3, 4]],
  [2, []],
  ['3', [2, 4]],
]

test('_embed includes the items that refer to each item, in order, whatever the type of the id', async (t) => {
  const server = await startServer(t, { data: BLOG })
  assert.deepEqual(idsOfEmbedded(await read(server, 'posts?_embed=comments')), EMBEDDED)
  assert.deepEqual(idsOfEmbedded([await read(server, 'posts/1?_embed=comments')]), EMBEDDED.slice(0, 1))
  assert.deepEqual(await read(server, 'posts?_embed=comments&fields=title&_limit=1&_start=1'), [
    { title: 'second', comments: [] },
  ])
})

test('_expand, and _embed of a singular, include the item that is referred to', async (t) => {
  const server = await startServer(t, { data: BLOG })
  for (const parameter of ['_expand', '_embed']) {
    const posts = await read<readonly object[]>(server, `posts?${parameter}=user`)
    assert.deepEqual(posts[0], { ...BLOG.posts[0], user: BLOG.users[0] })
    assert.deepEqual(posts.slice(1), BLOG.posts.slice(1))
  }
  assert.deepEqual(await read(server, 'comments/1?_expand=post'), { ...BLOG.comments[0], post: BLOG.posts[0] })
  const both = await read<Post>(server, 'posts/1?_expand=user&_embed=comments')
  assert.deepEqual(Object.keys(both), ['id', 'title', 'userId', 'comments', 'user'])
})

test('embedding works in the past and in each format', async (t) => {
  const server = await startServer(t, { data: BLOG })
  const before = (await server.fetch('/api/posts')).headers.get('Journal-Position')
  await server.fetch('/api/comments/1', { method: 'DELETE' })
  await server.fetch('/api/comments', json('POST', { postId: 2 }))
  await server.fetch('/api/users/ada', json('PATCH', { name: 'Countess' }))
  assert.deepEqual(idsOfEmbedded(await read(server, `posts?_embed=comments&asOf=${before}`)), EMBEDDED)
  assert.deepEqual(idsOfEmbedded([await read(server, `posts/1?_embed=comments&asOf=${before}`)]), EMBEDDED.slice(0, 1))
  assert.deepEqual(idsOfEmbedded(await read(server, 'posts?_embed=comments')), [
    [1, [3, 4]],
    [2, [6]],
    ['3', [2, 4]],
  ])
  const csv = await server.fetch(`/api/posts?_expand=user&fields=title&asOf=${before}`, {
    headers: { Accept: 'text/csv' },
  })
  assert.equal(await csv.text(), 'title,user.id,user.name\r\nfirst,ada,Ada\r\nsecond,,\r\nthird,,\r\n')
})

test('the ETag changes with embedded items', async (t) => {
  const server = await startServer(t, { data: BLOG })
  for (const path of ['/api/posts?_embed=comments', '/api/posts/1?_embed=comments']) {
    const tag = (await server.fetch(path)).headers.get('ETag') ?? ''
    const asked = { headers: { 'If-None-Match': tag } }
    assert.equal((await server.fetch(path, asked)).status, 304)
    await server.fetch('/api/comments', json('POST', { postId: 1 }))
    assert.equal((await server.fetch(path, asked)).status, 200)
  }
})

test('a name that cannot be embedded is rejected with the reason', async (t) => {
  const server = await startServer(t, { data: BLOG, flags: ['--Limits.PageSize', '4'] })
  const refused = async (path: string, why: RegExp): Promise<void> => {
    const answer = await server.fetch(`/api/${path}`)
    assert.equal(answer.status, 400, path)
    assert.match(((await answer.json()) as { detail: string }).detail, why)
  }
  await refused('posts?_embed=likes', /_embed names "likes".*no collection "likes"/)
  await refused('posts?_expand=author', /no collection "authors"/)
  await refused('posts?_embed=profile', /no collection "profile"/)
  await refused('posts?_embed=comments&all=true', /ask for pages/)
  await refused('posts?_embed=comments&aggregate=count', /not with aggregate/)
  await refused(`posts?_embed=${Array.from({ length: 9 }, (_, at) => `c${at}`)}`, /At most 8/)
  await refused('posts?_embed=comments', /more than 4 items embedded.*smaller page/)
  assert.deepEqual(idsOfEmbedded(await read(server, 'posts?_embed=comments&_limit=1')), EMBEDDED.slice(0, 1))
})

test('an index of the foreign key gives the same result as a scan', async (t: TestContext) => {
  const posts = Array.from({ length: 200 }, (_, id) => ({ id }))
  const comments = Array.from({ length: 3000 }, (_, id) => ({ id, postId: (id * 7919) % 230, text: 'x'.repeat(100) }))
  const server = await startServer(t, { data: { posts, comments } })
  const first = await read<readonly Post[]>(server, 'posts?_embed=comments')
  assert.deepEqual(
    idsOfEmbedded(first),
    posts.map(({ id }) => [id, comments.filter(({ postId }) => postId === id).map((comment) => comment.id)]),
  )
  await until('a use of the index', async () => {
    assert.deepEqual(await read(server, 'posts?_embed=comments'), first)
    const metrics = await (await server.fetch('/metrics')).text()
    return /recollect_index_uses\{[^}]*postId[^}]*\} [1-9]/.test(metrics)
  })
})

test('a page with embedded items, or in another format, gets an index the second time', async (t: TestContext) => {
  const things = Array.from({ length: 1000 }, (_, id) => ({ id, a: id % 9, b: id % 9, boxId: 1 }))
  const server = await startServer(t, { data: { things, boxes: [{ id: 1 }] } })
  for (let asked = 0; asked < 2; asked++) {
    await read(server, 'things?a=3&_expand=box')
    await (await server.fetch('/api/things?b=3', { headers: { Accept: 'text/csv' } })).text()
  }
  await until('both indexes', async () => {
    const metrics = await (await server.fetch('/metrics')).text()
    return ['a', 'b'].every((path) => metrics.includes(`index_entries{collection="things",path="${path}"} 1000`))
  })
})

const DEPENDENTS = {
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
  const server = await startServer(t, { data: DEPENDENTS })
  const before = await headOf(server.url)
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

test('more than 2^22 characters in one item are refused, and several items may have more together', async (t) => {
  const comments = Array.from({ length: 6 }, (_, id) => ({ id, postId: id < 5 ? 1 : 2, body: 'x'.repeat(1_000_000) }))
  const server = await startServer(t, { data: { posts: [{ id: 1 }, { id: 2 }], comments } })
  assert.equal((await read<Post[]>(server, 'posts?_embed=comments&id=2')).length, 1)
  for (const path of ['posts?_embed=comments', 'posts/1?_embed=comments']) {
    const refused = await server.fetch(`/api/${path}`)
    assert.equal(refused.status, 400)
    assert.match(((await refused.json()) as { detail: string }).detail, /^An item with more than 4194304 characters/)
  }
  assert.equal((await server.fetch('/api/comments/0', { method: 'DELETE' })).status, 204)
  assert.equal((await read<Post[]>(server, 'posts?_embed=comments')).length, 2)
})

test('items of the same collection may be dependent', async (t) => {
  const server = await startServer(t, { data: DEPENDENTS })
  assert.equal((await remove(server, 'comments/6?_dependent=comments')).status, 204)
  assert.deepEqual(await idsOf(server, 'comments'), [1, 2, 3, 4, 5])
})

test('nothing is deleted when the item is missing, a condition fails, or a name is no collection', async (t) => {
  const server = await startServer(t, { data: DEPENDENTS })
  assert.equal((await remove(server, 'posts/9?_dependent=comments')).status, 404)
  assert.equal((await remove(server, 'posts/1?_dependent=comments', { 'If-Match': '"other"' })).status, 412)
  assert.equal((await remove(server, 'posts/1?_dependent=comments', { 'If-Unchanged-Since': '0' })).status, 412)
  for (const name of ['nothing', 'profile']) {
    const refused = await remove(server, `posts/1?_dependent=comments,${name}`)
    assert.equal(refused.status, 400)
    assert.match(((await refused.json()) as { detail: string }).detail, new RegExp(`"${name}", which is no collection`))
  }
  assert.deepEqual(await idsOf(server, 'posts'), [1, 2, 'a&b'])
  assert.deepEqual(await idsOf(server, 'comments'), [1, 2, 3, 4, 5, 6, 7])
})

test('a retry gets the same response and deletes nothing more', async (t) => {
  const server = await startServer(t, { data: DEPENDENTS })
  const answers = [1, 2].map(() => remove(server, 'posts/1?_dependent=comments', { 'Idempotency-Key': 'k' }))
  const [first, second] = await Promise.all(answers)
  assert.deepEqual([first?.status, second?.status], [204, 204])
  assert.equal(first?.headers.get('Journal-Position'), second?.headers.get('Journal-Position'))
  const third = await remove(server, 'posts/1?_dependent=comments', { 'Idempotency-Key': 'k' })
  assert.equal(third.headers.get('Journal-Position'), first?.headers.get('Journal-Position'))
})
