import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { once, within } from '../support/deadline.ts'
import { openClosing, type RawConnection } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'
import { ofOneServer, startProgram } from '../support/server.ts'

const HOST = 'Host: localhost\r\n'
const OF_KOA = `${HOST}${KOA_LINE}\r\n`
const get = (path: string, fields = HOST) => `GET ${path} HTTP/1.1\r\n${fields}\r\n`
const head = (fields: string) =>
  `POST /api/things HTTP/1.1\r\n${fields}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`
const HALF = `${head(HOST)}{"text":"`
const UPGRADE = `${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`
const DECLINED = `${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n`

/** The bytes that connections send, and the statuses of the responses. */
const INCOMPLETE: Readonly<Record<string, readonly [sent: string, ...statuses: number[]]>> = {
  'a WebSocket': [get('/ws', UPGRADE)],
  'a WebSocket of Socket.IO': [get('/socket.io/?EIO=4&transport=websocket', UPGRADE)],
  'half a request line': ['POST /api/thi', 503],
  'half the headers': ['POST /api/things HTTP/1.1\r\nHost: loc', 503],
  'half a body': [HALF, 503],
  'half a body through Koa': [`${head(OF_KOA)}{"text":"`, 503],
  'a body that is expected': [head(`${HOST}Expect: 100-continue\r\n`), 503],
  'half a body on a connection used before': [get('/things.html') + HALF, 404, 503],
  'half a request line on a connection used before': [`${get('/things.html')}POST /api/thi`, 404, 503],
  'half a request behind an upgrade that is declined': [`${get('/things.html', DECLINED)}POST /api/thi`, 404, 503],
  'half a body behind a request that takes longer': [get('/api/things/1') + HALF, 200, 503],
  'a request that takes longer': [get('/api/things/1', OF_KOA), 200],
}

const skip = ofOneServer('the connections are those of one server')
const delayedBy = (ms: number) => [
  '--Simulate.Delay.Enabled',
  'true',
  '--Simulate.Delay.Methods',
  'GET',
  '--Simulate.Delay.MinMs',
  `${ms}`,
  '--Simulate.Delay.MaxMs',
  `${ms}`,
]

test('at SIGTERM a request that does not arrive gets 503 and is not executed, and one that has arrived is answered', {
  skip,
}, async (t) => {
  const server = await startProgram(t, { data: { things: [{ id: 1 }] }, flags: delayedBy(4000) })
  const opened: [string, RawConnection, readonly number[]][] = []
  for (const [name, [sent, ...statuses]] of Object.entries(INCOMPLETE)) {
    const connection = await openClosing(t, server.url)
    connection.socket.write(sent)
    // Sent later, it would close the connection.
    if (statuses[0] === 404) assert.equal((await connection.next())?.status, statuses.shift(), name)
    if (/^a WebSocket/.test(name)) await once(connection.socket, 'data')
    opened.push([name, connection, statuses])
  }
  const trickling = await openClosing(t, server.url)
  opened.push(['a body that comes byte by byte', trickling, [503]])
  trickling.socket.write(HALF)
  const drops = setInterval(() => void trickling.socket.write('x'), 50)
  t.after(() => clearInterval(drops))
  trickling.socket.once('end', () => clearInterval(drops))
  // Answered after all of the above have arrived.
  assert.equal((await server.fetch('/nothing')).status, 404)

  const stopped = server.stop()
  for (const [name, connection, statuses] of opened) {
    for (const status of statuses) {
      const response = await connection.next()
      assert.equal(response?.status, status, name)
      if (status !== 503) continue
      assert.equal(JSON.parse(response?.body ?? '').type, 'urn:recollect:problem:Unavailable', name)
      assert.deepEqual([response?.headers.connection, response?.headers['retry-after']], ['close', '5'], name)
      // Too late to be executed.
      if (connection.socket.writable) connection.socket.write(`${'x'.repeat(989)}"}${get('/api')}`)
    }
    assert.equal(await connection.next(), undefined, name)
    assert.equal(connection.failure, undefined, name)
  }
  assert.equal(await within('the end of the server', stopped), 0)
  const { things } = JSON.parse(await readFile(server.file, 'utf8'))
  assert.deepEqual(things, [{ id: 1 }])
})

test('a response that takes too long does not prevent the end of the server', { skip }, async (t) => {
  const server = await startProgram(t, { data: { things: [{ id: 1 }] }, flags: delayedBy(30_000) })
  const connection = await openClosing(t, server.url)
  connection.socket.write(get('/api/things/1'))
  assert.equal((await server.fetch('/nothing')).status, 404)
  assert.equal(await within('the end of the server', server.stop()), 0)
  assert.equal(await connection.next(), undefined)
})
