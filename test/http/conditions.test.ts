import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { prefers } from '../../src/http/requests.ts'
import { fetch, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const { url } = await startProgram(
  { after },
  {
    data: { things: [{ id: 1, name: 'one', inner: { a: [1] } }], others: [{ id: 1, name: 'one', inner: { a: [1] } }] },
    flags: ['--Api.UpsertOnPut', 'true'],
  },
)

async function get(path: string, ifNoneMatch?: string, method = 'GET'): Promise<Reply> {
  return send(url, method, path, { headers: ifNoneMatch === undefined ? {} : { 'If-None-Match': ifNoneMatch } })
}

async function tagOf(path: string): Promise<string> {
  return String((await get(path)).headers.etag)
}

/** A new item of a new id. */
async function created(collection = 'things', body: unknown = { n: 0 }): Promise<{ path: string; tag: string }> {
  const { status, headers } = await sendJson(url, 'POST', `/api/${collection}`, body)
  assert.equal(status, 201)
  return { path: String(headers.location), tag: String(headers.etag) }
}

/** An entity tag as proxies change it when they compress the response. */
function proxied(tag: string): readonly string[] {
  const codings = ['-gzip', '-br', '-zstd', '-deflate', '--gzip', ';gzip']
  return [`W/${tag}`, `"x", W/${tag}`, ...codings.map((coding) => ending(tag, coding)), `W/${ending(tag, '-gzip')}`]
}

/** Entity tags of other versions that begin like this one. */
function foreign(tag: string): readonly string[] {
  return ['-csv', '-gzip-gzip', 'gzip', '-', '-gzipped'].map((end) => ending(tag, end))
}

function ending(tag: string, end: string): string {
  return `${tag.slice(0, -1)}${end}"`
}

for (const path of ['/api', '/api/things', '/api/things/1', '/api/things/1/inner']) {
  test(`GET and HEAD of ${path} have a strong ETag, and get 304 with it`, async () => {
    const tag = await tagOf(path)
    assert.match(tag, /^"[\w+/=-]{16,}"$/)
    assert.equal((await get(path, undefined, 'HEAD')).headers.etag, tag)
    for (const match of [tag, `"x", ${tag}`, `W/"x",${tag} , "y"`, ...proxied(tag), '*']) {
      for (const method of ['GET', 'HEAD']) {
        const { status, headers, text } = await get(path, match, method)
        assert.equal(status, 304, `${method} ${match}`)
        assert.equal(headers.etag, tag)
        assert.equal(text, '')
        assert.match(String(headers['journal-position']), /^\d+$/)
        assert.equal(headers['content-type'], undefined)
      }
    }
    for (const other of [
      '"x"',
      'W/"x"',
      tag.slice(1, -1),
      `${tag.slice(0, -1)}x"`,
      tag.toUpperCase(),
      '',
      'x',
      '"x", "y"',
      ...foreign(tag),
    ]) {
      assert.equal((await get(path, other)).status, 200, other)
    }
  })

  test(`a match at ${path} gets 304 even with Cache-Control: no-cache, which fetch adds`, async () => {
    const headers = { 'If-None-Match': await tagOf(path), 'Cache-Control': 'no-cache', Pragma: 'no-cache' }
    assert.equal((await send(url, 'GET', path, { headers })).status, 304)
    const fetched = await fetch(url + path, { headers: { 'If-None-Match': headers['If-None-Match'] } })
    assert.equal(fetched.status, 304)
    assert.equal(fetched.headers.get('etag'), headers['If-None-Match'])
  })
}

test('a missing resource gets 404 with any condition', async () => {
  for (const [path, status] of [
    ['/api/things/404', 404],
    ['/api/unknown', 404],
    ['/api/unknown/1', 400],
  ] as const) {
    assert.equal((await get(path, '*')).status, status, path)
  }
})

test('the ETag of an item is a hash of its data', async () => {
  assert.equal(await tagOf('/api/things/1'), await tagOf('/api/others/1'))
  const { path, tag } = await created()
  assert.equal(await tagOf(path), tag)
  const replaced = await sendJson(url, 'PUT', path, { n: 1 })
  assert.notEqual(replaced.headers.etag, tag)
  assert.equal(await tagOf(path), replaced.headers.etag)
  const patched = await sendJson(url, 'PATCH', path, { n: 0 })
  assert.equal(await tagOf(path), patched.headers.etag)
  assert.equal(patched.headers.etag, tag)
})

test('the ETag of a collection changes with every event of it, and with no other', async () => {
  const { path } = await created('tagged')
  const seen = new Set<string>()
  const changed = async (): Promise<void> => {
    const tag = await tagOf('/api/tagged')
    assert.ok(!seen.has(tag), 'a new tag')
    seen.add(tag)
    assert.equal((await get('/api/tagged', tag)).status, 304)
  }
  await changed()
  await sendJson(url, 'PUT', path, { n: 1 })
  await changed()
  await sendJson(url, 'PATCH', path, { n: 2 })
  await changed()
  await created('tagged')
  await changed()
  await send(url, 'DELETE', path)
  await changed()
  const before = await tagOf('/api/tagged')
  await created('things')
  assert.equal(await tagOf('/api/tagged'), before)
})

test('the ETag of /api changes when a collection is created', async () => {
  const tag = await tagOf('/api')
  await created('things')
  assert.equal(await tagOf('/api'), tag)
  await created('newcomer')
  assert.notEqual(await tagOf('/api'), tag)
})

test('ETags stay the same after a kill and a restart', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await startProgram(t, { directory, data: { things: [{ id: 1, text: '€', n: 1.5e-300 }] } })
  await sendJson(first.url, 'POST', '/api/things', { z: 1, a: { c: 1, b: 2 } })
  await sendJson(first.url, 'PATCH', '/api/things/1', { more: [1, { x: null }] })
  const paths = ['/api', '/api/things', '/api/things/1', '/api/things/2', '/api/things/2/a']
  const tags = await Promise.all(paths.map(async (path) => (await send(first.url, 'GET', path)).headers.etag))
  await first.stop('SIGKILL')
  const second = await startProgram(t, { directory })
  for (const [index, path] of paths.entries()) {
    const headers = { 'If-None-Match': String(tags[index]) }
    const { status, headers: answered } = await send(second.url, 'GET', path, { headers })
    assert.equal(status, 304, path)
    assert.equal(answered.etag, tags[index])
  }
})

const WRITES: readonly (readonly [string, unknown])[] = [
  ['PUT', { n: 1 }],
  ['PATCH', { n: 1 }],
  ['DELETE', undefined],
]

function write(method: string, path: string, body: unknown, headers: Record<string, string>): Promise<Reply> {
  return body === undefined ? send(url, method, path, { headers }) : sendJson(url, method, path, body, headers)
}

for (const [method, body] of WRITES) {
  test(`${method} with an If-Match that does not match gets 412 and changes nothing`, async () => {
    const { path, tag } = await created()
    const head = (await get('/api')).headers['journal-position']
    for (const match of ['"x"', 'W/"x"', tag.slice(1, -1), 'x', '', `"${tag}"`, '""', ...foreign(tag)]) {
      const { status } = await write(method, path, body, { 'If-Match': match })
      assert.equal(status, 412, `If-Match: ${match}`)
    }
    assert.equal((await get('/api')).headers['journal-position'], head)
    assert.equal(await tagOf(path), tag)
  })

  test(`${method} with an If-Match that matches succeeds`, async () => {
    const sent = (tag: string) => [tag, `"x", W/"y" ,${tag}`, '*', ...proxied(tag)]
    for (const index of sent('').keys()) {
      const { path, tag } = await created()
      const match = sent(tag)[index] as string
      assert.equal((await write(method, path, body, { 'If-Match': match })).status, 204, match)
    }
  })

  test(`${method} with If-Match of a missing item gets 412, in an unknown collection too, and creates nothing`, async () => {
    for (const path of ['/api/things/none', '/api/unknown/1']) {
      for (const match of ['*', '"x"']) {
        assert.equal((await write(method, path, body, { 'If-Match': match })).status, 412, path)
      }
    }
    assert.equal((await get('/api/unknown')).status, 404)
  })

  test(`${method} with an If-None-Match that matches gets 412`, async () => {
    const { path, tag } = await created()
    for (const match of ['*', tag, `"x", ${tag}`, ...proxied(tag)]) {
      assert.equal((await write(method, path, body, { 'If-None-Match': match })).status, 412, match)
    }
    assert.equal(await tagOf(path), tag)
    assert.equal((await write(method, path, body, { 'If-None-Match': '"x"' })).status, 204)
  })
}

test('a write with If-Unchanged-Since succeeds unless the item was changed after that position', async () => {
  for (const [method, body] of WRITES) {
    const { path } = await created()
    const since = async () => String((await get('/api/things')).headers['journal-position'])
    const before = await since()
    await created()
    assert.equal((await write(method, path, body, { 'If-Unchanged-Since': before })).status, 204, method)
    const second = await write(method, path, body, { 'If-Unchanged-Since': before })
    assert.equal(second.status, 412)
    assert.match(second.text, /the item (was changed at position \d+|does not exist)/)
    const beyond = { 'If-Unchanged-Since': String(Number(await since()) + 1) }
    assert.match((await write(method, path, body, beyond)).text, /beyond the last position/)
    for (const invalid of ['', '-1', 'now', '1.5']) {
      assert.equal((await write(method, path, body, { 'If-Unchanged-Since': invalid })).status, 400, invalid)
    }
  }
})

test('If-Unchanged-Since is refused where there is no single item that it could be about', async () => {
  const before = (await get('/api')).headers['journal-position'] as string
  for (const [method, path, body] of [
    ['POST', '/api/things', { n: 1 }],
    ['POST', '/api/things', [{ n: 1 }]],
    ['POST', '/api', { things: [] }],
    ['PUT', '/api/unwritten', undefined],
    ['DELETE', '/api/things?n=0', undefined],
  ] as const) {
    const { status, text } = await write(method, path, body, { 'If-Unchanged-Since': before })
    assert.equal(status, 400, `${method} ${path}`)
    assert.match(text, /If-Unchanged-Since/i)
  }
  assert.equal((await get('/api')).headers['journal-position'], before)
})

test('exactly one of many writers that have read at the same position succeeds', async () => {
  const { path } = await created()
  const headers = { 'If-Unchanged-Since': String((await get(path)).headers['journal-position']) }
  const replies = await Promise.all(Array.from({ length: 50 }, (_, n) => sendJson(url, 'PATCH', path, { n }, headers)))
  assert.equal(replies.filter(({ status }) => status === 204).length, 1)
  assert.equal(replies.filter(({ status }) => status === 412).length, 49)
})

test('PUT with If-None-Match: * creates an item, once', async () => {
  const first = await sendJson(url, 'PUT', '/api/once/1', { n: 1 }, { 'If-None-Match': '*' })
  assert.equal(first.status, 201)
  assert.equal((await sendJson(url, 'PUT', '/api/once/1', { n: 2 }, { 'If-None-Match': '*' })).status, 412)
  assert.deepEqual((await get('/api/once/1')).json(), { id: 1, n: 1 })
})

test('exactly one of two hundred writers with the same entity tag succeeds', async () => {
  const { path, tag } = await created()
  const replies = await Promise.all(
    Array.from({ length: 200 }, (_, n) => {
      const [method, body] = [
        ['PUT', { n: n + 1 }],
        ['PATCH', { n: n + 1 }],
      ][n % 2] as [string, unknown]
      return write(method, path, body, { 'If-Match': tag })
    }),
  )
  const statuses = replies.map(({ status }) => status)
  assert.equal(statuses.filter((status) => status === 204).length, 1)
  assert.equal(statuses.filter((status) => status === 412).length, 199)
  const winner = statuses.indexOf(204)
  const { headers, json } = await get(path)
  assert.equal(json<{ n: number }>().n, winner + 1)
  assert.equal(headers.etag, replies[winner]?.headers.etag)
})

test('exactly one of many concurrent deletes succeeds, with and without a condition', async () => {
  for (const conditional of [true, false]) {
    const { path, tag } = await created()
    const headers: Record<string, string> = conditional ? { 'If-Match': tag } : {}
    const replies = await Promise.all(Array.from({ length: 50 }, () => send(url, 'DELETE', path, { headers })))
    const statuses = replies.map(({ status }) => status)
    assert.equal(statuses.filter((status) => status === 204).length, 1)
    assert.equal(statuses.filter((status) => status === (conditional ? 412 : 404)).length, 49)
  }
})

test('exactly one of many PUTs with If-None-Match: * creates the item', async () => {
  const replies = await Promise.all(
    Array.from({ length: 50 }, (_, n) => sendJson(url, 'PUT', '/api/creators/x', { n }, { 'If-None-Match': '*' })),
  )
  assert.equal(replies.filter(({ status }) => status === 201).length, 1)
  assert.equal(replies.filter(({ status }) => status === 412).length, 49)
})

test('concurrent increments of a counter with If-Match are all counted', async () => {
  const { path } = await created()
  const raise = async (): Promise<void> => {
    for (;;) {
      const { headers, json } = await get(path)
      const n = json<{ n: number }>().n + 1
      const { status } = await sendJson(url, 'PUT', path, { n }, { 'If-Match': String(headers.etag) })
      if (status === 204) return
      assert.equal(status, 412)
    }
  }
  await within('20 increments', Promise.all(Array.from({ length: 20 }, raise)))
  assert.equal((await get(path)).json<{ n: number }>().n, 20)
})

test('Prefer: return=representation returns the item', async () => {
  for (const prefer of ['return=representation', 'RETURN = "representation"', 'wait=5, return=representation; x=y']) {
    const headers = { Prefer: prefer }
    const post = await sendJson(url, 'POST', '/api/preferring', { n: 1 }, headers)
    assert.equal(post.status, 201, prefer)
    const path = String(post.headers.location)
    const check = async (reply: Reply): Promise<void> => {
      const got = await get(path)
      assert.equal(reply.headers['content-type'], 'application/json')
      assert.equal(reply.headers['preference-applied'], 'return=representation')
      assert.equal(reply.headers.etag, got.headers.etag)
      assert.equal(reply.text, got.text)
    }
    await check(post)
    const put = await sendJson(url, 'PUT', path, { n: 2 }, headers)
    assert.equal(put.status, 200)
    assert.equal(put.headers.location, undefined)
    await check(put)
    const patch = await sendJson(url, 'PATCH', path, { m: 3 }, headers)
    assert.equal(patch.status, 200)
    await check(patch)
    assert.equal((await send(url, 'DELETE', path, { headers })).status, 204)
    const upsert = await sendJson(url, 'PUT', path, { n: 4 }, headers)
    assert.equal(upsert.status, 201)
    assert.equal(upsert.headers.location, path)
    await check(upsert)
  }
})

test('other preferences are ignored', async () => {
  for (const prefer of ['return=minimal', 'representation', 'return=representations', 'xreturn=representation', '']) {
    const post = await sendJson(url, 'POST', '/api/preferring', { n: 1 }, { Prefer: prefer })
    assert.equal(post.status, 201)
    assert.deepEqual(Object.keys(post.json<object>()), ['id'], prefer)
    assert.equal(post.headers['preference-applied'], undefined)
    assert.equal((await sendJson(url, 'PUT', String(post.headers.location), {}, { Prefer: prefer })).status, 204)
  }
})

const FIRST: readonly (readonly [prefer: readonly string[], isPreferred: boolean])[] = [
  [['return=minimal, return=representation'], false],
  [['return=minimal', 'return=representation'], false],
  [['Return="minimal";a=b, RETURN=representation'], false],
  [['return, return=representation'], false],
  [['return=, return=representation'], false],
  [['x="a, return=representation"'], false],
  [['x="\\", return=representation'], false],
  [['return=representation, return=minimal'], true],
  [['return=representation', 'return=minimal'], true],
  [['handling=strict, return=representation, handling=lenient'], true],
  [['x="return=minimal, \\"", return=representation'], true],
  [[', ,returns=minimal, return=representation'], true],
]

/** The fast front, and Koa, which answers pages. */
const WAYS: readonly Record<string, string>[] = [{}, { Origin: 'http://localhost' }]

test('the first of repeated preferences counts, in one header or several', async (t) => {
  const { url } = await startHere(t, { data: { things: [{ id: 1, n: 1 }] } })
  const json = { 'Content-Type': 'application/json' }
  for (const way of WAYS) {
    for (const [prefer, isPreferred] of FIRST) {
      const headers = { ...json, ...way, Prefer: [...prefer], 'Content-Length': '7' }
      const { status } = await send(url, 'PATCH', '/api/things/1', { headers, body: '{"n":2}' })
      assert.equal(status, isPreferred ? 200 : 204, prefer.join(' | '))
    }
    for (const [prefer, status] of [
      [['handling=strict, handling=lenient'], 422],
      [['handling=strict', 'handling=lenient'], 422],
      [['handling=lenient, handling=strict'], 200],
      [['return=minimal, handling=lenient'], 200],
    ] as const) {
      const headers = { ...json, ...way, Prefer: [...prefer] }
      assert.equal((await send(url, 'POST', '/api/things', { headers, body: '[{},5]' })).status, status, prefer.join())
    }
  }
})

test('a preference without a value may have an empty one, and one with a value is another', () => {
  for (const prefer of [
    'only-if-newer',
    'only-if-newer=',
    'Only-If-Newer = ""',
    'only-if-newer;a=b',
    'only-if-newer,only-if-newer=x',
  ]) {
    assert.equal(prefers({ prefer }, 'only-if-newer'), true, prefer)
  }
  const others = ['only-if-newer=no', 'only-if-newer=x, only-if-newer', 'only-if-newer="x"', 'only-if']
  const malformed = ['only-if-newer="', 'only-if-newer="  ;x', 'only-if-newer=""x']
  for (const prefer of [...others, ...malformed]) {
    assert.equal(prefers({ prefer }, 'only-if-newer'), false, prefer)
  }
  assert.equal(prefers({ prefer: 'return=representation "' }, 'return=representation'), false)
  assert.equal(prefers({ prefer: 'return="representation"; a' }, 'return=representation'), true)
})
