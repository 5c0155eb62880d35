import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { pino } from 'pino'
import { TrustedProxies } from '../../src/access/addresses.ts'
import { Failures, Gate } from '../../src/access/gate.ts'
import { Hosts, Origins } from '../../src/access/origins.ts'
import { ConnectionLimits } from '../../src/http/connection-limits.ts'
import { outbox } from '../../src/http/fast-front.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { shareDescriptors } from '../../src/server/platform.ts'
import { authentication, keyOf } from '../support/authentication.ts'
import { once, until } from '../support/deadline.ts'
import { openClosing, type RawResponse } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'
import { startHere, startServer } from '../support/service.ts'

const data = { things: [{ id: 1 }] }
const limits = ['--Limits.BodyBytes', '1000', '--Limits.BatchBytes', '5000']
const open = await startServer({ after }, { data, flags: limits })
const guarded = await startServer({ after }, { data, flags: authentication(['token', 'apikey'], []) })
const readOnly = await startServer({ after }, { data, flags: ['--read-only'] })
const failing = await startServer(
  { after },
  { data, flags: ['--Simulate.Error.Enabled', 'true', '--Simulate.Error.Probability', '1'] },
)

/** A limited HTTP server whose connections come from the addresses that the test names. */
async function startLimited(t: TestContext, { most = 100, perAddress = 3 }) {
  const gate = new Gate({
    access: undefined,
    failures: new Failures(1, () => 0),
    proxies: new TrustedProxies(['10.0.0.0/8']),
    origins: new Origins(undefined),
    hosts: new Hosts(undefined),
    failed: () => {},
  })
  const lines: string[] = []
  const limits = new ConnectionLimits({
    gate,
    most,
    perAddress,
    log: new LimitedLog(pino({}, { write: (line) => void lines.push(line) }), () => 0),
  })
  const http = createServer((_request, response) => response.end('served'))
  limits.guard(http)
  const addresses: string[] = []
  const server = createNetServer({ allowHalfOpen: true }, (socket) => {
    Object.defineProperty(socket, 'remoteAddress', { value: addresses.shift() })
    http.emit('connection', socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  /** Sends a request over a new connection, which stays open if the server lets it. */
  const open = async (address: string): Promise<{ readonly socket: Socket; readonly answer: string }> => {
    addresses.push(address)
    const socket = connect(port, '127.0.0.1')
    t.after(() => socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    let answer = ''
    socket.setEncoding('utf8').on('data', (text) => {
      answer += text
    })
    await until('an answer', () => /served|"detail"/.test(answer))
    return { socket, answer }
  }
  return { open, limits, lines }
}

test('a seventh to an eighth of the descriptors is kept back, and without a limit of them connections have none', () => {
  assert.deepEqual(shareDescriptors(1024), { connections: 848, files: 128 })
  assert.deepEqual(shareDescriptors(128), { connections: 64, files: 16 })
  assert.deepEqual(shareDescriptors(64), { connections: 8, files: 8 })
  assert.deepEqual(shareDescriptors(Infinity), { connections: Infinity, files: Infinity })
})

const SERVED = /^HTTP\/1\.1 200 /
const TOO_MANY =
  /^HTTP\/1\.1 503 [\s\S]*\r\nRetry-After: \d+\r\nConnection: close\r\n[\s\S]*"detail":"[^"]*Limits\.ConnectionsPerAddress/

test('connections beyond the limit of an address get 503, and one is accepted when another ends', async (t) => {
  const { open, limits } = await startLimited(t, {})
  const held = []
  for (let count = 0; count < 3; count++) held.push(await open('203.0.113.7'))
  for (const { answer } of held) assert.match(answer, SERVED)
  const refused = await open('203.0.113.7')
  assert.match(refused.answer, TOO_MANY)
  await until('its connection is closed', () => refused.socket.readableEnded || refused.socket.destroyed)
  assert.match((await open('203.0.113.8')).answer, SERVED, 'another address')
  assert.deepEqual(limits.figures(), { open: 4, refused: 1 })
  held[0]?.socket.destroy()
  await until('there is room again', () => limits.figures().open === 3)
  assert.match((await open('203.0.113.7')).answer, SERVED)
})

test('an IPv6 /64 network counts as one address', async (t) => {
  const { open } = await startLimited(t, {})
  for (let host = 1; host <= 3; host++) assert.match((await open(`2001:db8::${host}`)).answer, SERVED)
  assert.match((await open('2001:db8::4')).answer, TOO_MANY)
  assert.match((await open('2001:db8:0:1::1')).answer, SERVED)
})

test('the local machine and trusted proxies are only subject to the limit of all connections', async (t) => {
  const { open, limits, lines } = await startLimited(t, { most: 12, perAddress: 1 })
  for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '10.1.2.3']) {
    for (let count = 0; count < 3; count++) assert.match((await open(address)).answer, SERVED, address)
  }
  for (let count = 0; count < 20; count++) {
    const { answer } = await open('127.0.0.1')
    assert.match(answer, /^HTTP\/1\.1 503 [\s\S]*The server has 12 connections open/, `refusal ${count}`)
  }
  assert.deepEqual(limits.figures(), { open: 12, refused: 20 })
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', /"level":40.*12 connections open.*a connection was refused/)
})

function simulated() {
  const sent: string[] = []
  const deliver = outbox()
  const add = (name: string): void => deliver(() => void sent.push(name))
  return { sent, add }
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('responses that are ready in one tick are sent together after it, in order', async () => {
  const { sent, add } = simulated()
  for (const name of ['a', 'b', 'c']) add(name)
  assert.deepEqual(sent, [])
  await nextTurn()
  assert.deepEqual(sent, ['a', 'b', 'c'])
  add('d')
  await nextTurn()
  assert.deepEqual(sent, ['a', 'b', 'c', 'd'])
})

const PATCH = 'application/merge-patch+json'

interface Expecting {
  readonly url: string
  readonly line: string
  readonly fields?: readonly string[]
  readonly length: number
  readonly type?: string
}

function headOf({ line, fields = [], length, type = 'application/json' }: Omit<Expecting, 'url'>): string {
  const own = fields.some((field) => field.startsWith('Host:')) ? [] : ['Host: localhost']
  const expected = ['Expect: 100-continue', `Content-Type: ${type}`, `Content-Length: ${length}`]
  return `${[`${line} HTTP/1.1`, ...own, ...fields, ...expected].join('\r\n')}\r\n\r\n`
}

const REFUSED: readonly (readonly [status: number, Expecting])[] = [
  [401, { url: guarded.url, line: 'POST /api/things', length: 100 }],
  [403, { url: guarded.url, line: 'POST /api/things', length: 100, fields: [`X-API-KEY: ${keyOf('reader')}`] }],
  [403, { url: open.url, line: 'POST /api/things', length: 100, fields: ['Origin: http://evil.example'] }],
  [421, { url: open.url, line: 'POST /api/things', length: 100, fields: ['Host: evil.example'] }],
  [421, { url: open.url, line: 'POST http://evil.example/api/things', length: 100 }],
  [400, { url: open.url, line: 'POST /api/things', length: 100, fields: ['Host: localhost', 'Host: localhost'] }],
  [404, { url: open.url, line: 'POST /nothing', length: 100 }],
  [404, { url: open.url, line: 'POST /token', length: 100 }],
  [405, { url: open.url, line: 'PATCH /api/things', length: 100 }],
  [405, { url: readOnly.url, line: 'POST /api/things', length: 100 }],
  [405, { url: readOnly.url, line: 'POST /api', length: 100 }],
  [413, { url: open.url, line: 'PUT /api/things/1', length: 10_000_000 }],
  [413, { url: open.url, line: 'PATCH /api/things/1', length: 10_000_000, type: PATCH }],
  [413, { url: open.url, line: 'POST /api/things', length: 10_000_000 }],
  [413, { url: open.url, line: 'POST /api', length: 10_000_000 }],
  [413, { url: guarded.url, line: 'POST /token', length: 10_000_000 }],
  [415, { url: open.url, line: 'POST /api/things', length: 100, type: 'text/plain' }],
  [415, { url: open.url, line: 'PUT /api/things/1', length: 100, type: 'text/plain' }],
  [415, { url: open.url, line: 'PUT /api/things/1', length: 100, fields: ['Content-Encoding: x'] }],
  [500, { url: failing.url, line: 'POST /api/things', length: 100 }],
]

for (const way of ['', KOA_LINE]) {
  test(`a request that is refused before its body gets no 100 Continue, and its connection ends${way && ', through Koa'}`, async (t) => {
    for (const [status, expecting] of REFUSED) {
      const { url, line, fields = [] } = expecting
      const isOfPage = fields.some((field) => field.startsWith('Origin'))
      const connection = await openClosing(t, url)
      connection.socket.write(headOf({ ...expecting, fields: way === '' || isOfPage ? fields : [...fields, way] }))
      const refused = await connection.next()
      assert.equal(refused?.status, status, line)
      assert.equal(refused.headers.connection, 'close', line)
      assert.deepEqual(connection.informational, [], line)
      assert.equal(await connection.next(), undefined, line)
    }
  })

  test(`a body that is read is asked for, and the connection stays usable${way && ', through Koa'}`, async (t) => {
    const connection = await openClosing(t, open.url)
    const fields = way === '' ? [] : [way]
    const large = JSON.stringify({ text: 'x'.repeat(900) })
    const accepted: readonly (readonly [number, Omit<Expecting, 'url' | 'length'>, string | Buffer])[] = [
      [201, { line: 'POST /api/things' }, large],
      [201, { line: 'POST /api/things' }, '[{"n":1},{"n":2}]'],
      [201, { line: 'POST /api/things', fields: ['Content-Encoding: gzip'] }, gzipSync(large)],
      [204, { line: 'PUT /api/things/1' }, '{"n":1}'],
      [204, { line: 'PATCH /api/things/1', type: PATCH }, '{"n":2}'],
      [422, { line: 'PUT /api/things/1' }, '[]'],
      [200, { line: 'POST /api' }, '{"things":[{"id":1}]}'],
      [422, { line: 'POST /admin/restore' }, '{}'],
    ]
    for (const [count, [status, expecting, body]] of accepted.entries()) {
      const all = [...fields, ...(expecting.fields ?? [])]
      connection.socket.write(headOf({ ...expecting, fields: all, length: body.length }))
      while (connection.informational.length === count) await once(connection.socket, 'data')
      connection.socket.write(body)
      const response = await connection.next()
      assert.equal(response?.status, status, `${expecting.line}: ${response?.body}`)
      assert.equal(response.headers.connection, 'keep-alive', expecting.line)
    }
    assert.deepEqual(
      connection.informational,
      accepted.map(() => 100),
    )
  })

  test(`100 Continue comes after the responses to the requests before it${way && ', through Koa'}`, async (t) => {
    const connection = await openClosing(t, open.url)
    const body = '{"n":1}'
    const fields = [way || 'Accept: */*']
    const post = headOf({ line: 'POST /api/things', fields, length: body.length })
    const plain = `${post.replace(/Expect: .*\r\n/, '')}${body}`
    connection.socket.write(`GET /api HTTP/1.1\r\nHost: localhost\r\n${fields[0]}\r\n\r\n${plain.repeat(5)}${post}`)
    const statuses = [200, 201, 201, 201, 201, 201]
    for (const status of statuses) assert.equal((await connection.next())?.status, status)
    while (connection.informational.length === 0) await once(connection.socket, 'data')
    connection.socket.write(body)
    assert.equal((await connection.next())?.status, 201)
    assert.deepEqual(connection.order, [...statuses, 100, 201])
  })
}

for (const way of ['', KOA_LINE]) {
  test(`requests behind one whose body came with its expectation are answered, too${way && ', through Koa'}`, async (t) => {
    const body = '{"n":1}'
    const fields = [way || 'Accept: */*']
    const post = headOf({ line: 'POST /api/things', fields, length: body.length }) + body
    const plain = post.replace(/Expect: .*\r\n/, '')
    const expecting: readonly (readonly [number, string])[] = [
      [201, post],
      [415, post.replace('application/json', 'text/plain')],
      [404, post.replace('/api/things', '/nothing')],
      [404, post.replace('POST /api/things', 'PUT /api/things/99')],
      [200, headOf({ line: 'GET /api', fields, length: 0 })],
      [404, headOf({ line: 'DELETE /api/things/99', fields, length: 0 })],
    ]
    for (const [status, sent] of expecting) {
      const connection = await openClosing(t, open.url)
      connection.socket.write(plain + sent + plain)
      for (const expected of [201, status, 201]) {
        const response = await connection.next()
        assert.equal(response?.status, expected, sent)
        assert.equal(response.headers.connection, 'keep-alive', sent)
      }
    }
  })
}

test('HTTP/1.0 and unknown expectations get no 100 Continue', async (t) => {
  const body = '{"n":1}'
  const head = headOf({ line: 'POST /api/things', length: body.length })
  for (const sent of [head.replace('HTTP/1.1', 'HTTP/1.0'), head.replace('100-continue', '200-ok')]) {
    const connection = await openClosing(t, open.url)
    connection.socket.write(sent + body)
    assert.equal((await connection.next())?.status, 201)
    assert.deepEqual(connection.informational, [])
  }
})

test('the bytes behind a refused request that expects 100 Continue are its body, and no request', async (t) => {
  const connection = await openClosing(t, open.url)
  const before = await positionOf()
  const body = '{"n":1}'
  const post = headOf({ line: 'POST /api/things', length: body.length }).replace(/Expect: .*\r\n/, '') + body
  connection.socket.write(headOf({ line: 'POST /nothing', length: 100 }) + post)
  assert.equal((await connection.next())?.status, 404)
  assert.equal((await connection.next())?.status, 400)
  assert.equal(await connection.next(), undefined)
  assert.equal(await positionOf(), before)

  async function positionOf(): Promise<string | null> {
    return (await open.fetch('/api')).headers.get('Journal-Position')
  }
})

test('a middleware that reads the body asks for it', async (t) => {
  const { url } = await startHere(t, {
    data,
    middleware: [
      async (ctx, next) => {
        if (ctx.path !== '/own') return next()
        const parts: Buffer[] = await ctx.req.toArray()
        ctx.body = Buffer.concat(parts).toString().toUpperCase()
      },
    ],
  })
  const connection = await openClosing(t, url)
  connection.socket.write(headOf({ line: 'POST /own', length: 5 }))
  while (connection.informational.length === 0) await once(connection.socket, 'data')
  connection.socket.write('hello')
  const response: RawResponse | undefined = await connection.next()
  assert.equal(response?.body, 'HELLO')
})
