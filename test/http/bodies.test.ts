import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { authentication, passwordOf } from '../support/authentication.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { send, sendBytes, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const directory = await temporaryDirectory({ after })
const schema = join(directory, 'people.schema.json')
await writeFile(
  schema,
  JSON.stringify({
    type: 'object',
    required: ['name'],
    properties: {
      name: { type: 'string', minLength: 2 },
      age: { type: 'integer', minimum: 0 },
      address: { type: 'object', properties: { 'a/b~c': { type: 'number' } } },
      mail: { type: 'string', format: 'email' },
      kind: { enum: [{ a: 1 }, 'b'] },
      tags: { type: 'array', uniqueItems: true },
    },
  }),
)
const draft7 = join(directory, 'draft7.json')
await writeFile(
  draft7,
  JSON.stringify({
    $schema: 'http://json-schema.org/draft-07/schema#',
    properties: { pair: { items: [{ type: 'number' }], additionalItems: false } },
  }),
)
const { url, stderr } = await startProgram(
  { after },
  {
    directory,
    data: { things: [{ id: 1, name: 'one' }], people: [{ id: 1, name: 'Bob' }], draft7: [] },
    flags: ['--Api.Schemas.people', schema, '--Api.Schemas.draft7', draft7],
  },
)

const JSON_TYPE = { 'Content-Type': 'application/json' }
const LIMIT = 1024 * 1024
/** Short bodies that become long, by coding. They are made before there is a connection, which would be idle for too long meanwhile. */
const LONG = JSON.stringify({ text: 'x'.repeat(50 * LIMIT) })
const INFLATABLE = { gzip: gzipSync(LONG), br: brotliCompressSync(LONG) }

async function statusOf(
  body: string | Uint8Array,
  headers: OutgoingHttpHeaders = JSON_TYPE,
  method = 'POST',
  path = '/api/things',
): Promise<number> {
  return (await send(url, method, path, { headers, body })).status
}

/** Refused by POST, PUT and PATCH alike, and nothing is stored. */
async function refusedEverywhere(
  status: number,
  body: string | Uint8Array,
  headers?: OutgoingHttpHeaders,
): Promise<void> {
  const before = (await send(url, 'GET', '/events/1')).headers['journal-position']
  const head = (await send(url, 'GET', '/api')).headers['journal-position']
  for (const [method, path] of [
    ['POST', '/api/things'],
    ['PUT', '/api/things/1'],
    ['PATCH', '/api/things/1'],
  ] as const) {
    assert.equal(await statusOf(body, headers, method, path), status, `${method} ${String(body).slice(0, 80)}`)
  }
  assert.equal((await send(url, 'GET', '/api')).headers['journal-position'], head)
  assert.equal((await send(url, 'GET', '/events/1')).headers['journal-position'], before)
}

test('an empty body gets 400, whatever its type', async () => {
  for (const headers of [{}, JSON_TYPE, { 'Content-Type': 'text/plain' }]) {
    await refusedEverywhere(400, '', { ...headers, 'Content-Length': 0 })
  }
  await refusedEverywhere(400, '', { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' })
  await refusedEverywhere(400, gzipSync(''), { ...JSON_TYPE, 'Content-Encoding': 'gzip' })
  await refusedEverywhere(400, '  \n')
})

test('null and malformed JSON get 400', async () => {
  for (const body of ['null', '{', '{"a":1,}', "{'a':1}", '{} {}', 'undefined', '{"a":NaN}', '[1', '"', '{"a":01}']) {
    await refusedEverywhere(400, body)
  }
})

test('invalid UTF-8 gets 400', async () => {
  await refusedEverywhere(400, Buffer.from('{"a":"\xff"}', 'latin1'))
  await refusedEverywhere(400, Buffer.from('{"a":"é"}', 'latin1'))
  await refusedEverywhere(400, Buffer.from('7b2261223a22eda080227d', 'hex'))
  await refusedEverywhere(400, Buffer.from('{"a":1}', 'utf16le'))
})

test('text is stored as it was sent, as UTF-8 and with escapes', async () => {
  const body = '{"text":"€ \u{1F600} é e\u0301 \\u20ac \\ud83d\\ude00 \\u0000 \\ud800 \\/"}'
  const { headers } = await send(url, 'POST', '/api/things', { headers: JSON_TYPE, body })
  const { text } = (await send(url, 'GET', headers.location ?? '')).json<{ text: string }>()
  assert.equal(text, JSON.parse(body).text)
})

test('a byte order mark is ignored', async () => {
  assert.equal(await statusOf('\ufeff{"a":1}'), 201)
})

test('a member __proto__ gets 400, at any depth', async () => {
  await refusedEverywhere(400, '{"__proto__":{"polluted":1}}')
  await refusedEverywhere(400, '{"a":[{"__proto__":null}]}')
  await refusedEverywhere(400, '{"\\u005f\\u005fproto__":1}')
  assert.equal(await statusOf('{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2}'), 201)
})

test('JSON may be nested a hundred deep, beyond that it gets 400', async () => {
  const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`
  assert.equal(await statusOf(nested(100)), 201)
  await refusedEverywhere(400, nested(101))
  await refusedEverywhere(400, `{"a":${'['.repeat(100)}${']'.repeat(100)}}`)
  await refusedEverywhere(400, `{"a":${'['.repeat(400_000)}${']'.repeat(400_000)}}`)
})

test('a number that overflows or underflows gets 400, an integer beyond 2^53 gets 422', async () => {
  await refusedEverywhere(400, '{"n":1e999}')
  await refusedEverywhere(400, '{"n":[-1e999]}')
  await refusedEverywhere(422, '{"n":9007199254740993}')
  await refusedEverywhere(422, '{"n":-9007199254740993}')
  await refusedEverywhere(422, '{"n":1e16}')
  await refusedEverywhere(422, '{"n":1.5e300}')
  await refusedEverywhere(400, '{"n":[-1e-400]}')
  await refusedEverywhere(422, `{"n":1${'0'.repeat(25)}}`)
  const { headers } = await send(url, 'POST', '/api/things', {
    headers: JSON_TYPE,
    body: '{"n":[9007199254740992,-9007199254740992,1e-300,5e-324,0.1,-0.0]}',
  })
  const { text } = await send(url, 'GET', headers.location ?? '')
  assert.match(text, /"n":\[9007199254740992,-9007199254740992,1e-300,5e-324,0\.1,0\]/)
})

test('JSON that is no object gets 422 as an item, and 400 as a merge patch', async () => {
  for (const body of ['[]', '"text"', '7', 'true', '[{}]']) {
    // A list is a batch.
    if (!body.startsWith('[')) assert.equal(await statusOf(body), 422, body)
    assert.equal(await statusOf(body, JSON_TYPE, 'PUT', '/api/things/1'), 422, body)
    assert.equal(await statusOf(body, JSON_TYPE, 'PATCH', '/api/things/1'), 400, body)
  }
})

test('a missing or unsupported content type gets 415', async () => {
  for (const type of [
    'text/plain',
    'text/json',
    'application/xml',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'application/vnd.api+json',
    'application',
    'application/',
    '*/*',
    ';',
    'json',
  ]) {
    await refusedEverywhere(415, '{"a":1}', { 'Content-Type': type })
  }
  await refusedEverywhere(415, '{"a":1}', {})
  for (const type of ['application/merge-patch+json', 'application/json+merge-patch', 'application/json-patch+json']) {
    assert.equal(await statusOf('{"a":1}', { 'Content-Type': type }), 415, type)
    assert.equal(await statusOf('{"a":1}', { 'Content-Type': type }, 'PUT', '/api/things/1'), 415, type)
  }
})

test('a charset other than UTF-8 gets 415', async () => {
  for (const charset of ['iso-8859-1', 'utf-16', 'UTF-16LE', '"latin1"', 'ascii', '']) {
    await refusedEverywhere(415, '{"a":1}', { 'Content-Type': `application/json; charset=${charset}` })
  }
})

test('content types are compared without regard to case, spaces and parameters', async () => {
  for (const type of [
    'application/json',
    'APPLICATION/JSON',
    'Application/Json;Charset=UTF-8',
    'application/json ; charset="utf-8"',
    'application/json;charset=utf8',
    'application/json; profile="https://example.org/a"; charset=utf-8',
    'application/json; charset=utf-8; version=1',
    'application/json;',
    'application/json; charset=utf-8;',
    'application/json; a',
    'application/json;odata=verbose',
    'application/json; a="b;charset=latin1"; charset="UTF-8"',
    'application/json; a="\\";charset=latin1"',
    'application/json; a="charset',
  ]) {
    assert.equal(await statusOf('{"a":1}', { 'Content-Type': type }), 201, type)
  }
})

test('content types of patches and logins have parameters, too', async (t) => {
  for (const type of ['application/merge-patch+json; charset=utf-8', 'Application/Merge-Patch+JSON; a="b;c"']) {
    assert.equal(await statusOf('{"a":2}', { 'Content-Type': type }, 'PATCH', '/api/things/1'), 204, type)
  }
  const operations = '[{"op":"test","path":"/a","value":2}]'
  const type = 'application/json-patch+json; charset="UTF-8"'
  assert.equal(await statusOf(operations, { 'Content-Type': type }, 'PATCH', '/api/things/1'), 204)
  const guarded = await startServer(t, { flags: authentication(['token']) })
  const [username, password] = ['reader', passwordOf('reader')]
  const [object, form] = [JSON.stringify({ username, password }), String(new URLSearchParams({ username, password }))]
  for (const [type, body] of [
    ['Application/JSON; charset="UTF-8"', object],
    ['application/json;a="b;c"', object],
    ['application/x-www-form-urlencoded; charset=utf-8', form],
  ] as const) {
    const reply = await send(guarded.url, 'POST', '/token', { headers: { 'Content-Type': type }, body })
    assert.equal(reply.status, 200, type)
  }
})

test('a body may be compressed', async () => {
  const body = '{"a":"€"}'
  for (const [encoding, bytes] of [
    ['gzip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['br', brotliCompressSync(body)],
    ['identity', Buffer.from(body)],
  ] as const) {
    const sent = { headers: { ...JSON_TYPE, 'Content-Encoding': encoding }, body: bytes }
    const { status, headers } = await send(url, 'POST', '/api/things', sent)
    assert.equal(status, 201, encoding)
    assert.equal((await send(url, 'GET', headers.location ?? '')).json<{ a: string }>().a, '€')
  }
})

test('a damaged compressed body gets 400', async () => {
  const body = JSON.stringify({ text: 'some text that is long enough to be compressed, compressed, compressed' })
  for (const [encoding, bytes] of [
    ['gzip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['br', brotliCompressSync(body)],
  ] as const) {
    const headers = { ...JSON_TYPE, 'Content-Encoding': encoding }
    await refusedEverywhere(400, Buffer.from(body), headers)
    await refusedEverywhere(400, bytes.subarray(0, bytes.length - 5), headers)
    await refusedEverywhere(400, bytes.subarray(0, 1), headers)
    const flipped = Buffer.from(bytes)
    for (let index = 2; index < flipped.length; index += 3) flipped[index] = (flipped[index] ?? 0) ^ 0xff
    await refusedEverywhere(400, flipped, headers)
  }
})

test('an unknown content coding gets 415', async () => {
  for (const encoding of ['zstd', 'compress', 'gzip, gzip', 'x', '__proto__']) {
    await refusedEverywhere(415, '{"a":1}', { ...JSON_TYPE, 'Content-Encoding': encoding })
  }
})

test('a body over the limit gets 413, even when only its inflated size is over it', async () => {
  const large = JSON.stringify({ text: 'x'.repeat(LIMIT) })
  await refusedEverywhere(413, large)
  await refusedEverywhere(413, large, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' })
  for (const [coding, bytes] of Object.entries(INFLATABLE)) {
    assert.ok(bytes.length < LIMIT)
    await refusedEverywhere(413, bytes, { ...JSON_TYPE, 'Content-Encoding': coding })
  }
  const overhead = '{"id":1,"text":""}'.length
  assert.equal(
    await statusOf(`{"id":1,"text":"${'x'.repeat(LIMIT - overhead)}"}`, JSON_TYPE, 'PUT', '/api/things/1'),
    204,
  )
  await refusedEverywhere(413, `{"id":1,"text":"${'x'.repeat(LIMIT - overhead + 1)}"}`)
})

test('a body of exactly the limit is accepted, even when the id makes the item longer', async () => {
  const empty = JSON.stringify({ text: '' })
  const full = JSON.stringify({ text: 'x'.repeat(LIMIT - empty.length) })
  const created = await send(url, 'POST', '/api/full', { headers: JSON_TYPE, body: full })
  assert.equal(created.status, 201, created.text)
  assert.equal(await statusOf(full, JSON_TYPE, 'PUT', '/api/full/0'), 204)
  assert.equal(await statusOf(JSON.stringify({ text: '' }), JSON_TYPE, 'PUT', '/api/full/0'), 204)
  const merge = { 'Content-Type': 'application/merge-patch+json' }
  assert.equal(await statusOf(full, merge, 'PATCH', '/api/full/0'), 204)
  const more = await send(url, 'PATCH', '/api/full/0', { headers: merge, body: '{"more":1}' })
  assert.equal(more.status, 422)
  assert.match(more.text, /without its id; 1048576 are accepted/)
})

test('a Content-Length over the limit gets 413 before the body is sent', async () => {
  const head =
    'PUT /api/things/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n'
  assert.match(await sendBytes(url, `${head}Content-Length: ${LIMIT + 1}\r\n\r\n`), /^HTTP\/1\.1 413 /)
  assert.match(await sendBytes(url, `${head}Content-Length: 3000000000\r\n\r\n`), /^HTTP\/1\.1 413 /)
})

test('an item that violates its schema gets 422 with each place, for every kind of write', async () => {
  interface Problem {
    readonly errors: readonly { readonly pointer: string; readonly message: string }[]
  }
  const bad = { name: 'B', age: -1.5, address: { 'a/b~c': 'x' }, mail: 'nobody' }
  const pointers = ['/address/a~1b~0c', '/age', '/age', '/mail', '/name']
  for (const [method, path, body] of [
    ['POST', '/api/people', bad],
    ['PUT', '/api/people/1', bad],
    ['PATCH', '/api/people/1', bad],
  ] as const) {
    const reply = await sendJson(url, method, path, body)
    assert.equal(reply.status, 422, method)
    assert.deepEqual(
      reply
        .json<Problem>()
        .errors.map(({ pointer }) => pointer)
        .sort(),
      pointers,
    )
  }
  const missing = await sendJson(url, 'PUT', '/api/people/1', {})
  assert.equal(missing.status, 422)
  assert.equal(missing.json<Problem>().errors[0]?.pointer, '')
  const patch = [{ op: 'remove', path: '/name' }]
  const headers = { 'Content-Type': 'application/json-patch+json' }
  assert.equal((await sendJson(url, 'PATCH', '/api/people/1', patch, headers)).status, 422)
  assert.deepEqual((await send(url, 'GET', '/api/people')).json(), [{ id: 1, name: 'Bob' }])
  assert.equal((await sendJson(url, 'PATCH', '/api/people/1', { age: 7, kind: { a: 1 } })).status, 204)
  assert.equal((await sendJson(url, 'POST', '/api/people', { name: 'Al', more: true })).status, 201)
})

test('a draft-07 schema is supported', async () => {
  assert.equal((await sendJson(url, 'POST', '/api/draft7', { pair: [1] })).status, 201)
  assert.equal((await sendJson(url, 'POST', '/api/draft7', { pair: [1, 2] })).status, 422)
})

test('names of built-in methods in a value neither bypass nor break a schema', async () => {
  for (const hostile of [{ valueOf: 1 }, { toString: 1 }, { constructor: 1 }, { hasOwnProperty: 1, valueOf: {} }]) {
    assert.equal((await sendJson(url, 'POST', '/api/people', { name: 'Eve', kind: hostile })).status, 422)
    const { status } = await sendJson(url, 'POST', '/api/people', { name: 'Eve', tags: [hostile, hostile] })
    assert.equal(status, 422)
  }
})

test('a body in chunks of a byte each does not use up the memory', async (t) => {
  const small = await startProgram(t, { data: { spaced: [] }, env: { NODE_OPTIONS: '--max-old-space-size=96' } })
  const head = 'POST /api/spaced HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n'
  const body = `1\r\n[\r\n${'1\r\n \r\n'.repeat(1_500_000)}3\r\n{}]\r\n0\r\n\r\n`
  assert.match(await sendBytes(small.url, `${head}Transfer-Encoding: chunked\r\n\r\n${body}`), /^HTTP\/1\.1 20/)
  assert.equal((await send(small.url, 'GET', '/api/spaced')).json<unknown[]>().length, 1)
})

test('the server logged no unexpected error', () => {
  assert.doesNotMatch(stderr(), /unexpectedly|a response failed/)
})
