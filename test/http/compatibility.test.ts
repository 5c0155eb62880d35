import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { json, type RunningServer, startServer } from '../support/server.ts'

const BLOG = {
  posts: [
    { id: 1, title: 'first', tags: ['a'] },
    { id: 2, title: 'second', comments: 'of its own' },
  ],
  comments: [
    { id: 1, body: 'a', postId: 1 },
    { id: 2, body: 'b', postId: '1' },
    { id: 3, body: 'c', postId: 2 },
  ],
  profile: { name: 'typicode' },
}

function serve(t: TestContext, flags: readonly string[] = []): Promise<RunningServer> {
  return startServer(t, { data: BLOG, flags: ['--Api.Compatibility', 'json-server', ...flags] })
}

async function read(server: RunningServer, path: string, init?: RequestInit): Promise<[number, unknown]> {
  const answer = await server.fetch(`/api/${path}`, init)
  const text = await answer.text()
  return [answer.status, text === '' ? undefined : JSON.parse(text)]
}

test('_page returns the envelope of json-server 1.0, with _limit the format of 0.17', async (t) => {
  const server = await serve(t)
  const [, middle] = await read(server, 'comments?_page=2&_per_page=1')
  assert.deepEqual(middle, { first: 1, prev: 1, next: 3, last: 3, pages: 3, items: 3, data: [BLOG.comments[1]] })
  // Asked again and again, the answer comes from a cache.
  for (let time = 0; time < 6; time++) {
    assert.deepEqual((await read(server, 'comments?_page=2&_per_page=1'))[1], middle)
  }
  const [, all] = await read(server, 'comments?_page=1')
  assert.deepEqual(all, { first: 1, prev: null, next: null, last: 1, pages: 1, items: 3, data: BLOG.comments })
  const [, embedded] = await read(server, 'comments?_page=1&_per_page=1&_embed=post')
  assert.deepEqual((embedded as { data: unknown }).data, [{ ...BLOG.comments[0], post: BLOG.posts[0] }])
  assert.deepEqual((await read(server, 'comments?_page=9'))[1], {
    ...(all as object),
    prev: 1,
    data: [],
  })
  assert.deepEqual((await read(server, 'comments?_page=2&_limit=2'))[1], [BLOG.comments[2]])
  assert.deepEqual((await read(server, 'comments?_per_page=2'))[1], BLOG.comments.slice(0, 2))
})

test('writes return the item, and POST assigns ids like json-server 1.0', async (t) => {
  const server = await serve(t)
  const [status, created] = await read(server, 'posts', json('POST', { id: 7, title: 'third' }))
  assert.equal(status, 201)
  const { id, ...rest } = created as { id: string; title: string }
  assert.match(id, /^[\w-]{11}$/)
  assert.deepEqual(rest, { title: 'third' })
  const replaced = { id: 1, title: 'new' }
  assert.deepEqual(await read(server, 'posts/1', json('PUT', { title: 'new' })), [200, replaced])
  assert.deepEqual(await read(server, 'posts/1', json('PATCH', { views: 1 })), [200, { ...replaced, views: 1 }])
  assert.deepEqual(await read(server, 'posts/1', { method: 'DELETE' }), [200, { ...replaced, views: 1 }])
  assert.deepEqual(await read(server, 'posts/2?_dependent=comments', { method: 'DELETE' }), [200, BLOG.posts[1]])
  assert.deepEqual(await read(server, 'profile', json('PUT', { name: 'x' })), [200, { name: 'x' }])
  assert.deepEqual((await read(server, 'comments'))[1], BLOG.comments.slice(0, 2))
  const [, batch] = await read(server, 'posts', json('POST', [{}, {}]))
  assert.equal(new Set((batch as { ids: readonly string[] }).ids).size, 2)
})

test('an empty patch returns the item as it is', async (t) => {
  const server = await serve(t)
  const operations = { 'Content-Type': 'application/json-patch+json' }
  for (const patch of [json('PATCH', {}), json('PATCH', []), json('PATCH', [], operations)]) {
    assert.deepEqual(await read(server, 'posts/1', patch), [200, BLOG.posts[0]])
    assert.deepEqual(await read(server, 'profile', patch), [200, BLOG.profile])
  }
  assert.equal((await read(server, 'posts/1', json('PATCH', null)))[0], 400)
  assert.equal((await read(server, 'posts/1', json('PATCH', [1])))[0], 400)
  assert.equal((await read(server, 'posts/1/title', json('PATCH', [], operations)))[0], 204)
  assert.equal((await read(server, 'posts/1/title', json('PATCH', {})))[0], 204)
  assert.deepEqual(await read(server, 'posts/1'), [200, BLOG.posts[0]])
})

test('a retry of a DELETE gets the item again', async (t) => {
  const server = await serve(t)
  const asked = { method: 'DELETE', headers: { 'Idempotency-Key': 'once' } }
  assert.deepEqual(await read(server, 'comments/1', asked), [200, BLOG.comments[0]])
  assert.deepEqual(await read(server, 'comments/1', asked), [200, BLOG.comments[0]])
})

test('nested collections are read and written, and a member of the item takes precedence', async (t) => {
  const server = await serve(t)
  assert.deepEqual(await read(server, 'posts/1/comments'), [200, BLOG.comments.slice(0, 2)])
  assert.deepEqual(await read(server, 'posts/1/comments?body=b&fields=id'), [200, [{ id: 2 }]])
  assert.deepEqual(await read(server, 'posts/2/comments'), [200, 'of its own'])
  assert.deepEqual(await read(server, 'posts/1/tags/0'), [200, 'a'])
  const paged = await server.fetch('/api/posts/1/comments?_limit=1')
  assert.match(paged.headers.get('Link') ?? '', /<\/api\/comments\?_limit=1&postId=1&_start=1>; rel="next"/)
  const before = paged.headers.get('Journal-Position')
  const [status, created] = await read(server, 'posts/1/comments', json('POST', { body: 'new', postId: 9 }))
  assert.equal(status, 201)
  assert.equal((created as { postId: unknown }).postId, 1)
  assert.deepEqual(await read(server, 'posts/1/comments'), [200, [...BLOG.comments.slice(0, 2), created]])
  assert.deepEqual(await read(server, `posts/1/comments?asOf=${before}`), [200, BLOG.comments.slice(0, 2)])
  for (const [path, method, expected] of [
    ['posts/1/nothing', 'GET', 404],
    ['posts/1/profile', 'GET', 404],
    ['posts/9/comments', 'GET', 400],
    ['posts/9/comments', 'POST', 400],
    ['posts/2/comments', 'POST', 404],
    ['posts/1/nothing', 'POST', 404],
    ['posts/1/comments/1', 'POST', 404],
  ] as const) {
    const [found] = await read(server, path, method === 'POST' ? json('POST', {}) : undefined)
    assert.equal(found, expected, `${method} ${path}`)
  }
})

test('nested collections and envelopes are off by default', async (t) => {
  const server = await startServer(t, { data: BLOG })
  assert.equal((await read(server, 'posts/1/comments'))[0], 404)
  assert.equal((await read(server, 'posts/1/comments', json('POST', {})))[0], 405)
  assert.deepEqual((await read(server, 'posts?_page=1'))[1], BLOG.posts)
  assert.deepEqual(await read(server, 'posts/1', { method: 'DELETE' }), [204, undefined])
})

test('a reader cannot write to a nested address', async (t) => {
  const server = await serve(t, [
    '--Authentication.Enabled',
    'true',
    '--Authentication.AuthenticationType',
    'apikey',
    '--Authentication.ApiKeys',
    JSON.stringify([{ Name: 'r', Key: 'reader-key-0123456789', Role: 'reader' }]),
  ])
  const headers = { 'X-API-KEY': 'reader-key-0123456789' }
  assert.equal((await read(server, 'posts/1/comments'))[0], 401)
  assert.equal((await read(server, 'posts/1/comments', { headers }))[0], 200)
  assert.equal((await read(server, 'posts/1/comments', json('POST', {}, headers)))[0], 403)
})

test('the OpenAPI document describes the compatible responses', async (t) => {
  const server = await serve(t)
  const document = (await (await server.fetch('/openapi.json')).json()) as {
    readonly [member: string]: unknown
    readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: object }>>>>
  }
  const { valid, errors } = await new Validator().validate(document)
  assert.ok(valid, JSON.stringify(errors))
  assert.ok(document.paths['/api/{collection}/{id}/{rest}']?.post)
  const removal = document.paths['/api/posts/{id}']?.delete
  assert.deepEqual(Object.keys(removal?.responses ?? {}).slice(0, 1), ['200'])
  assert.match(JSON.stringify(document.paths['/api/posts']?.get?.responses), /"data"/)
})
