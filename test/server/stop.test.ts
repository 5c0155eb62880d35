import assert from 'node:assert/strict'
import { test } from 'node:test'
import { once, within } from '../support/deadline.ts'
import { openClosing, type RawConnection } from '../support/raw.ts'
import { ofOneServer, startServer } from '../support/server.ts'

const HOST = 'Host: localhost\r\n'
const THROUGH_KOA = `${HOST}Origin: http://localhost\r\n`
const get = (path: string, fields = HOST) => `GET ${path} HTTP/1.1\r\n${fields}\r\n`
const head = (fields: string) =>
  `POST /api/things HTTP/1.1\r\n${fields}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`
const HALF = `${head(HOST)}{"text":"`
const UPGRADE = `${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`
const SOCKET_IO = '/socket.io/?EIO=4&transport=websocket'

const skip = ofOneServer('the connections are those of one server')

/** Connections without a complete request: what they send, and the statuses of the responses. */
const INCOMPLETE: Readonly<Record<string, readonly [sent: string, ...statuses: number[]]>> = {
  'an idle connection': [get('/things.html'), 404],
  'a connection that has sent nothing': [''],
  'half a request line': ['POST /api/thi', 503],
  'half the headers': ['POST /api/things HTTP/1.1\r\nHost: loc', 503],
  'half a body': [HALF, 503],
  'half a body through Koa': [`${head(THROUGH_KOA)}{"text":"`, 503],
  'a body that is expected': [head(`${HOST}Expect: 100-continue\r\n`), 503],
  'half a body on a connection used before': [get('/things.html') + HALF, 404, 503],
  'half the headers on a connection used before': [`${get('/things.html')}POST /api/thi`, 404, 503],
  'an event stream': [get('/events?from=1', `${HOST}Accept: text/event-stream\r\n`), 200],
  'a WebSocket': [get('/ws', UPGRADE)],
  'a WebSocket of Socket.IO': [get(SOCKET_IO, UPGRADE)],
  'half a request behind an upgrade that is declined': [
    `${get('/things.html', `${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n`)}POST /api/thi`,
    404,
  ],
}

test('at SIGTERM connections without a complete request end first, and a request that has arrived is answered', {
  skip,
}, async (t) => {
  const flags = ['--Simulate.Delay.Enabled', 'true', '--Simulate.Delay.Methods', 'GET']
  const delay = ['--Simulate.Delay.MinMs', '4000', '--Simulate.Delay.MaxMs', '4000']
  const server = await startServer(t, { data: { things: [{ id: 1 }] }, flags: [...flags, ...delay] })
  const order: string[] = []
  const opened: [string, RawConnection, readonly number[]][] = []
  for (const [name, [sent, ...statuses]] of Object.entries(INCOMPLETE)) {
    const connection = await openClosing(t, server.url)
    opened.push([name, connection, statuses])
    connection.socket.once('close', () => order.push(name))
    if (sent !== '') connection.socket.write(sent)
    if (/^a WebSocket/.test(name) || statuses[0] === 200) await once(connection.socket, 'data')
  }
  const trickling = await openClosing(t, server.url)
  trickling.socket.once('close', () => order.push('a body that comes byte by byte'))
  trickling.socket.write(HALF)
  const drops = setInterval(() => void trickling.socket.write('x'), 50)
  t.after(() => clearInterval(drops))
  trickling.socket.once('close', () => clearInterval(drops))

  const complete = await openClosing(t, server.url)
  const pipelined = await openClosing(t, server.url)
  complete.socket.write(get('/api/things/1', THROUGH_KOA))
  pipelined.socket.write(get('/api/things/1') + HALF)
  // Answered after all of the above have arrived.
  assert.equal((await server.fetch('/nothing')).status, 404)

  const stopped = server.stop()
  for (const connection of [complete, pipelined]) {
    const response = await connection.next()
    assert.deepEqual([response?.status, response?.body], [200, '{"id":1}'])
  }
  assert.deepEqual(order.sort(), [...Object.keys(INCOMPLETE), 'a body that comes byte by byte'].sort())
  for (const [name, connection, statuses] of opened) {
    for (const status of statuses) {
      const response = await connection.next()
      assert.equal(response?.status, status, name)
      if (status !== 503) continue
      assert.equal(JSON.parse(response?.body ?? '').type, 'urn:recollect:problem:Unavailable', name)
      assert.deepEqual([response?.headers.connection, response?.headers['retry-after']], ['close', '5'], name)
    }
  }
  assert.equal(await within('the end of the server', stopped), 0)
  assert.equal((await pipelined.next())?.status, 503)
})

test('responses that a client has not read yet are complete although the server ends', { skip }, async (t) => {
  const text = 'x'.repeat(1_000_000)
  const server = await startServer(t, { data: { things: [{ id: 1, text }] } })
  const count = 30
  const connection = await openClosing(t, server.url)
  connection.socket.pause()
  connection.socket.write(get('/api/things/1').repeat(count))
  const idle = await openClosing(t, server.url)
  idle.socket.write(get('/nothing'))
  assert.equal((await idle.next())?.status, 404)
  const stopped = server.stop()
  assert.equal(await idle.next(), undefined, 'idle connections have ended')
  const ended = once(connection.socket, 'end')
  connection.socket.resume()
  await ended
  assert.equal(connection.rest.split('HTTP/1.1 200 OK').length - 1, count)
  assert.equal(connection.rest.split(text).length - 1, count)
  assert.equal(await stopped, 0)
})
