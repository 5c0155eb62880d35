import assert from 'node:assert/strict'
import { mkdir, stat, utimes, writeFile } from 'node:fs/promises'
import type { OutgoingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { authentication, basic, passwordOf } from '../support/authentication.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openClosing } from '../support/raw.ts'
import { KOA_LINE, send, THROUGH_KOA } from '../support/requests.ts'
import { startServer } from '../support/service.ts'

const directory = await temporaryDirectory({ after })
await mkdir(join(directory, 'wwwroot/pages'), { recursive: true })
await writeFile(join(directory, 'wwwroot/index.html'), '<h1>home</h1>')
await writeFile(join(directory, 'wwwroot/pages/index.html'), '<h1>pages</h1>')
await writeFile(join(directory, 'wwwroot/é.txt'), 'accent')
await writeFile(join(directory, 'wwwroot/.hidden'), 'secret')
const { url } = await startServer({ after }, { directory, data: { things: [{ id: 1 }], é: [{ id: 'ü', n: 'ä' }] } })

const JSON_TYPE = { 'Content-Type': 'application/json' }
const WAYS = [{}, THROUGH_KOA]

/** Sends lines as they are, in UTF-8, and gives the response. */
async function sendLines(t: Parameters<typeof openClosing>[0], lines: readonly string[]) {
  const connection = await openClosing(t, url)
  connection.socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  const response = await connection.next()
  assert.ok(response, lines.join(' | '))
  return { ...response, connection }
}

test('/health with a slash at its end shows the access of the client, too', async () => {
  const accessAt = async (path: string) => (await send(url, 'GET', path)).json<{ access: object }>().access
  assert.deepEqual(await accessAt('/health/'), await accessAt('/health'))
})

test('names of content codings are case-insensitive, and x-gzip is gzip', async () => {
  const body = '{"a":"€"}'
  for (const [coding, bytes] of [
    ['GZIP', gzipSync(body)],
    ['x-gzip', gzipSync(body)],
    ['X-GZip', gzipSync(body)],
    ['Deflate', deflateSync(body)],
    ['BR', brotliCompressSync(body)],
    ['Identity', Buffer.from(body)],
  ] as const) {
    const headers = { ...JSON_TYPE, 'Content-Encoding': coding }
    assert.equal((await send(url, 'POST', '/api/coded', { headers, body: bytes })).status, 201, coding)
  }
})

test('names of content codings are case-insensitive at /token, too', async (t) => {
  const guarded = await startServer(t, { flags: authentication(['token', 'basic']) })
  const body = gzipSync(JSON.stringify({ username: 'admin', password: passwordOf('admin') }))
  for (const coding of ['GZIP', 'x-gzip']) {
    const headers = { ...JSON_TYPE, 'Content-Encoding': coding }
    assert.equal((await send(guarded.url, 'POST', '/token', { headers, body })).status, 200, coding)
  }
  const headers = { ...JSON_TYPE, 'Content-Encoding': 'compress', Authorization: basic('admin', passwordOf('admin')) }
  assert.equal((await send(guarded.url, 'POST', '/token', { headers, body })).status, 415)
  const asText = await send(guarded.url, 'POST', '/token', { headers: { 'Content-Type': 'text/plain' }, body: 'a' })
  assert.equal(asText.headers.accept, 'application/json, application/x-www-form-urlencoded, multipart/form-data')
})

test('415 lists the supported codings and content types', async () => {
  const refused = async (method: string, headers: OutgoingHttpHeaders) => {
    const path = method === 'POST' ? '/api/things' : '/api/things/1'
    const reply = await send(url, method, path, { headers, body: '{"a":1}' })
    assert.equal(reply.status, 415)
    return reply.headers
  }
  for (const way of WAYS) {
    for (const coding of ['compress', 'x-compress', 'zstd', 'gzip, gzip']) {
      const headers = await refused('POST', { ...JSON_TYPE, ...way, 'Content-Encoding': coding })
      assert.equal(headers['accept-encoding'], 'gzip, deflate, br', coding)
    }
    for (const type of ['text/plain', 'application/xml']) {
      const sent = { ...way, 'Content-Type': type }
      assert.match(String((await refused('PATCH', sent))['accept-patch']), /application\/json-patch\+json/)
      assert.equal((await refused('POST', sent)).accept, 'application/json, application/x-ndjson, text/csv')
      assert.equal((await refused('PUT', sent)).accept, 'application/json')
    }
    const sent = { ...way, 'Content-Type': 'application/json; charset=latin1' }
    assert.match(String((await refused('PATCH', sent))['accept-patch']), /merge-patch/)
  }
})

test('an unsupported method of a static file gets 405 with the allowed ones', async () => {
  for (const path of ['/', '/index.html', '/pages', '/pages/', '/%C3%A9.txt']) {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
      const { status, headers } = await send(url, method, path)
      assert.equal(status, 405, `${method} ${path}`)
      assert.equal(headers.allow, 'GET, HEAD, OPTIONS')
    }
    const options = await send(url, 'OPTIONS', path)
    assert.equal(options.status, 200)
    assert.equal(options.headers.allow, 'GET, HEAD, OPTIONS')
  }
  for (const path of ['/nothing', '/.hidden', '/pages/nothing']) {
    for (const method of ['POST', 'OPTIONS']) assert.equal((await send(url, method, path)).status, 404, path)
  }
})

test('OPTIONS * gets a response for the server as a whole', async () => {
  const { status, headers } = await send(url, 'OPTIONS', '*')
  assert.equal(status, 200)
  assert.equal(headers.allow, 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS')
})

test('a request with two Host headers, with none, or of another HTTP version gets 400, and its connection is closed', async (t) => {
  for (const lines of [
    ['GET /api/things/1 HTTP/1.1', 'Host: localhost', 'Host: localhost'],
    ['GET /api/things/1 HTTP/1.1', 'Host: localhost', 'hOST: y'],
    ['GET /api/things/1 HTTP/1.0', 'Host: localhost', 'Host: localhost'],
    ['GET /api/things/1 HTTP/1.1', 'Accept: */*'],
    ['GET /api/things/1 HTTP/2.0', 'Host: localhost'],
    ['DELETE /api/things/1 HTTP/2.0', 'Host: localhost'],
    ['GET / HTTP/0.9', 'Host: localhost'],
    [
      'POST /api/things HTTP/1.1',
      'Host: localhost',
      'Host: localhost',
      'Content-Type: application/json',
      'Content-Length: 0',
    ],
  ]) {
    const { status, headers, body, connection } = await sendLines(t, lines)
    assert.equal(status, 400, lines.join(' | '))
    assert.equal(headers.connection, 'close')
    const problem = JSON.parse(body)
    assert.equal(problem.type, 'urn:recollect:problem:Malformed')
    assert.match(problem.detail, /Host|HTTP\/1\.1/)
    assert.equal(await connection.next(), undefined)
    assert.equal(connection.failure, undefined)
  }
  assert.equal((await sendLines(t, ['GET /api/things/1 HTTP/1.0'])).status, 200)
  assert.equal((await send(url, 'GET', '/api/things/1')).status, 200)
})

test('PUT with Content-Range gets 400 and writes nothing', async () => {
  for (const way of WAYS) {
    const headers = { ...JSON_TYPE, ...way, 'Content-Range': 'bytes 0-6/100' }
    const { status, text } = await send(url, 'PUT', '/api/things/1', { headers, body: '{"a":1}' })
    assert.equal(status, 400)
    assert.match(text, /Content-Range/)
  }
  assert.deepEqual((await send(url, 'GET', '/api/things/1')).json(), { id: 1 })
})

test('a write with If-Unmodified-Since is rejected, as items have no time of modification', async () => {
  const since = { 'If-Unmodified-Since': new Date(0).toUTCString() }
  for (const way of WAYS) {
    for (const [method, path] of [
      ['PUT', '/api/things/1'],
      ['PATCH', '/api/things/1'],
      ['DELETE', '/api/things/1'],
      ['POST', '/api/things'],
    ] as const) {
      const headers = { ...(method === 'DELETE' ? {} : JSON_TYPE), ...way, ...since }
      const sent = { headers, ...(method !== 'DELETE' && { body: '{"a":1}' }) }
      const { status, text } = await send(url, method, path, sent)
      assert.equal(status, 400, method)
      assert.match(text, /If-Match/)
    }
  }
  const { headers } = await send(url, 'GET', '/api/things/1', { headers: since })
  const matching = { ...JSON_TYPE, ...since, 'If-Match': headers.etag }
  // RFC 9110 §13.2.2: beside If-Match it does not count.
  assert.equal((await send(url, 'PUT', '/api/things/1', { headers: matching, body: '{}' })).status, 204)
})

test('an unchanged static file gets 304', async () => {
  for (const path of ['/', '/index.html', '/pages/', '/client/index.js']) {
    const { headers, text } = await send(url, 'GET', path)
    const { etag = '', 'last-modified': modified = '' } = headers
    assert.match(etag, /^W\/"[^"]+"$/)
    const later = new Date(Date.parse(modified) + 1000).toUTCString()
    const earlier = new Date(Date.parse(modified) - 1000).toUTCString()
    const cases: readonly (readonly [OutgoingHttpHeaders, number])[] = [
      [{ 'If-None-Match': etag }, 304],
      [{ 'If-None-Match': etag.slice(2) }, 304],
      [{ 'If-None-Match': `"x", ${etag}` }, 304],
      [{ 'If-None-Match': `${etag.slice(0, -1)}-gzip"` }, 304],
      [{ 'If-None-Match': `${etag.slice(0, -1)}0"` }, 200],
      [{ 'If-None-Match': '*' }, 304],
      [{ 'If-None-Match': etag, 'Cache-Control': 'no-cache' }, 304],
      [{ 'If-Modified-Since': modified }, 304],
      [{ 'If-Modified-Since': later }, 304],
      [{ 'If-None-Match': '"x"' }, 200],
      // If-None-Match counts and not the other.
      [{ 'If-None-Match': '"x"', 'If-Modified-Since': modified }, 200],
      [{ 'If-Modified-Since': earlier }, 200],
      [{ 'If-Modified-Since': 'never' }, 200],
    ]
    for (const [sent, status] of cases) {
      for (const method of ['GET', 'HEAD']) {
        const reply = await send(url, method, path, { headers: sent })
        assert.equal(reply.status, status, `${method} ${path} ${JSON.stringify(sent)}`)
        assert.equal(reply.headers.etag, etag)
        assert.equal(reply.text, status === 304 || method === 'HEAD' ? '' : text)
        if (status === 304) assert.equal(reply.headers['content-length'], undefined)
      }
    }
  }
  const file = join(directory, 'wwwroot/index.html')
  const { headers } = await send(url, 'GET', '/')
  const { mtime } = await stat(file)
  await writeFile(file, '<h1>HOME</h1>')
  await utimes(file, mtime, new Date(mtime.getTime() + 5))
  assert.equal((await send(url, 'GET', '/', { headers: { 'If-None-Match': headers.etag } })).status, 200)
})

test('unencoded UTF-8 in a request line is rejected with a hint', async (t) => {
  for (const line of [
    'GET /api/é/ü HTTP/1.1',
    'GET /api/things?n=ä HTTP/1.1',
    'POST /é HTTP/1.1',
    'GET http://x/é HTTP/1.1',
  ]) {
    for (const way of [[], [KOA_LINE]]) {
      const { status, headers, body } = await sendLines(t, [line, 'Host: localhost', ...way])
      assert.equal(status, 400)
      assert.equal(headers['content-type'], 'application/problem+json')
      assert.match(body, /Percent-encode them as UTF-8/)
      assert.ok(Buffer.byteLength(body, 'latin1') === Number(headers['content-length']))
    }
  }
  const { text } = await send(url, 'GET', '/api/%C3%A9?n=%C3%A4')
  assert.deepEqual(JSON.parse(text), [{ id: 'ü', n: 'ä' }])
})
