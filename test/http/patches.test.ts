import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'

const { url, stderr } = await startProgram({ after }, { data: { things: [] } })

const OPERATIONS = { 'Content-Type': 'application/json-patch+json' }
const MERGE_TYPES = ['application/merge-patch+json', 'application/json+merge-patch', 'application/json']

async function created(body: object): Promise<string> {
  return String((await sendJson(url, 'POST', '/api/things', body)).headers.location)
}

async function read(path: string): Promise<Record<string, unknown>> {
  const { id: _, ...rest } = (await send(url, 'GET', path)).json<Record<string, unknown>>()
  return rest
}

/** Refused, and neither item nor journal changed. */
async function refused(path: string, status: number, patch: unknown, headers = OPERATIONS): Promise<Reply> {
  const before = await send(url, 'GET', path)
  const reply = await sendJson(url, 'PATCH', path, patch, headers)
  assert.equal(reply.status, status, `${JSON.stringify(patch).slice(0, 200)}: ${reply.text}`)
  const now = await send(url, 'GET', path)
  assert.equal(now.text, before.text)
  assert.equal(now.headers.etag, before.headers.etag)
  assert.equal(now.headers['journal-position'], before.headers['journal-position'])
  return reply
}

for (const type of MERGE_TYPES) {
  test(`a patch of the type ${type} is applied`, async () => {
    const path = await created({
      title: 'Goodbye!',
      author: { given: 'John', family: 'Doe' },
      tags: ['a', 'b'],
      n: null,
    })
    const patch = { title: 'Hello!', phone: '+01', author: { family: null }, tags: ['a'] }
    const reply = await sendJson(url, 'PATCH', path, patch, { 'Content-Type': type })
    assert.equal(reply.status, 204)
    const result = { title: 'Hello!', author: { given: 'John' }, tags: ['a'], n: null, phone: '+01' }
    assert.deepEqual(await read(path), result)
    assert.equal((await send(url, 'GET', path)).headers.etag, reply.headers.etag)
  })

  test(`an empty patch of the type ${type}, or one that is no object, gets 400`, async () => {
    const path = await created({ a: 1 })
    for (const patch of [{}, null, [], [{ op: 'remove', path: '/a' }], 'text', 7, true]) {
      await refused(path, 400, patch, { 'Content-Type': type })
    }
  })

  test(`a patch of the type ${type} that changes or removes the id gets 409`, async () => {
    const path = await created({ a: 1 })
    for (const id of [null, 'other', 12345, {}, []]) await refused(path, 409, { id, a: 2 }, { 'Content-Type': type })
  })
}

test('every operation of RFC 6902 is supported', async () => {
  const path = await created({ foo: ['bar', 'baz'], waldo: 'fred', o: { n: 1 }, '~1': 10 })
  const patch = [
    { op: 'test', path: '/foo/0', value: 'bar' },
    { op: 'test', path: '/~01', value: 10 },
    { op: 'add', path: '/foo/1', value: 'qux' },
    { op: 'add', path: '/foo/-', value: { deep: [1] } },
    { op: 'remove', path: '/foo/0' },
    { op: 'replace', path: 'waldo', value: null },
    { op: 'move', from: '/o/n', path: '/moved' },
    { op: 'copy', from: '/foo/2', path: '/copied' },
    { op: 'replace', path: '/copied/deep/0', value: 2 },
  ]
  assert.equal((await sendJson(url, 'PATCH', path, patch, OPERATIONS)).status, 204)
  assert.deepEqual(await read(path), {
    foo: ['qux', 'baz', { deep: [1] }],
    waldo: null,
    o: {},
    '~1': 10,
    moved: 1,
    copied: { deep: [2] },
  })
})

test('a malformed patch gets 400', async () => {
  const path = await created({ a: 1 })
  for (const patch of [
    [],
    {},
    null,
    'x',
    [null],
    [{ op: 'spam', path: '/a' }],
    [{ op: 'add', path: '/a' }],
    [{ op: 'remove' }],
    [{ op: 'remove', path: 1 }],
    [{ op: 'move', path: '/a' }],
    [{ op: 'remove', path: '/~2' }],
    [
      { op: 'replace', path: '/a', value: 2 },
      { op: 'replace', path: '/a' },
    ],
  ]) {
    await refused(path, 400, patch)
  }
})

test('all operations are applied or none, whichever fails', async () => {
  const path = await created({ a: 1, list: [1, 2], o: { n: 1 } })
  const fine = [
    { op: 'replace', path: '/a', value: 2 },
    { op: 'add', path: '/list/0', value: 0 },
    { op: 'remove', path: '/o/n' },
  ]
  for (const bad of [
    { op: 'remove', path: '/missing' },
    { op: 'replace', path: '/missing', value: 1 },
    { op: 'add', path: '/missing/x', value: 1 },
    { op: 'add', path: '/list/9', value: 1 },
    { op: 'move', from: '/missing', path: '/x' },
    { op: 'copy', from: '/missing', path: '/x' },
    { op: 'move', from: '/o', path: '/o/x' },
    { op: 'add', path: '/x'.repeat(300_000), value: 1 },
    { op: 'remove', path: '' },
    { op: 'replace', path: '', value: [] },
    { op: 'replace', path: '', value: null },
  ]) {
    await refused(path, 422, [...fine, bad])
    await refused(path, 422, [bad, ...fine])
  }
  await refused(path, 409, [...fine, { op: 'test', path: '/a', value: 1 }])
  await refused(path, 409, [{ op: 'test', path: '/a', value: '1' }, ...fine])
})

test('a patch that changes the id gets 409, one that keeps it succeeds', async () => {
  const path = await created({ a: 'text' })
  const { id } = (await send(url, 'GET', path)).json<{ id: number }>()
  for (const operation of [
    { op: 'replace', path: '/id', value: 'other' },
    { op: 'remove', path: '/id' },
    { op: 'move', from: '/id', path: '/was' },
    { op: 'move', from: '/a', path: '/id' },
    { op: 'replace', path: '', value: { a: 1 } },
    { op: 'add', path: '', value: { id: 'other' } },
  ]) {
    await refused(path, 409, [operation])
  }
  const whole = [{ op: 'replace', path: '', value: { id, b: 2 } }]
  assert.equal((await sendJson(url, 'PATCH', path, whole, OPERATIONS)).status, 204)
  assert.deepEqual(await read(path), { b: 2 })
  const there = [
    { op: 'replace', path: '/id', value: 'other' },
    { op: 'replace', path: '/id', value: String(id) },
  ]
  assert.equal((await sendJson(url, 'PATCH', path, there, OPERATIONS)).status, 204)
  assert.equal((await send(url, 'GET', path)).json<{ id: unknown }>().id, id)
})

test('a pointer to an inherited member gets 422', async () => {
  const path = await created({ a: 1, l: [1], o: {} })
  for (const pointer of [
    '/__proto__',
    '/__proto__/polluted',
    '/constructor/prototype/x',
    '/toString/call',
    '/hasOwnProperty/call',
    '/o/__proto__/polluted',
    '/l/__proto__/polluted',
    '/l/push/call',
    '__proto__/polluted',
  ]) {
    for (const operation of [
      { op: 'add', path: pointer, value: 1 },
      { op: 'replace', path: pointer, value: 1 },
      { op: 'remove', path: pointer },
      { op: 'copy', from: '/a', path: pointer },
      { op: 'move', from: '/a', path: pointer },
      { op: 'copy', from: pointer, path: '/b' },
    ]) {
      const reply = await refused(path, 422, [{ op: 'add', path: '/first', value: 1 }, operation])
      assert.equal(reply.json<{ errors: { pointer: string }[] }>().errors[0]?.pointer, '/1')
    }
  }
  assert.equal(
    (await sendJson(url, 'PATCH', path, [{ op: 'add', path: '/~1__proto__', value: 1 }], OPERATIONS)).status,
    204,
  )
  assert.deepEqual(await read(path), { a: 1, l: [1], o: {}, '/__proto__': 1 })
})

test('a JSON Patch changes own members named constructor and prototype, but no __proto__', async () => {
  const path = await created({ o: { constructor: { n: 1 }, prototype: 2 } })
  const patch = [
    { op: 'replace', path: '/o/constructor/n', value: 3 },
    { op: 'move', from: '/o/prototype', path: '/constructor' },
  ]
  assert.equal((await sendJson(url, 'PATCH', path, patch, OPERATIONS)).status, 204)
  assert.deepEqual(await read(path), { o: { constructor: { n: 3 } }, constructor: 2 })
  assert.equal((await sendJson(url, 'PATCH', path, { o: { constructor: { n: 4 } } })).status, 204)
  await refused(path, 422, [{ op: 'add', path: '/o/constructor/__proto__', value: 1 }])
  assert.deepEqual(await read(path), { o: { constructor: { n: 4 } }, constructor: 2 })
})

test('a patch that changes nothing gets 204, or the item, and is an event like any other', async () => {
  const path = await created({ a: 1, o: { n: 1 } })
  const patches: readonly (readonly [unknown, Record<string, string>])[] = [
    [{ a: 1 }, {}],
    [{ missing: null }, {}],
    [{ o: {} }, {}],
    [[{ op: 'test', path: '/a', value: 1 }], OPERATIONS],
    [[{ op: 'move', from: '/a', path: '/a' }], OPERATIONS],
  ]
  for (const [patch, headers] of patches) {
    const before = Number((await send(url, 'GET', path)).headers['journal-position'])
    const reply = await sendJson(url, 'PATCH', path, patch, headers)
    assert.deepEqual([reply.status, Number(reply.headers['journal-position'])], [204, before + 1])
    const preferred = await sendJson(url, 'PATCH', path, patch, { ...headers, Prefer: 'return=representation' })
    assert.deepEqual([preferred.status, preferred.text], [200, (await send(url, 'GET', path)).text])
  }
  assert.deepEqual(await read(path), { a: 1, o: { n: 1 } })
})

test('a result that is too large or too deep gets 422, however small the patch', async () => {
  const path = await created({ a: { text: 'x'.repeat(1000) }, d: {}, n: 1 })
  await refused(
    path,
    422,
    Array.from({ length: 40 }, (_, index) => ({ op: 'copy', from: '', path: `/c${index}` })),
  )
  let depth = 1
  const deeper = Array.from({ length: 14 }, () => {
    const operation = { op: 'copy', from: '/d', path: `${'/d'.repeat(depth)}/d` }
    depth *= 2
    return operation
  })
  await refused(path, 422, deeper)
  await refused(path, 422, deeper.slice(0, 7))
  assert.equal((await sendJson(url, 'PATCH', path, deeper.slice(0, 6), OPERATIONS)).status, 204)
  await refused(
    path,
    422,
    Array.from({ length: 1001 }, () => ({ op: 'test', path: '/n', value: 1 })),
  )
  const large = await created({ text: 'x'.repeat(600 * 1024) })
  await refused(large, 422, { more: 'x'.repeat(600 * 1024) }, { 'Content-Type': 'application/json' })
})

test('a value that looks like an array or a date is kept as it was sent', async () => {
  const path = await created({})
  for (const native of ['Array', 'Date']) {
    const value = { constructor: `function ${native}() { [native code] }`, length: 4e9, valueOf: 1 }
    const patch = [{ op: 'add', path: '/v', value }]
    assert.equal((await sendJson(url, 'PATCH', path, patch, OPERATIONS)).status, 204)
    assert.deepEqual(await read(path), { v: value })
  }
})

test('concurrent patches are applied one after the other', async () => {
  const path = await created({ list: [] })
  const replies = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      sendJson(url, 'PATCH', path, [{ op: 'add', path: '/list/-', value: n }], OPERATIONS),
    ),
  )
  assert.ok(replies.every(({ status }) => status === 204))
  const list = (await read(path)).list as number[]
  assert.deepEqual(
    list.toSorted((a, b) => a - b),
    Array.from({ length: 50 }, (_, n) => n),
  )
})

test('a member keeps its name, whatever names were seen before', async () => {
  for (const name of ['\\', '\\', '"', '\n']) {
    assert.equal((await sendJson(url, 'POST', '/api/names', { unusual: 0, [name]: 1 })).status, 201)
  }
  const [quote, newline] = ['/api/names/2', '/api/names/3']
  assert.equal((await sendJson(url, 'PATCH', quote, { '"': 2 })).status, 204)
  assert.equal((await sendJson(url, 'PATCH', newline, [{ op: 'add', path: '/\n', value: 3 }], OPERATIONS)).status, 204)
  assert.equal((await send(url, 'GET', quote)).text, '{"id":2,"unusual":0,"\\"":2}')
  assert.equal((await send(url, 'GET', newline)).text, '{"id":3,"unusual":0,"\\n":3}')
  const QUOTE = { id: 2, unusual: 0, '"': 2 }
  const NEWLINE = { id: 3, unusual: 0, '\n': 3 }
  // Asked again, an index answers.
  for (const query of ['%22=2', '%22=2', '%0A=3', '%0A=3', '%22=2&fields=id,unusual,%22', '%5C_gt=1', '%5C_gt=1']) {
    const found = query.startsWith('%5C') ? [] : [query.startsWith('%22') ? QUOTE : NEWLINE]
    assert.equal((await send(url, 'GET', `/api/names?${query}`)).text, JSON.stringify(found), query)
  }
})

test('the server logged no unexpected error', () => {
  assert.doesNotMatch(stderr(), /unexpectedly|a response failed/)
})
