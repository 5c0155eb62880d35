import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { connect } from '../../src/client/index.ts'
import { each, until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'
import { json, type RunningServer, runToEnd, spawnServer } from '../support/server.ts'
import { startHere, startServer } from '../support/service.ts'

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
  return startServer(t, { data: BLOG, flags: ['--json-server', ...flags] })
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

test('writes return the item as it is or was', async (t) => {
  const server = await serve(t)
  const replaced = { id: 1, title: 'new' }
  assert.deepEqual(await read(server, 'posts', json('POST', { title: 'third' })), [201, { id: 3, title: 'third' }])
  assert.deepEqual(await read(server, 'posts/1', json('PUT', { title: 'new' })), [200, replaced])
  assert.deepEqual(await read(server, 'posts/1', json('PATCH', { views: 1 })), [200, { ...replaced, views: 1 }])
  assert.deepEqual(await read(server, 'posts/1', { method: 'DELETE' }), [200, { ...replaced, views: 1 }])
  assert.deepEqual(await read(server, 'posts/2?_dependent=comments', { method: 'DELETE' }), [200, BLOG.posts[1]])
  assert.deepEqual(await read(server, 'profile', json('PUT', { name: 'x' })), [200, { name: 'x' }])
  assert.deepEqual((await read(server, 'comments'))[1], BLOG.comments.slice(0, 2))
})

test('POST keeps the id that is sent, and continues with text after text and with numbers from 1 after numbers', async (t) => {
  const data = { numbers: [{ id: 5 }], texts: [{ id: 'a' }, { id: '7' }], empty: [] }
  const server = await startServer(t, { data, flags: ['--json-server'] })
  const idOf = async (name: string, item: object): Promise<unknown> => {
    const [status, created] = await read(server, name, json('POST', item))
    return status === 201 ? (created as { id: unknown }).id : status
  }
  assert.deepEqual([await idOf('numbers', {}), await idOf('numbers', {})], [6, 7])
  assert.equal((await read(server, 'numbers/7', { method: 'DELETE' }))[0], 200)
  assert.equal(await idOf('numbers', {}), 8, 'the id of a deleted item stays free')
  assert.deepEqual([await idOf('empty', {}), await idOf('empty', {})], [1, 2])
  assert.match(String(await idOf('texts', {})), /^[\w-]{11}$/)
  assert.deepEqual([await idOf('texts', { id: 'b' }), await idOf('texts', { id: 9 })], ['b', 9])
  assert.equal(await idOf('texts', { id: 'a' }), 409)
  assert.deepEqual([await idOf('numbers', { id: null }), await idOf('numbers', { id: '' })], [9, 10])
  assert.equal(await idOf('numbers', { id: 0 }), 0)
  const [, batch] = await read(server, 'texts', json('POST', [{}, {}]))
  assert.equal(new Set((batch as { ids: readonly string[] }).ids).size, 2)
  const replacing = await startServer(t, { data, flags: ['--json-server', '--Api.ClientIdsOnPost', 'false'] })
  assert.deepEqual(await read(replacing, 'numbers', json('POST', { id: 9 })), [201, { id: 6 }])
})

test('collections are served at the root, except at paths of the server itself', async (t) => {
  const data = { ...BLOG, events: [{ id: 1, name: 'party' }], 'a b': [{ id: 1 }] }
  const server = await startServer(t, { data, flags: ['--json-server'] })
  const at = async (path: string, init?: RequestInit): Promise<[number, unknown]> => {
    const answer = await server.fetch(path, init)
    const text = await answer.text()
    return [answer.status, text === '' ? undefined : JSON.parse(text)]
  }
  assert.deepEqual(await at('/posts/1'), [200, BLOG.posts[0]])
  assert.deepEqual(await at('/comments?postId=2'), [200, [BLOG.comments[2]]])
  assert.deepEqual(await at('/profile'), [200, BLOG.profile])
  assert.deepEqual(await at('/a%20b'), [200, [{ id: 1 }]])
  assert.deepEqual(await at('/posts', json('POST', { title: 'new' })), [201, { id: 3, title: 'new' }])
  assert.equal((await server.fetch('/posts', { method: 'HEAD' })).headers.get('X-Total-Count'), '3')
  assert.match((await server.fetch('/posts', { method: 'OPTIONS' })).headers.get('Allow') ?? '', /POST/)
  assert.match(JSON.stringify(await at('/events?limit=1')), /"position":1/)
  assert.deepEqual(await at('/api/events'), [200, data.events])
  assert.match(await (await server.fetch('/')).text(), /<!doctype html>/i)
  for (const path of ['/nothing', '/nothing/1', '/%', '/posts%2F1']) assert.equal((await at(path))[0], 404, path)
  const plain = await startServer(t, { data: BLOG })
  assert.equal((await plain.fetch('/posts')).status, 404)
})

test('the root needs the same role as /api', async (t) => {
  const accounts = [{ Name: 'r', Key: 'reader-key-0123456789', Role: 'reader' }]
  const server = await serve(t, [
    ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey'],
    ...['--Authentication.ApiKeys', JSON.stringify(accounts)],
  ])
  const headers = { 'X-API-KEY': 'reader-key-0123456789' }
  const statusOf = async (init?: RequestInit): Promise<number> => (await server.fetch('/posts', init)).status
  assert.deepEqual([await statusOf(), await statusOf({ headers })], [401, 200])
  assert.deepEqual([await statusOf(json('POST', {})), await statusOf(json('POST', {}, headers))], [401, 403])
})

test('no request deletes or replaces a whole collection or a single object, or creates one', async (t) => {
  const server = await serve(t, ['--Api.UpsertOnPut', 'true'])
  for (const [path, init] of [
    ['posts', { method: 'DELETE' }],
    ['posts?title=first', { method: 'DELETE' }],
    ['posts?all=true', { method: 'DELETE' }],
    ['profile', { method: 'DELETE' }],
    ['', json('POST', { a: [] })],
    ['posts', { method: 'PUT' }],
    ['new', { method: 'PUT' }],
    ['new', json('POST', { a: 1 })],
    ['new', json('POST', [{ a: 1 }])],
    ['new/1', json('PUT', { a: 1 })],
    ['new/1', json('PATCH', { a: 1 })],
    ['new/1', { method: 'DELETE' }],
  ] as const) {
    assert.equal((await read(server, path, init))[0], 404, `${init.method} ${path}`)
  }
  assert.deepEqual((await read(server, ''))[1], ['posts', 'comments', 'profile'])
  assert.deepEqual((await read(server, 'posts'))[1], BLOG.posts)
  assert.deepEqual((await read(server, 'profile'))[1], BLOG.profile)
  const allowed = async (path: string) => (await server.fetch(path, { method: 'OPTIONS' })).headers.get('Allow')
  assert.equal(await allowed('/api/profile'), 'GET, HEAD, PUT, PATCH, OPTIONS')
  assert.equal((await read(server, 'posts/9', json('PUT', { a: 1 })))[0], 201)
})

test('a form is read as an item of texts, except from pages of other origins', async (t) => {
  const server = await serve(t)
  const form = (method: string, body: string, headers = {}): RequestInit => {
    return { method, body, headers: { 'Content-Type': 'application/x-www-form-urlencoded;charset=utf-8', ...headers } }
  }
  const item = { id: 3, title: 'a b & c', tag: ['x', 'y'], empty: '' }
  assert.deepEqual(await read(server, 'posts', form('POST', 'title=a+b+%26+c&tag=x&tag=y&empty')), [201, item])
  assert.deepEqual(await read(server, 'posts/3', form('PATCH', 'tag=z')), [200, { ...item, tag: 'z' }])
  assert.deepEqual(await read(server, 'posts/3', form('PUT', 'title=new')), [200, { id: 3, title: 'new' }])
  assert.deepEqual(await read(server, 'posts/3/comments', form('POST', 'body=x')), [
    201,
    { id: 4, body: 'x', postId: 3 },
  ])
  assert.equal((await read(server, 'posts', form('POST', '__proto__=x')))[0], 400)
  const fields = Array.from({ length: 1001 }, (_, index) => `f${index}=1`).join('&')
  assert.equal((await read(server, 'posts', form('POST', fields)))[0], 400)
  assert.equal((await read(server, 'posts', form('POST', 'title=x', { Origin: 'http://elsewhere.example' })))[0], 403)
  const repeated = Array.from({ length: 1001 }, () => 'tag=1').join('&')
  assert.equal((await read(server, 'posts', form('POST', repeated)))[0], 400)
  const spelt = { method: 'POST', body: 'title=x', headers: { 'Content-Type': ' Application/X-WWW-Form-Urlencoded' } }
  assert.deepEqual(await read(server, 'posts', spelt), [201, { id: 4, title: 'x' }])
  const similar = { ...spelt, headers: { 'Content-Type': 'application/x-www-form-urlencodedX' } }
  assert.equal((await read(server, 'posts', similar))[0], 415)
  const plain = await startServer(t, { data: BLOG })
  assert.equal((await read(plain, 'posts', form('POST', 'title=x')))[0], 415)
})

test('JSON that is sent as a form is read as JSON', async (t) => {
  const server = await serve(t)
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const send = (method: string, path: string, body: string) => read(server, path, { method, headers, body })
  assert.deepEqual(await send('POST', 'posts', '{"title":"n & m"}'), [201, { id: 3, title: 'n & m' }])
  assert.deepEqual(await send('POST', 'posts', ' [{"title":"a"},{"title":"b"}]'), [201, { ids: [4, 5] }])
  assert.deepEqual(await send('PATCH', 'posts/3', '{"views":1}'), [200, { id: 3, title: 'n & m', views: 1 }])
  assert.deepEqual(await send('PUT', 'posts/3', '{"title":"m"}'), [200, { id: 3, title: 'm' }])
  assert.equal((await send('POST', 'posts', '{"title":'))[0], 400)
})

test('no body is an empty object, except of PUT', async (t) => {
  const server = await serve(t)
  const empty = { 'Content-Type': 'application/json' }
  assert.deepEqual(await read(server, 'posts', { method: 'POST' }), [201, { id: 3 }])
  assert.deepEqual(await read(server, 'posts', { method: 'POST', headers: empty, body: '' }), [201, { id: 4 }])
  assert.deepEqual(await read(server, 'posts/3/comments', { method: 'POST' }), [201, { id: 4, postId: 3 }])
  assert.deepEqual(await read(server, 'posts/1', { method: 'PATCH' }), [200, BLOG.posts[0]])
  assert.equal((await read(server, 'posts/1', { method: 'PUT' }))[0], 400)
  const plain = await startServer(t, { data: BLOG })
  assert.equal((await read(plain, 'posts', { method: 'POST' }))[0], 400)
})

test('parameters without a value are absent, and those that json-server ignores are ignored', async (t) => {
  const server = await serve(t)
  const idsAt = async (search: string): Promise<unknown> => {
    const [status, found] = await read(server, `comments?${search}`)
    const items = Array.isArray(found) ? found : ((found as { data?: unknown[] }).data ?? [])
    return status === 200 ? items.map((item) => (item as { id: number }).id) : status
  }
  for (const search of [
    ...['_sort=', '_order=', '_order=desc', '_page=', '_per_page=', '_limit=', '_start=', '_end='],
    ...['_where=', '_where={}', '_embed=', '_expand=', '_sort=&_order=desc', '_sort=id&_order=', 'callback=show'],
  ]) {
    assert.deepEqual(await idsAt(search), [1, 2, 3], search)
  }
  assert.deepEqual(await idsAt('_page=0&_limit=2'), [1, 2])
  assert.deepEqual(await idsAt('_page=-3&_per_page=2'), [1, 2])
  assert.deepEqual(await idsAt('_start=1&_end=2&_limit=9'), [2])
  assert.deepEqual(await read(server, 'posts/1?_embed=&callback=show'), [200, BLOG.posts[0]])
  for (const search of ['_page=abc', '_limit=-1', '_where=x', '_embed=comments&_embed=nothing']) {
    assert.equal(await idsAt(search), 400, search)
  }
  const plain = await startServer(t, { data: BLOG })
  assert.deepEqual((await read(plain, 'comments?callback=show'))[1], [])
})

test('messages name the addresses and the reasons of what was sent', async (t) => {
  const server = await serve(t)
  const detailOf = async (path: string) => ((await (await server.fetch(path)).json()) as { detail: string }).detail
  assert.match(await detailOf('/nothing'), /collections are at \/<collection>\./)
  assert.match(await detailOf('/posts?_where={"__proto__":{"eq":1}}'), /_where is refused: .*__proto__/)
  assert.match(await detailOf('/posts?_where={"views":{"eq":1e400}}'), /_where is refused: .*too large/)
  assert.match(
    await detailOf(`/posts?_where=${'{"a":'.repeat(300)}1${'}'.repeat(300)}`),
    /_where is refused: Nesting deeper/,
  )
})

test('a collection with the name of a path of the server is logged, at the start and when it appears', async (t) => {
  const server = await serve(t)
  const data = { ...BLOG, events: [{ id: 1 }] }
  await writeFile(server.file, JSON.stringify(data))
  const line = /The collection \\?"events\\?" is served at \/api\/events only/g
  await until('the warning', async () => server.log().match(line)?.length === 1)
  await server.stop()
  const again = await startServer(t, { directory: server.directory, flags: ['--json-server'] })
  assert.equal(again.log().match(line)?.length, 1)
})

test('_delay is no filter', async (t) => {
  const server = await serve(t)
  for (const delay of ['1', '', '0', '-5', 'soon', '1e-3']) {
    assert.deepEqual(await read(server, `posts?_delay=${delay}&title=first`), [200, [BLOG.posts[0]]])
    assert.deepEqual(await read(server, `posts/1?_delay=${delay}`), [200, BLOG.posts[0]])
  }
  assert.equal((await read(server, 'posts/1?_delay=1', json('PATCH', { views: 1 })))[0], 200)
  assert.equal((await read(server, 'comments/1?_delay=1', { method: 'DELETE' }))[0], 200)
})

test('a request with _delay is answered after later ones', async (t) => {
  const server = await serve(t)
  const leaving = new AbortController()
  let isAnswered = false
  const delayed = server.fetch('/api/posts?_delay=30000', { signal: leaving.signal }).then(() => {
    isAnswered = true
  })
  const aborted = assert.rejects(delayed, { name: 'AbortError' })
  for (let n = 0; n < 20; n++) assert.equal((await read(server, 'posts/1'))[0], 200)
  assert.equal(isAnswered, false)
  leaving.abort()
  await aborted
})

test('_where selects by conditions and alternatives, also nested ones', async (t) => {
  const server = await startServer(t, {
    data: {
      a: [
        { id: 1, n: 1, in: { s: 'Ada' } },
        { id: 2, n: 2, in: { s: 'bob' } },
        { id: 3, n: 3 },
        { id: 4, n: null },
      ],
    },
  })
  const idsOf = async (where: unknown, more = ''): Promise<unknown> => {
    const text = encodeURIComponent(typeof where === 'string' ? where : JSON.stringify(where))
    const [status, items] = await read(server, `a?_where=${text}${more}`)
    return status === 200 ? (items as { id: number }[]).map(({ id }) => id) : status
  }
  assert.deepEqual(await idsOf({ n: { gt: 1, lt: 3 } }), [2])
  assert.deepEqual(await idsOf({ n: { in: [1, 3] } }), [1, 3])
  assert.deepEqual(await idsOf({ n: { eq: null } }), [4])
  assert.deepEqual(await idsOf({ in: { s: { startsWith: 'AD' } } }), [1])
  assert.deepEqual(await idsOf({ or: [{ n: { eq: 3 } }, { in: { s: { contains: 'o' } } }] }), [2, 3])
  assert.deepEqual(await idsOf({ n: { lt: 3 }, or: [{ in: { or: [{ s: { eq: 'bob' } }] } }] }), [2])
  assert.deepEqual(await idsOf({ or: [] }), [])
  assert.deepEqual(await idsOf({ n: { gte: 1 } }, '&n_ne=2&sort=-n'), [3, 1])
  for (const wrong of ['', 'n', '[]', '{}', '{"n":1}', '{"n":{}}', '{"eq":1}', '{"or":{}}', '{"n":{"unlike":1}}']) {
    assert.equal(await idsOf(wrong), 400, wrong)
  }
  const many = { or: Array.from({ length: 33 }, (_, n) => ({ [`f${n}`]: { eq: n } })) }
  assert.equal(await idsOf(many), 400)
  assert.equal(await idsOf(`${'{"a":'.repeat(300)}1${'}'.repeat(300)}`), 400)
  assert.equal(await idsOf({ n: { eq: 1 } }, '&_where={}'), 400)
  assert.equal((await read(server, 'a?_where={"n":{"eq":1}}', { method: 'DELETE' }))[0], 400)
})

test('a foreign key has the suffix that the flag names', async (t) => {
  const data = {
    posts: [{ id: 1 }],
    comments: [
      { id: 1, post_id: 1 },
      { id: 2, postId: 1 },
    ],
  }
  const server = await startServer(t, { data, flags: ['--json-server', '--foreignKeySuffix', '_id'] })
  assert.deepEqual((await read(server, 'posts/1?_embed=comments'))[1], { id: 1, comments: [data.comments[0]] })
  assert.deepEqual((await read(server, 'comments/1?_expand=post'))[1], { id: 1, post_id: 1, post: { id: 1 } })
  assert.deepEqual((await read(server, 'posts/1/comments'))[1], [data.comments[0]])
  assert.deepEqual(await read(server, 'posts/1/comments', json('POST', {})), [201, { id: 3, post_id: 1 }])
  assert.equal((await read(server, 'posts/1?_dependent=comments', { method: 'DELETE' }))[0], 200)
  assert.deepEqual((await read(server, 'comments'))[1], [data.comments[1]])
})

test('other addresses lead to those that --routes names, in order, and a wrong file is refused', async (t) => {
  const directory = await temporaryDirectory(t)
  const rules = {
    '/blog/*': '/$1',
    '/:resource/:id/show': '/:resource/:id',
    '/first/:title': '/posts?title=:title',
    '/articles?id=:id': '/posts/:id',
  }
  const routes = join(directory, 'routes.json')
  await writeFile(routes, JSON.stringify(rules))
  const server = await serve(t, ['--routes', routes])
  for (const [path, expected] of [
    ['/blog/posts/1', BLOG.posts[0]],
    ['/blog/posts/1/show', BLOG.posts[0]],
    ['/first/first', [BLOG.posts[0]]],
    ['/articles?id=2', BLOG.posts[1]],
    ['/posts/1', BLOG.posts[0]],
  ] as const) {
    assert.deepEqual(await (await server.fetch(path)).json(), expected, path)
  }
  await writeFile(routes, JSON.stringify({ posts: '/a', '/a': 'b', '/:a([)': '/c', '/d/:e': '/:f' }))
  const refused = await runToEnd(t, directory, ['db.json', '--routes', routes])
  assert.equal(refused.code, 2)
  for (const why of [
    /"posts" must begin with a slash/,
    /"\/a" must stand for/,
    /"\/:a\(\[\)" is no pattern/,
    /names :f/,
  ]) {
    assert.match(refused.stderr, why)
  }
})

test('s and Enter write a snapshot to the directory that --snapshots names', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'db.json'), JSON.stringify(BLOG))
  const server = spawnServer(t, directory, { hasInput: true, flags: ['--json-server', '--snapshots', 'shots'] })
  await server.listening()
  server.process.stdin?.write('x\ns\n')
  const [, path = ''] = (await server.printed(/Saved snapshot to (.*)\n/)) ?? []
  assert.match(path, /shots.db-\d+\.json$/)
  assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')), BLOG)
})

test('a saved file is the state, without --watch', async (t) => {
  const server = await serve(t)
  const edited = { ...BLOG, posts: [{ id: 9, title: 'edited' }] }
  await writeFile(server.file, JSON.stringify(edited))
  await until('the edit', async () => isDeepStrictEqual((await read(server, 'posts'))[1], edited.posts))
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
