import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { connect } from '../../src/client/index.ts'
import { each, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'
import { startHere } from '../support/service.ts'

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

const USERS = Array.from({ length: 7 }, (_, id) => ({ id, city: id % 2 ? 'NY' : 'London' }))
const DATA = { users: USERS, 'a b': [], profile: { theme: 'dark' } }
const FLAGS = ['--Api.UseResultObject', 'true']

interface ResultObject {
  readonly results: readonly unknown[]
  readonly link: Readonly<Record<'Prev' | 'Next' | 'First' | 'Last', string>>
  readonly count: number
}

const start = async (t: Parameters<typeof startHere>[0], ...flags: readonly string[]) =>
  (await startHere(t, { data: DATA, flags: [...FLAGS, ...flags] })).url

test('a page is an object with results, link, count and the parameters', async (t) => {
  const url = await start(t)
  const page = async (path: string) => (await send(url, 'GET', path)).json()
  assert.deepEqual(await page('/api/users?skip=2&take=2&id_lt=6'), {
    results: USERS.slice(2, 4),
    link: {
      Prev: '/api/users?take=2&id_lt=6&skip=0',
      Next: '/api/users?take=2&id_lt=6&skip=4',
      First: '/api/users?take=2&id_lt=6&skip=0',
      Last: '/api/users?take=2&id_lt=6&skip=4',
    },
    count: 6,
    skip: 2,
    take: 2,
  })
  const first = (await page('/api/users?page=1&per_page=4')) as ResultObject
  assert.equal(first.link.Prev, '')
  assert.deepEqual(await page(first.link.Next), {
    ...first,
    results: USERS.slice(4),
    link: { ...first.link, Prev: '/api/users?per_page=4&page=1', Next: '' },
    page: 2,
  })
  const empty = (await page('/api/a%20b?limit=3')) as object
  assert.deepEqual(
    [Object.keys(empty), (empty as ResultObject).count],
    [['results', 'link', 'count', 'offset', 'limit'], 0],
  )
  assert.deepEqual(Object.keys((await page('/api/users')) as object).slice(3), ['page', 'pageSize'])
  const counted = (await page('/api/users?aggregate=count&groupBy=city')) as ResultObject
  assert.deepEqual(counted.results, [
    { city: 'London', count: 4 },
    { city: 'NY', count: 3 },
  ])
})

test('headers are the same, and cached and past pages are objects, too', async (t) => {
  const url = await start(t)
  const first = await send(url, 'GET', '/api/users?take=2')
  assert.equal(first.headers['x-total-count'], '7')
  assert.match(String(first.headers.link), /rel="next"/)
  for (let n = 0; n < 8; n++) assert.equal((await send(url, 'GET', '/api/users?take=2')).text, first.text)
  const position = String(first.headers['journal-position'])
  await send(url, 'DELETE', '/api/users/0')
  const then = (await send(url, 'GET', `/api/users?take=2&asOf=${position}`)).json<ResultObject>()
  assert.deepEqual([then.results, then.count], [USERS.slice(0, 2), 7])
  const tag = { headers: { 'If-None-Match': String(first.headers.etag) } }
  assert.equal((await send(url, 'GET', '/api/users?take=2', tag)).status, 200)
})

test('single objects, whole results and names are unchanged', async (t) => {
  const url = await start(t)
  assert.deepEqual((await send(url, 'GET', '/api/profile')).json(), DATA.profile)
  assert.deepEqual((await send(url, 'GET', '/api/users?all=true')).json(), USERS)
  assert.deepEqual((await send(url, 'GET', '/api')).json(), ['users', 'a b', 'profile'])
})

test('a page that is sent in pieces is complete', async (t) => {
  const url = await start(t)
  const long = Array.from({ length: 40 }, (_, id) => ({ id, text: 'ä'.repeat(20_000) }))
  assert.equal((await sendJson(url, 'POST', '/api/long', long)).status, 201)
  const page = (await send(url, 'GET', '/api/long')).json<ResultObject>()
  assert.deepEqual([page.results, page.count], [long, 40])
})

test('links include the base path', async (t) => {
  const url = await start(t, '--Http.BasePath', '/recollect')
  for (let n = 0; n < 6; n++) {
    const { link } = (await send(url, 'GET', '/recollect/api/users?take=3')).json<ResultObject>()
    assert.equal(link.Next, '/recollect/api/users?take=3&skip=3')
  }
})

test('the client reads result objects, and OpenAPI describes them', async (t) => {
  const url = await start(t)
  const client = connect(url)
  t.after(() => client.close())
  const users = client.collection<(typeof USERS)[number]>('users')
  const { items, total } = await within('a page of users', users.where({ city: 'NY' }).page(1, 2).get())
  assert.deepEqual([items.length, total], [2, 3])
  const all: unknown[] = []
  for await (const user of each('the next user', users.all())) all.push(user)
  assert.deepEqual(all, USERS)
  const { paths, components } = (await send(url, 'GET', '/openapi.json')).json<{
    paths: Record<string, { get: { responses: { 200: { content: Record<string, { schema: object }> } } } }>
    components: object
  }>()
  const schema = paths['/api/users']?.get.responses[200].content['application/json']?.schema
  const validate = new Ajv2020({ strict: false }).compile({ ...schema, components })
  assert.equal(validate((await send(url, 'GET', '/api/users')).json()), true)
  assert.equal(validate({ results: [] }), false)
})

test('a start with other settings that affect pages gives them other tags', async (t) => {
  const directory = await temporaryDirectory(t)
  const time = ['--Collections', JSON.stringify({ users: { Time: 'at' } })]
  const tags = new Set<string>()
  for (const flags of [[], FLAGS, time, [...FLAGS, ...time], ['--Api.Compatibility', 'json-server']]) {
    await t.test(flags.join(' '), async (t) => {
      const { url } = await startHere(t, { directory, flags, ...(tags.size === 0 && { data: DATA }) })
      const { headers } = await send(url, 'GET', '/api/users')
      const again = await send(url, 'GET', '/api/users', { headers: { 'If-None-Match': headers.etag as string } })
      assert.equal(again.status, 304)
      tags.add(headers.etag as string)
    })
  }
  assert.equal(tags.size, 5)
})
