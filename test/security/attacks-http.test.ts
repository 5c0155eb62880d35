import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, afterEach, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { once, until } from '../support/deadline.ts'
import { swaggerAsset } from '../support/pages.ts'
import { send, sendBytes, sendJson } from '../support/requests.ts'
import { runToEnd, startProgram } from '../support/server.ts'
import { assertSound } from './soundness.ts'

const HEADER_BYTES = 8192
const LIMITS = [
  '--Http.KeepAliveSeconds',
  '1',
  '--Limits.HeaderSeconds',
  '1',
  '--Limits.RequestSeconds',
  '1',
  '--Limits.HeaderBytes',
  `${HEADER_BYTES}`,
]
const server = await startProgram({ after }, { data: { things: [{ id: 1 }], hidden: [{ id: 1 }] }, flags: LIMITS })
const { url } = server

afterEach(async () => {
  assert.equal(server.process.exitCode, null)
  assert.doesNotMatch(server.stderr(), /"level":(50|60)/)
  await assertSound(server)
})

/** A connection that says only what it is told to; what it hears is gathered. */
async function speak(
  t: TestContext,
  text = '',
): Promise<{ socket: Socket; heard: () => string; isOver: () => boolean }> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  let heard = ''
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    heard += bytes.toString('latin1')
  })
  await once(socket, 'connect')
  if (text !== '') socket.write(text, 'latin1')
  return { socket, heard: () => heard, isOver: () => socket.closed }
}

const statuses = (heard: string) => [...heard.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status)

test('requests hidden in the bodies of others are not executed', async (t) => {
  const hidden = 'DELETE /api/hidden/1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
  const length = (body: string) => `Content-Length: ${body.length}`
  const post = (fields: readonly string[], body: string) =>
    `POST /api/nothing/1/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${fields.join('\r\n')}\r\n\r\n${body}`
  const chunked = `0\r\n\r\n${hidden}`
  const requests = [
    post(['Content-Length: 4', 'Transfer-Encoding: chunked'], chunked),
    post(['Transfer-Encoding: chunked', length(chunked)], chunked),
    post(['Transfer-Encoding: chunked', 'Content-Length: 0'], chunked),
    post(['Content-Length: 0', length(hidden)], hidden),
    post([length(hidden), 'Content-Length: 0'], hidden),
    post([`Content-Length: 0, ${hidden.length}`], hidden),
    post([`Content-Length: ${hidden.length}, ${hidden.length}`], hidden),
    post([`Content-Length: +${hidden.length}`], hidden),
    post([`Content-Length: 0x${hidden.length.toString(16)}`], hidden),
    post([`Content-Length: ${hidden.length}a`], hidden),
    post(['Content-Length : 0'], hidden),
    post([' Content-Length: 0'], hidden),
    post(['Content-Length\t: 0'], hidden),
    post(['X: y\r\n Content-Length: 0'], hidden),
    post(['Content_Length: 0', length(hidden)], hidden),
    post(['Transfer-Encoding : chunked'], chunked),
    post(['Transfer-Encoding: xchunked'], chunked),
    post(['Transfer-Encoding: chunked, identity'], chunked),
    post(['Transfer-Encoding: identity', length(hidden)], hidden),
    post(['Transfer-Encoding: identity, chunked', 'Content-Length: 4'], chunked),
    post(['Transfer-Encoding:\x0bchunked'], chunked),
    post(['Transfer-Encoding: "chunked"'], chunked),
    post(['Transfer-Encoding: chunked\r\nTransfer-Encoding: identity'], chunked),
    post(['Transfer-Encoding: identity\r\nTransfer-Encoding: cow'], chunked),
    post(['Transfer-Encoding: gzip'], hidden),
    post(['X: y\nContent-Length: 0'], hidden),
    post(['X: y\rTransfer-Encoding: chunked'], chunked),
    post(['X: y\0', 'Content-Length: 0'], hidden),
    post(['Transfer-Encoding: chunked'], `0;ext="\r\n\r\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `0\n\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `00000000000000000000000000\r\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `-1\r\n\r\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `0x0\r\n\r\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `10000000000000000\r\n\r\n${hidden}`),
    post(['Transfer-Encoding: chunked'], `2\r\n{}X\r\n${chunked}`),
    `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'\r'}\n${hidden}`,
    `GET /\r\n${hidden}`,
    `GET / HTTP/0.9\r\n\r\n${hidden}`,
    `GET / HTTP/2.0\r\n\r\n${hidden}`,
    `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`,
    `GET /x HTTP/1.1 HTTP/1.1\r\n${hidden}`,
    `GET / HTTP/1.1\r\nHost: localhost\r\nHost: y\r\nContent-Length: ${hidden.length}\r\nContent-Length: ${hidden.length + 1}\r\n\r\n${hidden}`,
    `CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n${hidden}`,
    `\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03${hidden}`,
  ]
  await Promise.all(
    requests.map(async (request) => {
      const { heard, socket } = await speak(t, request)
      await until(`an end to ${JSON.stringify(request.slice(0, 200))}`, () => socket.closed)
      for (const status of statuses(heard())) {
        assert.ok(['400', '404', '405', '408', '415', '505', '200'].includes(String(status)), `${request}\n${heard()}`)
      }
      assert.ok(!statuses(heard()).includes('204'), `the hidden request was answered: ${request}`)
    }),
  )
  assert.equal((await send(url, 'GET', '/api/hidden/1')).status, 200)
})

test('an upgrade to another protocol does not hide a request', async (t) => {
  const hidden = 'DELETE /api/hidden/1 HTTP/1.1\r\nHost: localhost\r\n\r\n'
  for (const fields of [
    `Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: ${hidden.length}`,
    `Upgrade: h2c\r\nConnection: Upgrade, close\r\nContent-Length: ${hidden.length}`,
    `Upgrade: h2c\r\nUpgrade: x\r\nConnection: Upgrade\r\nConnection: close\r\nContent-Length: ${hidden.length}`,
    `Upgrade: h2c\r\nConnection: Upgrade, Content-Length\r\nContent-Length: ${hidden.length}`,
    `Upgrade: h2c\r\nConnection: Upgrade\r\nTransfer-Encoding: chunked\r\nContent-Length: 0`,
    `Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: ${hidden.length}`,
  ]) {
    for (const path of ['/api/things', '/ws', '/socket.io/?EIO=4&transport=websocket']) {
      const { heard, socket } = await speak(t, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n\r\n${hidden}`)
      socket.end()
      await until('an end', () => socket.closed)
      assert.ok(!statuses(heard()).includes('204'), `${fields}\n${heard()}`)
    }
  }
  assert.equal((await send(url, 'GET', '/api/hidden/1')).status, 200)
})

test('invalid bytes after a request do not change its response', async (t) => {
  for (const rubbish of [
    'rubbish\r\n\r\n',
    '\0\0\0\0',
    `GET / HTTP/1.1\r\n${'x'.repeat(HEADER_BYTES * 2)}`,
    'GET / HTTP/9.9\r\n\r\n',
  ]) {
    const first = `GET ${swaggerAsset('swagger-ui-bundle.js')} HTTP/1.1\r\nHost: localhost\r\n\r\n`
    const { heard, socket } = await speak(t, `${first}${rubbish}`)
    await until('an end', () => socket.closed)
    const [head = '', body = ''] = heard().split('\r\n\r\n', 2)
    if (head.startsWith('HTTP/1.1 200')) assert.doesNotMatch(body, /urn:recollect:problem/)
    else assert.match(head, /^HTTP\/1\.1 (400|431) /)
  }
})

test('headers that arrive a byte at a time, or never, end with 408', async (t) => {
  const whole = 'GET /api HTTP/1.1\r\nHost: localhost\r\nX-Slow: yes'
  const slow = await Promise.all([
    ...Array.from({ length: 20 }, () => speak(t, 'GET /api HTTP/1.1\r\n')),
    speak(t, 'GET'),
    speak(t, whole),
    speak(t, 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHos'),
  ])
  const silent = await speak(t)
  const dripping = await speak(t)
  const drip = (async () => {
    for (let at = 0; !dripping.socket.closed; at++) {
      if (dripping.socket.writable) dripping.socket.write(whole[at] ?? 'y')
      await sleep(100)
    }
  })()
  for (const { heard, isOver } of [...slow, dripping]) {
    await until('an end', isOver)
    assert.match(heard(), /HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*application\/problem\+json/)
  }
  await drip
  await until('an end of what never spoke', silent.isOver)
  assert.equal((await send(url, 'GET', '/api')).status, 200)
})

test('a body that arrives a byte at a time, or never, ends with 408, and nothing of it is stored', async (t) => {
  const head = (path: string, fields: string) =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${fields}\r\n\r\n`
  const slow = await Promise.all([
    speak(t, head('/api/things', 'Content-Length: 100')),
    speak(t, `${head('/api/things', 'Content-Length: 7')}{"a":1`),
    speak(t, `${head('/api/things', 'Transfer-Encoding: chunked')}2\r\n{}\r\n`),
    speak(t, `${head('/admin/restore', 'Content-Length: 9')}{`),
  ])
  for (const { heard, isOver } of slow) {
    await until('an end', isOver)
    assert.match(heard(), /^HTTP\/1\.1 408 /)
  }
  assert.equal((await send(url, 'GET', '/api/things')).json<unknown[]>().length, 1)
})

test('a request line beyond the limit gets 414, and headers 431', async () => {
  const field = (bytes: number) => `X: ${'y'.repeat(bytes)}\r\n`
  for (const [status, bytes] of [
    [431, `GET /api HTTP/1.1\r\nHost: localhost\r\n${field(HEADER_BYTES)}\r\n`],
    [431, `GET /api HTTP/1.1\r\nHost: localhost\r\n${'name: value\r\n'.repeat(HEADER_BYTES / 8)}\r\n`],
    [414, `GET /api/${'x'.repeat(HEADER_BYTES)} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    [414, `GET /api?${'x'.repeat(HEADER_BYTES)} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
    [431, `GET /api HTTP/1.1\r\nHost: localhost\r\n${'y'.repeat(HEADER_BYTES)}: z\r\n\r\n`],
    [431, `GET /api HTTP/1.1\r\nHost: localhost\r\n${field(HEADER_BYTES - 10)}`],
  ] as const) {
    const answer = await sendBytes(url, bytes).catch(() => 'reset')
    // Bytes sent beyond the limit are not read, so the response may be lost with the connection.
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} [^]*application/problem\\+json|^reset$`))
  }
  const trailers = `POST /api/nothing/1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n${field(HEADER_BYTES * 4)}\r\n`
  assert.match(await sendBytes(url, trailers).catch(() => 'reset'), /^HTTP\/1\.1 4|^reset$/)
  const some = await send(url, 'GET', '/api', { headers: { X: 'y'.repeat(HEADER_BYTES / 2) } })
  assert.equal(some.status, 200)
})

test('hundreds of small headers, and of concurrent requests on one connection', async (t) => {
  const fields = Array.from({ length: 700 }, (_, index) => `h${index}:\r\n`).join('')
  assert.equal(
    statuses(await sendBytes(url, `GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${fields}\r\n`))[0],
    '200',
  )
  const one = 'GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n'
  const { heard } = await speak(t, `${one.repeat(200)}${one.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')}`)
  await until('every answer', () => statuses(heard()).length === 201)
  assert.deepEqual(new Set(statuses(heard())), new Set(['200']))
})

test('a condition behind more than a thousand other headers counts', async () => {
  const others = Array.from({ length: 1500 }, (_, index) => `${index.toString(36)}:\r\n`).join('')
  const head = `PUT /api/things/1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n`
  const ending = 'Connection: close\r\nIf-Match: "wrong"\r\n\r\n{}'
  assert.deepEqual(statuses(await sendBytes(url, `${head}${others}${ending}`)), ['412'])
})

test('requests of one byte, of line ends, and of other protocols', async () => {
  for (const bytes of [
    '\n',
    '\r\n\r\n\r\n',
    'G',
    'x\r\n\r\n',
    'SSH-2.0-x\r\n',
    'EHLO x\r\n',
    '\0',
    '\x80\x2e\x01',
    'GET',
    '*1\r\n$4\r\nPING\r\n',
  ]) {
    const answer = await sendBytes(url, Buffer.from(bytes, 'latin1'), { hangUp: true }).catch(() => '')
    assert.match(answer, /^$|^HTTP\/1\.1 4\d\d /, JSON.stringify(bytes))
  }
})

test('a write that arrives in pieces of one byte is executed once', async (t) => {
  const body = '{"name":"slow but whole"}'
  const text = `POST /api/pieces HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const { socket, heard } = await speak(t)
  socket.setNoDelay(true)
  for (const letter of text) {
    socket.write(letter)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await until('the answer', () => socket.closed)
  assert.deepEqual(statuses(heard()), ['201'])
  assert.equal((await send(url, 'GET', '/api/pieces')).json<unknown[]>().length, 1)
})

test('the server stops cleanly and the journal is intact afterwards', async (t) => {
  assert.equal((await sendJson(url, 'POST', '/api/things', {})).status, 201)
  assert.equal((await runToEnd(t, server.directory, ['verify', '--file', server.file])).code, 0)
})
