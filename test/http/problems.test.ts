import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { swaggerAsset } from '../support/pages.ts'
import { send, sendBytes, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'

const server = await startProgram({ after }, { data: { things: [{ id: 1, name: 'one' }] } })
const { url } = server

interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly errors?: readonly { readonly pointer: string; readonly message: string }[]
}

const JSON_PATCH = { 'Content-Type': 'application/json-patch+json' }

const REFUSED: readonly (readonly [number, string, string, unknown, Record<string, string>?])[] = [
  [400, 'POST', '/api/things', null],
  [400, 'GET', '/api/unknown/1', undefined],
  [400, 'GET', '/api/things/%zz', undefined],
  [404, 'GET', '/api/things/2', undefined],
  [404, 'GET', '/api/unknown', undefined],
  [404, 'GET', '/nothing/here', undefined],
  [405, 'PATCH', '/api/things', {}],
  [409, 'PUT', '/api/things/1', { id: 2 }],
  [409, 'PATCH', '/api/things/1', [{ op: 'test', path: '/name', value: 'two' }], JSON_PATCH],
  [412, 'DELETE', '/api/things/1', undefined, { 'If-Match': '"other"' }],
  [413, 'POST', '/api/things', { text: 'x'.repeat(1024 * 1024) }],
  [415, 'POST', '/api/things', {}, { 'Content-Type': 'text/plain' }],
  [422, 'POST', '/api/things', [7]],
  [422, 'POST', '/api/things', { n: 1e16 }],
  [422, 'PATCH', '/api/things/1', [{ op: 'remove', path: '/missing' }], JSON_PATCH],
]

for (const [status, method, path, body, headers] of REFUSED) {
  test(`${method} ${path} rejected with ${status} returns a problem document`, async () => {
    const answer =
      body === undefined
        ? await send(url, method, path, { headers: headers ?? {} })
        : await sendJson(url, method, path, body, headers)
    assert.equal(answer.status, status)
    assert.equal(answer.headers['content-type'], 'application/problem+json')
    const problem = answer.json<Problem>()
    assert.match(problem.type, /^urn:recollect:problem:[A-Z]\w+$/)
    assert.equal(problem.status, status)
    assert.equal(problem.instance, path)
    assert.ok(problem.title.length > 5)
    assert.match(problem.detail, /\S.*\.$|:/)
    if (status === 422) assert.ok(Array.isArray(problem.errors))
    for (const error of problem.errors ?? []) {
      assert.deepEqual(Object.keys(error).sort(), ['message', 'pointer'])
      assert.match(error.pointer, /^(\/.*)?$/)
    }
    if (path.startsWith('/api')) assert.match(String(answer.headers['journal-position']), /^\d+$/)
  })
}

test('a failed HEAD has the headers of GET and no body', async () => {
  const { status, headers, text } = await send(url, 'HEAD', '/api/things/2')
  assert.equal(status, 404)
  assert.equal(headers['content-type'], 'application/problem+json')
  assert.equal(text, '')
})

test('no request line gets 500', async () => {
  const targets = [
    '/api/things/%',
    '/api/things/%2',
    '/api/things/%zz',
    '/api/%ff%fe',
    '/api/things/%c0%af',
    '/api/things/%ed%a0%80',
    '/api/things/1/%e2%82',
    '/api/things/%00',
    '/api/things?%=1',
    '/api/things?a=%e2',
    '/api/things?%00=%00',
    '/api/things?__proto__=1&constructor.prototype=2&toString.call_gt=1',
    `/api/things?${'a&'.repeat(1001)}`,
    '/api/things#fragment',
    '/api/things?q=a#b',
    '/api/__proto__',
    '/api/__proto__/constructor',
    '/api/constructor/prototype/x',
    '/api/things/1/../../..',
    '/%zz',
    '/%00',
    '/..%2f..%2fetc/passwd',
    swaggerAsset('__proto__'),
    swaggerAsset('%2e%2e'),
    '/events/x',
    '/events/%zz',
    '/events/99999999999999999999',
    '//',
    '///api//things',
    '*',
    'api/things',
    'http://[::/api/things',
    'http://a:b:c/api/things',
    'http://a:99999/api/things',
    'http://%zz/api',
    'http:///api',
    'x:y',
    '/api/things/\u00ff\u00fe',
    '/api/things/a\u00a0b',
    '/api/things/a"b<c>d|e\\f^g`h{i}',
  ]
  for (const target of targets) {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'DELETE', 'POST', 'PROPFIND']) {
      const bytes = `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`
      const answer = await sendBytes(url, Buffer.from(bytes, 'latin1'))
      assert.match(answer, /^HTTP\/1\.1 [2-4]\d\d /, `${method} ${target}: ${answer.slice(0, 300)}`)
    }
  }
  assert.doesNotMatch(server.stderr(), /failed unexpectedly|a response failed/)
})

test('no header gets 500', async () => {
  const hostile = [
    '',
    ',',
    '"',
    'W/',
    '*, *',
    '"a',
    '\u00ff\u00fe',
    '()<>@,;:\\"/[]?={}',
    'x'.repeat(8000),
    '__proto__',
  ]
  const names = [
    'If-Match',
    'If-None-Match',
    'Prefer',
    'Content-Type',
    'Content-Encoding',
    'Accept',
    'Idempotency-Key',
    'X-Request-Id',
    'Origin',
    'Range',
    'Expect-CT',
    'Cookie',
    'If-Modified-Since',
    'X-Forwarded-For',
  ]
  for (const name of names) {
    for (const value of hostile) {
      for (const method of ['GET', 'PUT', 'PATCH']) {
        const sent = { 'Content-Type': 'application/json', [name]: value }
        const { status } = await send(url, method, '/api/things/1', {
          headers: sent,
          body: method === 'GET' ? '' : '{"a":1}',
        })
        assert.ok(status < 500, `${method} with ${name}: ${value.slice(0, 30)} is ${status}`)
      }
    }
  }
  assert.doesNotMatch(server.stderr(), /failed unexpectedly|a response failed/)
})

test('a client that disconnects in the middle of its body affects nobody', async () => {
  const answer = await sendBytes(
    url,
    'POST /api/things HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a":',
    { hangUp: true },
  )
  assert.doesNotMatch(answer, /^HTTP\/1\.1 [25]/)
  assert.equal((await send(url, 'GET', '/health')).status, 200)
  assert.doesNotMatch(server.stderr(), /failed unexpectedly/)
})

test('a valid request id of a client is returned, otherwise a new one', async () => {
  const plain = await send(url, 'GET', '/api', { headers: { 'X-Request-Id': 'abc-123' } })
  assert.equal(plain.headers['x-request-id'], 'abc-123')
  for (const sent of ['', 'a b', '"', 'x'.repeat(129), '\u00e4']) {
    const { headers } = await send(url, 'GET', '/api', { headers: { 'X-Request-Id': sent } })
    assert.match(String(headers['x-request-id']), /^[0-9a-f-]{36}$/)
  }
})
