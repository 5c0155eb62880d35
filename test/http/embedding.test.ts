import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

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

function idsOf(posts: readonly Post[]): unknown {
  return posts.map(({ id, comments }) => [id, comments.map((comment) => comment.id)])
}

const EMBEDDED = [
  [1, [1, 3, 4]],
  [2, []],
  ['3', [2, 4]],
]

test('_embed includes the items that refer to each item, in order, whatever the type of the id', async (t) => {
  const server = await startServer(t, { data: BLOG })
  assert.deepEqual(idsOf(await read(server, 'posts?_embed=comments')), EMBEDDED)
  assert.deepEqual(idsOf([await read(server, 'posts/1?_embed=comments')]), EMBEDDED.slice(0, 1))
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
  assert.deepEqual(idsOf(await read(server, `posts?_embed=comments&asOf=${before}`)), EMBEDDED)
  assert.deepEqual(idsOf([await read(server, `posts/1?_embed=comments&asOf=${before}`)]), EMBEDDED.slice(0, 1))
  assert.deepEqual(idsOf(await read(server, 'posts?_embed=comments')), [
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
  assert.deepEqual(idsOf(await read(server, 'posts?_embed=comments&_limit=1')), EMBEDDED.slice(0, 1))
})

test('an index of the foreign key gives the same result as a scan', async (t: TestContext) => {
  const posts = Array.from({ length: 200 }, (_, id) => ({ id }))
  const comments = Array.from({ length: 3000 }, (_, id) => ({ id, postId: (id * 7919) % 230, text: 'x'.repeat(100) }))
  const server = await startServer(t, { data: { posts, comments } })
  const first = await read<readonly Post[]>(server, 'posts?_embed=comments')
  assert.deepEqual(
    idsOf(first),
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
