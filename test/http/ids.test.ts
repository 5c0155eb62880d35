import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { after, describe, test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type Reply, send, sendBytes, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startHere, startServer } from '../support/service.ts'

const HIGHEST = 2 ** 52

async function post(url: string, collection: string, body: unknown = {}): Promise<Reply> {
  const reply = await sendJson(url, 'POST', `/api/${collection}`, body)
  assert.equal(reply.status, 201, reply.text)
  return reply
}

async function posted(url: string, collection: string, body: unknown = {}): Promise<unknown> {
  return (await post(url, collection, body)).json<{ id: unknown }>().id
}

async function read(url: string, path: string): Promise<unknown> {
  const reply = await send(url, 'GET', path)
  assert.equal(reply.status, 200, `${path}: ${reply.text}`)
  return reply.json()
}

describe('by default', async () => {
  const { url } = await startServer(
    { after },
    {
      data: {
        numbers: [{ id: 7 }, { id: 3 }],
        texts: [{ id: '007' }, { id: '41' }, { id: '42abc' }, { id: '1e3' }, { id: '99.0' }],
        odd: [{ id: -5 }, { id: 2.5 }],
        negative: [{ id: -5 }],
        'a collection/ü': [{ id: 1 }],
      },
    },
  )

  test('POST assigns consecutive integers from 0, whatever id the client sends', async () => {
    assert.equal(await posted(url, 'running'), 0)
    assert.equal(await posted(url, 'running', { id: 'mine', name: 'x' }), 1)
    assert.equal(await posted(url, 'running', { id: null }), 2)
    assert.equal(await posted(url, 'running', { id: { no: 'id' } }), 3)
    assert.equal(await posted(url, 'running', { id: 2 ** 53 }), 4)
    assert.deepEqual(await read(url, '/api/running/1'), { id: 1, name: 'x' })
  })

  test('POST continues above the highest canonical integer, stored as number or as text', async () => {
    assert.equal(await posted(url, 'numbers'), 8)
    assert.equal(await posted(url, 'texts'), 42)
    assert.equal(await posted(url, 'odd'), 0)
    assert.equal(await posted(url, 'negative'), 0)
  })

  test('the id of a deleted item is never assigned again', async () => {
    assert.equal(await posted(url, 'deleted'), 0)
    assert.equal(await posted(url, 'deleted'), 1)
    assert.equal((await send(url, 'DELETE', '/api/deleted/1')).status, 204)
    assert.equal((await send(url, 'DELETE', '/api/deleted/0')).status, 204)
    assert.equal(await posted(url, 'deleted'), 2)
  })

  test('two hundred concurrent POSTs get two hundred consecutive ids', async () => {
    const replies = await Promise.all(Array.from({ length: 200 }, (_, n) => post(url, 'parallel', { n })))
    const ids = replies.map((reply) => reply.json<{ id: number }>().id).sort((a, b) => a - b)
    assert.deepEqual(
      ids,
      Array.from({ length: 200 }, (_, index) => index),
    )
    const positions = new Set(replies.map(({ headers }) => headers['journal-position']))
    assert.equal(positions.size, 200)
    const stored = (await read(url, '/api/parallel')) as { id: number; n: number }[]
    for (const [n, reply] of replies.entries()) {
      const { id } = reply.json<{ id: number }>()
      assert.deepEqual(
        stored.find((item) => item.id === id),
        { id, n },
      )
    }
  })

  test('ids are compared as exact text', async () => {
    assert.equal((await send(url, 'GET', '/api/numbers/7')).status, 200)
    for (const other of ['07', '007', '7.0', '+7', '7e0', '%207', '7%20', '0x7', '７']) {
      assert.equal((await send(url, 'GET', `/api/numbers/${encodeURI(decodeURI(other))}`)).status, 404, other)
    }
    assert.deepEqual(await read(url, '/api/texts/007'), { id: '007' })
    assert.equal((await send(url, 'GET', '/api/texts/7')).status, 404)
    assert.deepEqual(await read(url, '/api/odd/2.5'), { id: 2.5 })
    assert.deepEqual(await read(url, '/api/odd/-5'), { id: -5 })
  })

  test('the name of a collection is percent-decoded and encoded like an id', async () => {
    const path = '/api/a%20collection%2F%C3%BC'
    assert.deepEqual(await read(url, `${path}/1`), { id: 1 })
    const { headers } = await sendJson(url, 'POST', path, {})
    assert.equal(headers.location, `${path}/2`)
  })

  test('names of built-in members of JavaScript are ordinary names', async () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      assert.equal((await send(url, 'GET', `/api/${name}`)).status, 404, name)
      assert.equal(await posted(url, name, { a: 1 }), 0)
      assert.deepEqual(await read(url, `/api/${name}`), [{ id: 0, a: 1 }])
      assert.equal((await send(url, 'GET', `/api/${name}/__proto__`)).status, 404)
      assert.ok(((await read(url, '/api')) as string[]).includes(name))
    }
  })

  test('PUT and PATCH keep the type of the id, and reject another id', async () => {
    for (const [collection, id, same] of [
      ['numbers', 3, '3'],
      ['texts', '41', 41],
    ] as const) {
      const path = `/api/${collection}/${id}`
      for (const body of [{ a: 1 }, { a: 2, id }, { id: same, a: 3 }]) {
        assert.equal((await sendJson(url, 'PUT', path, body)).status, 204)
        assert.deepEqual(await read(url, path), { id, a: body.a })
        assert.equal((await sendJson(url, 'PATCH', path, { ...body, b: 1 })).status, 204)
        assert.deepEqual(await read(url, path), { id, a: body.a, b: 1 })
      }
      for (const other of [4, '04', '3.0', null, true, [3], { id: 3 }, '']) {
        assert.equal((await sendJson(url, 'PUT', path, { id: other })).status, 409, JSON.stringify(other))
        assert.equal((await sendJson(url, 'PATCH', path, { id: other })).status, 409, JSON.stringify(other))
      }
      assert.deepEqual(await read(url, path), { id, a: 3, b: 1 })
    }
  })

  test('malformed percent-encoding gets 400, for every method', async () => {
    for (const segment of ['%', '%2', '%zz', '%ff', '%c0%af', '%ed%a0%80', 'a%E2%82']) {
      for (const path of [`/api/${segment}`, `/api/numbers/${segment}`, `/api/numbers/3/${segment}`]) {
        assert.equal((await send(url, 'GET', path)).status, 400, path)
      }
      assert.equal((await sendJson(url, 'PUT', `/api/numbers/${segment}`, {})).status, 400, segment)
      assert.equal((await sendJson(url, 'PATCH', `/api/numbers/${segment}`, { a: 1 })).status, 400, segment)
      assert.equal((await send(url, 'DELETE', `/api/numbers/${segment}`)).status, 400, segment)
      assert.equal((await sendJson(url, 'POST', `/api/${segment}`, {})).status, 400, segment)
    }
  })
})

describe('with Api.UpsertOnPut', async () => {
  const { url } = await startServer(
    { after },
    {
      data: { numbers: [{ id: 1 }], texts: [{ id: 'a' }], empty: [] },
      flags: ['--Api.UpsertOnPut', 'true'],
    },
  )

  const NAMES: readonly (readonly [string, string, string])[] = [
    ['a/b', 'a%2Fb', 'a%2Fb'],
    ['..', '..', '%2E%2E'],
    ['..', '%2E%2E', '%2E%2E'],
    ['.', '%2e', '%2E'],
    ['€', '%E2%82%AC', '%E2%82%AC'],
    ['line\r\nbreak', 'line%0D%0Abreak', 'line%0D%0Abreak'],
    ['swagger', 'swagger', 'swagger'],
    ['api', 'api', 'api'],
    ['F4:A5:74:89:16:57', 'F4:A5:74:89:16:57', 'F4:A5:74:89:16:57'],
    ['F4:A5', 'F4%3AA5', 'F4:A5'],
    ['Case', 'Case', 'Case'],
    ['case', 'case', 'case'],
    ['a b', 'a%20b', 'a%20b'],
    ['a+b', 'a+b', 'a%2Bb'],
    ['%2F', '%252F', '%252F'],
    ['100%', '100%25', '100%25'],
    ['a?b#c', 'a%3Fb%23c', 'a%3Fb%23c'],
    ['\u0000', '%00', '%00'],
    ['"<>\\^`{|}', '%22%3C%3E%5C%5E%60%7B%7C%7D', '%22%3C%3E%5C%5E%60%7B%7C%7D'],
    ['\u{1F600}', '%F0%9F%98%80', '%F0%9F%98%80'],
    ['é', '%C3%A9', '%C3%A9'],
    ['e\u0301', 'e%CC%81', 'e%CC%81'],
    ['007', '007', '007'],
    ['__proto__', '__proto__', '__proto__'],
    ['constructor', 'constructor', 'constructor'],
    ['x'.repeat(2000), 'x'.repeat(2000), 'x'.repeat(2000)],
  ]

  for (const [index, [id, segment, written]] of NAMES.entries()) {
    test(`the id ${JSON.stringify(id).slice(0, 40)} sent as ${segment.slice(0, 40)} is created, found and deleted`, async () => {
      const created = await sendJson(url, 'PUT', `/api/names/${segment}`, { index })
      assert.equal(created.status, 201, created.text)
      assert.equal(created.headers.location, `/api/names/${written}`)
      assert.deepEqual(created.json(), { id })
      for (const path of [`/api/names/${segment}`, created.headers.location]) {
        assert.deepEqual(await read(url, path), { id, index })
        assert.deepEqual(await read(url, `${path}/index`), index)
      }
      assert.equal((await send(url, 'DELETE', `/api/names/${segment}`)).status, 204)
      assert.equal((await send(url, 'GET', `/api/names/${segment}`)).status, 404)
    })
  }

  test('a path that is not percent-encoded gets 400 and never means another id', async () => {
    const head =
      'HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: '
    assert.match(await sendBytes(url, `PUT /api/raw/€ ${head}7\r\n\r\n{"a":1}`), /^HTTP\/1\.1 400 /)
    assert.equal((await send(url, 'GET', '/api/raw')).status, 404)
  })

  test('ids that differ in case, Unicode form or spelling are different items', async () => {
    const segments = ['A', 'a', '%C3%A9', 'e%CC%81', '7', '07', '%2F', '%252F']
    for (const segment of segments) {
      assert.equal((await sendJson(url, 'PUT', `/api/different/${segment}`, { segment })).status, 201, segment)
    }
    for (const segment of segments) {
      assert.equal(((await read(url, `/api/different/${segment}`)) as { segment: string }).segment, segment)
    }
  })

  test('an upsert takes the id of the body when it equals that of the path, as number or text', async () => {
    assert.deepEqual((await sendJson(url, 'PUT', '/api/typed/1', { id: 1 })).json(), { id: 1 })
    assert.deepEqual((await sendJson(url, 'PUT', '/api/typed/2', { id: '2' })).json(), { id: '2' })
    assert.deepEqual((await sendJson(url, 'PUT', '/api/typed/2.5', { id: 2.5 })).json(), { id: 2.5 })
    assert.deepEqual((await sendJson(url, 'PUT', '/api/typed/-1', { id: -1 })).json(), { id: -1 })
    for (const [segment, id] of [
      ['4', 5],
      ['4', '5'],
      ['04', 4],
      ['4', null],
      ['4', [4]],
      ['true', true],
      ['null', null],
    ] as const) {
      const { status } = await sendJson(url, 'PUT', `/api/typed/${segment}`, { id })
      assert.equal(status, 409, `${segment} with ${JSON.stringify(id)}`)
    }
  })

  test('an upsert without an id in its body uses an integer for a canonical one, unless the collection has text ids', async () => {
    const upserted = async (path: string): Promise<unknown> =>
      (await sendJson(url, 'PUT', path, {})).json<{ id: unknown }>().id
    assert.equal(await upserted('/api/numbers/5'), 5)
    assert.equal(await upserted('/api/empty/0'), 0)
    assert.equal(await upserted('/api/fresh/12'), 12)
    assert.equal(await upserted('/api/texts/5'), '5')
    assert.equal(await upserted('/api/numbers/05'), '05')
    assert.equal(await upserted('/api/numbers/6'), '6')
    assert.equal(await upserted('/api/fresh/-1'), '-1')
    assert.equal((await send(url, 'DELETE', '/api/numbers/05')).status, 204)
    assert.equal((await send(url, 'DELETE', '/api/numbers/6')).status, 204)
    assert.equal(await upserted('/api/numbers/7'), 7)
  })

  test('an upsert creates its collection, and POST continues above its id', async () => {
    const created = await sendJson(url, 'PUT', '/api/made/41', { a: 1 })
    assert.equal(created.status, 201)
    assert.equal(created.headers.location, '/api/made/41')
    assert.ok(created.headers.etag)
    assert.deepEqual(await read(url, '/api/made'), [{ id: 41, a: 1 }])
    assert.equal(await posted(url, 'made'), 42)
    assert.equal((await sendJson(url, 'PUT', '/api/made/41', { a: 2 })).status, 204)
  })

  test('PATCH and DELETE create nothing', async () => {
    assert.equal((await sendJson(url, 'PATCH', '/api/unmade/1', { a: 1 })).status, 404)
    assert.equal((await send(url, 'DELETE', '/api/unmade/1')).status, 404)
    assert.equal((await send(url, 'GET', '/api/unmade')).status, 404)
  })

  test('an integer id may be at most 2^52, and POST assigns ids above it', async () => {
    assert.equal((await sendJson(url, 'PUT', `/api/high/${HIGHEST + 1}`, {})).status, 422)
    assert.equal((await sendJson(url, 'PUT', `/api/high/${HIGHEST + 1}`, { id: HIGHEST + 1 })).status, 422)
    assert.equal((await sendJson(url, 'PUT', `/api/high/1${'0'.repeat(400)}`, {})).status, 422)
    assert.equal((await sendJson(url, 'PUT', `/api/high/${HIGHEST}`, {})).status, 201)
    assert.equal(await posted(url, 'high', { n: 1 }), HIGHEST + 1)
    assert.equal(await posted(url, 'high', { n: 2 }), HIGHEST + 2)
    assert.deepEqual(await read(url, '/api/high'), [
      { id: HIGHEST },
      { id: HIGHEST + 1, n: 1 },
      { id: HIGHEST + 2, n: 2 },
    ])
  })

  test('text that spells an integer beyond 2^52 is ordinary text', async () => {
    const id = String(HIGHEST + 1)
    assert.equal((await sendJson(url, 'PUT', `/api/hightext/${id}`, { id })).status, 201)
    assert.equal(await posted(url, 'hightext'), 0)
    assert.equal((await sendJson(url, 'PUT', `/api/hightext/${HIGHEST}`, { id: String(HIGHEST) })).status, 201)
    assert.equal(await posted(url, 'hightext', { n: 1 }), HIGHEST + 2)
    assert.deepEqual(await read(url, `/api/hightext/${id}`), { id })
  })
})

describe('with Api.ClientIdsOnPost', async () => {
  const { url } = await startServer(
    { after },
    {
      data: { things: [{ id: 1 }, { id: 'a' }] },
      flags: ['--Api.ClientIdsOnPost', 'true'],
    },
  )

  test('POST keeps the id of the client, number or text', async () => {
    const text = await post(url, 'things', { id: 'b/c', name: 'x' })
    assert.equal(text.headers.location, '/api/things/b%2Fc')
    assert.deepEqual(text.json(), { id: 'b/c' })
    assert.deepEqual(await read(url, '/api/things/b%2Fc'), { id: 'b/c', name: 'x' })
    assert.equal(await posted(url, 'things', { id: 10 }), 10)
    assert.equal(await posted(url, 'things'), 11)
    assert.equal(await posted(url, 'things', { id: '20' }), '20')
    assert.equal(await posted(url, 'things'), 21)
    assert.equal(await posted(url, 'things', { id: 15 }), 15)
    assert.equal(await posted(url, 'things'), 22)
  })

  test('an existing id gets 409, even with the other type; a deleted one may be used again', async () => {
    for (const id of [1, '1', 'a']) {
      const { status, headers } = await sendJson(url, 'POST', '/api/things', { id })
      assert.equal(status, 409, JSON.stringify(id))
      assert.equal(headers.location, undefined)
    }
    assert.equal((await send(url, 'DELETE', '/api/things/a')).status, 204)
    assert.equal(await posted(url, 'things', { id: 'a', again: true }), 'a')
    const [created, deleted, again] = (await read(url, '/events?collection=things&id=a')) as {
      revision: number
      prior: number
      position: number
    }[]
    assert.equal(again?.revision, 3)
    assert.equal(again?.prior, deleted?.position)
    assert.equal(deleted?.prior, created?.position)
  })

  test('exactly one of many concurrent POSTs with one id succeeds', async () => {
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, n) => sendJson(url, 'POST', '/api/race', { id: 'one', n })),
    )
    assert.deepEqual(
      replies.map(({ status }) => status).sort((a, b) => a - b),
      [201, ...Array.from({ length: 99 }, () => 409)],
    )
    const winner = replies.findIndex(({ status }) => status === 201)
    assert.deepEqual(await read(url, '/api/race'), [{ id: 'one', n: winner }])
  })

  test('an invalid id gets 422 at /id', async () => {
    for (const id of ['', null, true, [], {}, HIGHEST + 1, -HIGHEST - 1, 1e300, '\ud800', 'a\udc00']) {
      const reply = await sendJson(url, 'POST', '/api/things', { id })
      assert.equal(reply.status, 422, JSON.stringify(id))
      assert.equal(reply.json<{ errors: { pointer: string }[] }>().errors[0]?.pointer, '/id')
    }
    assert.equal(await posted(url, 'limits', { id: HIGHEST }), HIGHEST)
    assert.equal(await posted(url, 'limits', { n: 1 }), HIGHEST + 1)
    assert.equal(await posted(url, 'limits', { n: 2 }), HIGHEST + 2)
    assert.equal(((await read(url, '/api/limits')) as unknown[]).length, 3)
  })
})

test('ids continue after a kill and a restart, also above deleted items', async (t) => {
  const directory = await temporaryDirectory(t)
  const data = { things: [{ id: 4 }] }
  const first = await startProgram(t, { directory, data })
  assert.equal(await posted(first.url, 'things'), 5)
  assert.equal(await posted(first.url, 'things'), 6)
  assert.equal(await posted(first.url, 'others'), 0)
  for (const path of ['/api/things/6', '/api/things/5', '/api/things/4', '/api/others/0']) {
    assert.equal((await send(first.url, 'DELETE', path)).status, 204)
  }
  await first.stop('SIGKILL')
  const second = await startProgram(t, { directory })
  assert.deepEqual(await read(second.url, '/api/things'), [])
  assert.equal(await posted(second.url, 'things'), 7)
  assert.equal(await posted(second.url, 'others'), 1)
  assert.equal((await send(second.url, 'DELETE', '/api/things/7')).status, 204)
  await second.stop()
  const third = await startProgram(t, { directory })
  assert.equal(await posted(third.url, 'things'), 8)
})

test('unusual names and ids survive a restart', async (t) => {
  const directory = await temporaryDirectory(t)
  const flags = ['--Api.UpsertOnPut', 'true']
  const first = await startServer(t, { directory, data: {}, flags })
  const paths = ['/api/__proto__/__proto__', '/api/%2E%2E/%2E', '/api/%0D%0A/%00', `/api/high/${HIGHEST}`]
  for (const path of paths) assert.equal((await sendJson(first.url, 'PUT', path, { path })).status, 201)
  assert.equal(await posted(first.url, 'high'), HIGHEST + 1)
  assert.equal(await first.stop(), 0)
  const second = await startServer(t, { directory, flags })
  for (const path of paths) assert.equal(((await read(second.url, path)) as { path: string }).path, path)
  assert.equal(await posted(second.url, 'high'), HIGHEST + 2)
  assert.equal((await send(second.url, 'POST', '/admin/reload')).status, 200)
})

const FLAGS = ['--DataStore.IdField', 'key', '--Common.EagerDataReload', 'true', '--Api.UpsertOnPut', 'true']
const DATA = {
  users: [
    { key: 1, name: 'Ann', id: 'a', friends: [{ key: 7, name: 'Bob' }] },
    { name: 'no key', id: 'a' },
    { key: 'x', name: 'Cid' },
  ],
}

const start = (t: Parameters<typeof startHere>[0]) => startHere(t, { flags: FLAGS, data: DATA })

test('items have their ids in the configured field, and `id` is an ordinary field', async (t) => {
  const { url } = await start(t)
  const get = async (path: string) => (await send(url, 'GET', path)).json<Record<string, unknown>>()
  assert.deepEqual((await get('/api/users/2')).name, 'no key')
  const made = await sendJson(url, 'POST', '/api/users', { name: 'Dan', key: 99, id: 'own' })
  assert.deepEqual([made.json(), made.headers.location], [{ key: 3 }, '/api/users/3'])
  assert.deepEqual(await get('/api/users/3'), { name: 'Dan', key: 3, id: 'own' })
  assert.deepEqual((await sendJson(url, 'PUT', '/api/users/9', { name: 'Eve' })).json(), { key: '9' })
  assert.deepEqual(await get('/api/users/9'), { key: '9', name: 'Eve' })
  assert.equal((await sendJson(url, 'PUT', '/api/users/9', { key: 8 })).status, 409)
  assert.equal((await sendJson(url, 'PATCH', '/api/users/9', { key: null })).status, 409)
  assert.equal((await sendJson(url, 'PATCH', '/api/users/9', { id: 5 })).status, 204)
  assert.deepEqual(await get('/api/users/1/friends/7/name'), 'Bob')
  assert.equal((await sendJson(url, 'PUT', '/api/users/1/friends/7/name', 'Bo')).status, 204)
  assert.deepEqual(await get('/api/users?key=9&fields=key,id'), [{ key: '9', id: 5 }])
  const { ids } = (await sendJson(url, 'POST', '/api/users', [{}, { key: 4 }])).json<{ ids: number[] }>()
  assert.deepEqual(ids, [10, 11])
  const event = (await get('/events?order=desc&limit=1')) as unknown as { id: number; item: object }[]
  assert.deepEqual([event[0]?.id, event[0]?.item], [11, { key: 11 }])
  const document = await send(url, 'GET', '/openapi.json')
  const { schemas } = document.json<{ components: { schemas: Record<string, { required?: string[] }> } }>().components
  assert.deepEqual(schemas.Created?.required, ['key'])
  assert.deepEqual((await get('/health')).idField, 'key')
})

test('the data file uses the configured id field when it is read, written and edited, and in error messages', async (t) => {
  const { url, file } = await start(t)
  await until('the file is written', async () => /"key": ?2/.test(await readFile(file, 'utf8')))
  await writeFile(file, JSON.stringify({ users: [{ key: 'x', name: 'Cy' }, { name: 'New' }] }))
  const names = async () => (await send(url, 'GET', '/api/users?fields=key,name')).json()
  await until('the edit is merged', async () => JSON.stringify(await names()).includes('New'))
  assert.deepEqual(await names(), [
    { key: 'x', name: 'Cy' },
    { key: 3, name: 'New' },
  ])
  const wrong = await sendJson(url, 'POST', '/api', { users: [{ key: 1 }, { key: 1 }, { key: [] }] })
  assert.deepEqual(
    wrong.json<{ errors: { pointer: string }[] }>().errors.map(({ pointer }) => pointer),
    ['/users/1/key', '/users/2/key'],
  )
})

test('an item of a client whose id an editor removes stays that item', async (t) => {
  for (const idField of ['id', 'key']) {
    const first = { [idField]: 1, name: 'Ann', age: 30 }
    const added = { name: 'New', age: 1, town: 'Oulu' }
    const flags = ['--DataStore.IdField', idField]
    const { url, file } = await startHere(t, { data: { users: [first] }, flags })
    assert.equal((await sendJson(url, 'POST', '/api/users', added)).status, 201)
    assert.equal((await send(url, 'POST', '/admin/snapshot')).status, 200)
    await writeFile(file, JSON.stringify({ users: [{ ...first, name: 'Anna' }, added] }))
    assert.equal((await send(url, 'POST', '/admin/reload')).status, 200)
    const expected = [
      { ...first, name: 'Anna' },
      { [idField]: 2, ...added },
    ]
    assert.deepEqual((await send(url, 'GET', '/api/users')).json(), expected)
  }
})

test('the client learns the id field, and keeps live lists by it', async (t) => {
  const { url } = await start(t)
  const client = connect(url, { idField: 'key' })
  t.after(() => client.close())
  const users = client.collection<{ key: number | string; name: string }>('users')
  const list = users.live()
  await within('the items of a live list', list.ready)
  const { id } = await within('the new user', users.create({ name: 'Fay' } as never))
  assert.equal(id, 3)
  await until('the list has it', () => list.items.some(({ key, name }) => key === 3 && name === 'Fay'))
  await within('the response to a deletion', users.item(3).delete())
  await until('it has left', () => list.items.length === 3)
})

test('a journal with another id field fails the start, and names the field', async (t) => {
  const directory = await temporaryDirectory(t)
  const ends: (() => Promise<unknown>)[] = []
  await startHere({ after: (end) => void ends.push(end) }, { directory, flags: FLAGS, data: DATA })
  for (const end of ends) await end()
  await assert.rejects(
    startHere(t, { directory, flags: [] }),
    /another DataStore\.IdField than "id": the item 1 of "users" .* It seems to be "key"\./,
  )
})
