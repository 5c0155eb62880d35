import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type AddressInfo, connect, createServer as createNetServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { TrustedProxies } from '../../src/access/addresses.ts'
import { Failures, Gate } from '../../src/access/gate.ts'
import { Hosts, Origins } from '../../src/access/origins.ts'
import { ConnectionLimits } from '../../src/http/connection-limits.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { shareDescriptors } from '../../src/server/platform.ts'
import { once, until } from '../support/deadline.ts'

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
const REFUSED =
  /^HTTP\/1\.1 503 [\s\S]*\r\nRetry-After: \d+\r\nConnection: close\r\n[\s\S]*"detail":"[^"]*Limits\.ConnectionsPerAddress/

test('connections beyond the limit of an address get 503, and one is accepted when another ends', async (t) => {
  const { open, limits } = await startLimited(t, {})
  const held = []
  for (let count = 0; count < 3; count++) held.push(await open('203.0.113.7'))
  for (const { answer } of held) assert.match(answer, SERVED)
  const refused = await open('203.0.113.7')
  assert.match(refused.answer, REFUSED)
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
  assert.match((await open('2001:db8::4')).answer, REFUSED)
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
