import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { temporaryDirectory } from '../support/directory.ts'
import { headOf, type Reply, send, sendBytes, sendJson } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

const FLAGS = ['--Api.UpsertOnPut', 'true']
const directory = await temporaryDirectory({ after })
const ends: (() => Promise<unknown>)[] = []
after(() => Promise.all(ends.map((end) => end())))
/** A server that a test starts again serves the tests after it, too. */
const scope = { after: (end: () => Promise<unknown>) => void ends.push(end) }
let server = await startProgram(scope, { directory, data: { things: [{ id: 1, n: 0 }] }, flags: FLAGS })

/** The part of a response that a retry gets again. */
function answerOf({ status, headers, text }: Reply): object {
  const {
    location,
    etag,
    'journal-position': position,
    'content-type': type,
    'preference-applied': preference,
  } = headers
  return { status, text, location, etag, position, type, preference }
}

interface Write {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
  readonly status: number
}

const WRITES: readonly Write[] = [
  { name: 'POST', method: 'POST', path: '/api/things', body: { n: 1 }, status: 201 },
  { name: 'POST that creates a collection', method: 'POST', path: '/api/first', body: { n: 1 }, status: 201 },
  {
    name: 'POST that asks for the item',
    method: 'POST',
    path: '/api/things',
    body: { n: 2 },
    headers: { Prefer: 'return=representation' },
    status: 201,
  },
  { name: 'PUT', method: 'PUT', path: '/api/things/1', body: { n: 3 }, status: 204 },
  { name: 'PUT that creates a collection', method: 'PUT', path: '/api/second/7', body: { n: 4 }, status: 201 },
  {
    name: 'PUT that asks for the item',
    method: 'PUT',
    path: '/api/things/1',
    body: { n: 5 },
    headers: { Prefer: 'return=representation' },
    status: 200,
  },
  { name: 'merge patch', method: 'PATCH', path: '/api/things/1', body: { m: 6 }, status: 204 },
  {
    name: 'JSON Patch',
    method: 'PATCH',
    path: '/api/things/1',
    body: [{ op: 'add', path: '/list', value: [1] }],
    headers: { 'Content-Type': 'application/json-patch+json' },
    status: 204,
  },
  { name: 'DELETE', method: 'DELETE', path: '/api/second/7', status: 204 },
]

function perform({ method, path, body, headers }: Write, key: string, to: RunningProgram = server): Promise<Reply> {
  const sent = { ...headers, 'Idempotency-Key': key }
  return body === undefined ? send(to.url, method, path, { headers: sent }) : sendJson(to.url, method, path, body, sent)
}

test('a retry with the idempotency key gets the first response and appends nothing, even after a kill and a restart', async (t) => {
  const first: { write: Write; key: string; answer: object }[] = []
  for (const write of WRITES) {
    const key = randomUUID()
    const reply = await perform(write, key)
    assert.equal(reply.status, write.status, write.name)
    first.push({ write, key, answer: answerOf(reply) })
  }
  const position = await headOf(server.url)
  const retryAll = async (): Promise<void> => {
    for (const { write, key, answer } of first) {
      assert.deepEqual(answerOf(await perform(write, key)), answer, write.name)
    }
    assert.equal(await headOf(server.url), position)
  }
  await t.test('directly after the first request', retryAll)
  await server.stop('SIGKILL')
  server = await startProgram(scope, { directory, flags: FLAGS })
  await t.test('after a kill and a restart', retryAll)
  assert.equal(await server.stop(), 0)
  server = await startProgram(scope, { directory, flags: FLAGS })
  await t.test('after an orderly stop and a restart', retryAll)
})

test('a hundred concurrent POSTs with one key create one item and get one response', async () => {
  const before = await headOf(server.url)
  const write: Write = { name: '', method: 'POST', path: '/api/storm', body: { n: 1 }, status: 201 }
  const replies = await Promise.all(Array.from({ length: 100 }, () => perform(write, 'one key for all')))
  for (const reply of replies) assert.deepEqual(answerOf(reply), answerOf(replies[0] as Reply))
  assert.equal(replies[0]?.status, 201)
  assert.equal((await send(server.url, 'GET', '/api/storm')).json<unknown[]>().length, 1)
  assert.equal(await headOf(server.url), before + 2)
})

test('a retry gets the first response even when the item has changed', async () => {
  const write: Write = { name: '', method: 'POST', path: '/api/going', body: { n: 1 }, status: 201 }
  const first = await perform(write, 'going')
  const path = String(first.headers.location)
  await sendJson(server.url, 'PUT', path, { n: 2 })
  assert.deepEqual(answerOf(await perform(write, 'going')), answerOf(first))
  await send(server.url, 'DELETE', path)
  assert.deepEqual(answerOf(await perform(write, 'going')), answerOf(first))
  assert.equal((await send(server.url, 'GET', path)).status, 404)
})

test('the same key with another request gets 422 and stores nothing', async () => {
  const write: Write = { name: '', method: 'POST', path: '/api/other', body: { n: 1 }, status: 201 }
  const [first, racing] = await Promise.all([perform(write, 'used'), perform({ ...write, body: { n: 2 } }, 'used')])
  assert.deepEqual([first?.status, racing?.status].sort(), [201, 422])
  const won = first?.status === 201 ? write : { ...write, body: { n: 2 } }
  const before = await headOf(server.url)
  for (const other of [
    { ...won, body: { n: 3 } },
    { ...won, path: '/api/others' },
    { ...won, method: 'PUT', path: '/api/other/0' },
    { ...won, headers: { 'Content-Type': 'application/json; charset=utf-8' } },
    { ...won, headers: { Prefer: 'return=representation' } },
    { name: '', method: 'DELETE', path: '/api/other/0', status: 422 },
  ]) {
    const reply = await perform(other, 'used')
    assert.equal(reply.status, 422, `${other.method} ${other.path}`)
    assert.equal(reply.headers['content-type'], 'application/problem+json')
  }
  assert.equal((await perform(won, 'used')).status, 201)
  assert.equal(await headOf(server.url), before)
  assert.equal((await perform({ ...write, body: { n: 2 } }, 'used too')).status, 201)
})

test('a rejected write is not remembered: the same request may succeed later', async () => {
  const write: Write = { name: '', method: 'PATCH', path: '/api/late/1', body: { a: 1 }, status: 204 }
  assert.equal((await perform(write, 'late')).status, 404)
  assert.equal((await sendJson(server.url, 'PUT', '/api/late/1', {})).status, 201)
  const first = await perform(write, 'late')
  assert.equal(first.status, 204)
  assert.deepEqual(answerOf(await perform(write, 'late')), answerOf(first))
  const conditional: Write = { ...write, method: 'DELETE', headers: { 'If-Match': '"x"' } }
  delete (conditional as { body?: unknown }).body
  assert.equal((await perform(conditional, 'late too')).status, 412)
  assert.equal((await perform({ ...conditional, headers: {} }, 'late too')).status, 204)
})

test('a retry with If-Match gets the first response, although the ETag no longer matches', async () => {
  const created = await sendJson(server.url, 'POST', '/api/matched', { n: 0 })
  const write: Write = {
    name: '',
    method: 'PUT',
    path: String(created.headers.location),
    body: { n: 1 },
    headers: { 'If-Match': String(created.headers.etag) },
    status: 204,
  }
  const first = await perform(write, 'matched')
  assert.equal(first.status, 204)
  assert.deepEqual(answerOf(await perform(write, 'matched')), answerOf(first))
  assert.equal((await perform(write, 'matched anew')).status, 412)
})

test('a key is text of 1 to 255 bytes', async () => {
  const write: Write = { name: '', method: 'POST', path: '/api/keys', body: { n: 1 }, status: 201 }
  const keys = ['k', 'x'.repeat(255), '"quoted"', 'a b\tc', '__proto__', 'constructor', 'é\u00ff', '{}', 'a\\nb', 'a,b']
  const answers = new Map<string, object>()
  for (const key of keys) {
    const reply = await perform(write, key)
    assert.equal(reply.status, 201, key)
    answers.set(key, answerOf(reply))
  }
  const items = async (): Promise<number> => (await send(server.url, 'GET', '/api/keys')).json<unknown[]>().length
  assert.equal(await items(), keys.length)
  await server.stop('SIGKILL')
  server = await startProgram(scope, { directory, flags: FLAGS })
  for (const [key, answer] of answers) assert.deepEqual(answerOf(await perform(write, key)), answer, key)
  for (const key of ['', 'x'.repeat(256), 'é'.repeat(256)]) {
    assert.equal((await perform(write, key)).status, 400, `${key.length} characters`)
  }
  assert.equal(await items(), keys.length)
})

test('the length of a key is counted in UTF-8 bytes', async () => {
  const post = (key: string): Promise<string> =>
    sendBytes(
      server.url,
      `POST /api/utf8 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\nIdempotency-Key: ${key}\r\n\r\n{}`,
    )
  assert.match(await post('€'.repeat(85)), /^HTTP\/1\.1 201 /)
  assert.match(await post('€'.repeat(85)), /^HTTP\/1\.1 201 /)
  assert.match(await post('€'.repeat(86)), /^HTTP\/1\.1 400 /)
  assert.equal((await send(server.url, 'GET', '/api/utf8')).json<unknown[]>().length, 1)
})

test('a key on a read is ignored', async () => {
  for (let round = 0; round < 2; round++) {
    const { status } = await send(server.url, 'GET', '/api/things/1', { headers: { 'Idempotency-Key': 'used' } })
    assert.equal(status, 200)
  }
})
