import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { WebSocket } from 'ws'
import { each, once, within } from '../support/deadline.ts'
import { plainSocket, rawUpgrade, socketIo } from '../support/listeners.ts'
import { headOf } from '../support/requests.ts'
import { json, startProgram } from '../support/server.ts'

const DATA = { numbers: [{ id: 7 }] }

/** The server of all tests except those that edit its data file; the last one stops it. */
const server = await startProgram({ after }, { data: DATA, flags: ['--Api.UpsertOnPut', 'true'] })

test('a WebSocket on another path than /ws and /socket.io/ is rejected, and its connection closed', async (t) => {
  const paths = [
    '/',
    '/wsx',
    '/ws/x',
    '/ws//',
    '/WS',
    '//ws',
    '/x/ws',
    '/ws%2F',
    '/%77s',
    '/api/numbers',
    '/socket.io',
    '/constructor',
  ]
  for (const path of paths) {
    const socket = await rawUpgrade(t, server.url, path)
    const answer = await wholeOf(socket)
    assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n/, path)
  }
  for (const path of ['/ws', '/ws?a=b', '/ws/', '/ws/?a=b', 'http://localhost/ws']) {
    const socket = await rawUpgrade(t, server.url, path)
    const [bytes] = await once(socket, 'data')
    assert.match(String(bytes), /^HTTP\/1\.1 101 /, path)
  }
})

test('the first subprotocol that a client offers is confirmed, and none if it offers none', async (t) => {
  for (const offered of [[], ['unknown'], ['graphql-transport-ws', 'mqtt']]) {
    for (const path of ['/ws', '/socket.io/?EIO=4&transport=websocket']) {
      const client = new WebSocket(server.url.replace('http', 'ws') + path, offered)
      t.after(() => client.terminate())
      await once(client, 'open')
      assert.equal(client.protocol, offered[0] ?? '', path)
    }
  }
})

test('a malformed handshake at /ws is rejected', async () => {
  const { hostname, port } = new URL(server.url)
  for (const fields of [
    'Sec-WebSocket-Version: 12\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version: 13',
  ]) {
    const socket = connect(Number(port), hostname)
    socket.write(
      `GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${fields}\r\n\r\n`,
    )
    assert.match(await wholeOf(socket), /^HTTP\/1\.1 4\d\d /)
  }
  assert.equal((await server.fetch('/ws')).status, 404)
})

test('an upgrade to another protocol is declined: the request gets its response, and the connection stays open', async (t) => {
  const { hostname, port } = new URL(server.url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  const fields =
    'Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n'
  const body = JSON.stringify({ text: 'é'.repeat(200_000) })
  socket.write(`GET /api/numbers/7 HTTP/1.1\r\n${fields}\r\n`)
  await answered(socket, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*\{"id":7\}$/)
  for (let count = 0; count < 20; count++) {
    socket.write(`GET /api/numbers/7 HTTP/1.1\r\n${fields}\r\n`)
    await answered(socket, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*\{"id":7\}$/)
  }
  assert.doesNotMatch(server.stderr(), /MaxListenersExceededWarning/)
  socket.write(
    `POST /api/numbers HTTP/1.1\r\n${fields}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  await answered(socket, /^HTTP\/1\.1 201 Created\r\n(?:.*\r\n)*\{"id":8\}$/)
  socket.write('GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await answered(socket, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*\["numbers"\]$/)
  const { text } = (await (await server.fetch('/api/numbers/8')).json()) as { text: string }
  assert.equal(text, 'é'.repeat(200_000))
  socket.write(`GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\n${fields}\r\n`)
  await answered(socket, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*0\{"sid":.*\}$/)
  socket.write('GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n')
  await answered(socket, /^HTTP\/1\.1 200 OK\r\n(?:.*\r\n)*Connection: close\r\n/)
})

test('a client that resets its connection in the middle of an upgrade does not end the server', async (t) => {
  for (const path of [
    '/nowhere',
    '/ws',
    '/socket.io/?EIO=4&transport=websocket',
    '/socket.io/?EIO=4&transport=nonsense',
  ]) {
    for (let round = 0; round < 20; round++) {
      const socket = await rawUpgrade(t, server.url, path)
      socket.write('x'.repeat(100_000))
      for (let turn = 0; turn < round % 5; turn++) await new Promise(setImmediate)
      socket.resetAndDestroy()
    }
  }
  assert.equal((await server.fetch('/api')).status, 200)
})

test('a client that never reads is disconnected, and delays no notification of others', async (t) => {
  const stuck = [
    await rawUpgrade(t, server.url, '/ws'),
    await rawUpgrade(t, server.url, '/socket.io/?EIO=4&transport=websocket'),
  ]
  for (const socket of stuck) await once(socket, 'data')
  // The Socket.IO client joins the default namespace with the masked text frame "40".
  stuck[1]?.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x34, 0x30]))
  await once(stuck[1] as NodeJS.EventEmitter, 'data')
  for (const socket of stuck) socket.pause()
  const listeners = [await socketIo(t, server.url), await plainSocket(t, server.url)]
  const before = await headOf(server.url)

  const id = 'x'.repeat(14_000)
  const writes = 1500
  for (let written = 0; written < writes; written += 50) {
    await Promise.all(Array.from({ length: 50 }, () => server.fetch(`/api/numbers/${id}`, json('PUT', { id }))))
  }
  for (const listener of listeners) {
    const told = await listener.upTo(before + writes)
    assert.deepEqual(
      told.map(({ position }) => position),
      Array.from({ length: writes }, (_, index) => before + 1 + index),
    )
  }
  // Notifications on their way still arrive, far fewer than were sent, and then the end.
  for (const socket of stuck) {
    let received = 0
    socket.on('data', (bytes) => {
      received += bytes.length
    })
    socket.resume()
    if (!socket.closed) await once(socket, 'close')
    assert.ok(received < writes * id.length, `${received} bytes`)
  }
})

test('an edit of many items reaches all clients, who had no chance to read in between', async (t) => {
  const server = await startProgram(t, { data: { numbers: [] } })
  const listeners = [
    await socketIo(t, server.url),
    await socketIo(t, server.url, 'polling'),
    await plainSocket(t, server.url),
  ]
  const count = 20_000
  await writeFile(server.file, JSON.stringify({ numbers: Array.from({ length: count }, (_, id) => ({ id })) }))
  const answer = await server.fetch('/admin/reload', { method: 'POST' })
  const { position, events } = (await answer.json()) as { position: number; events: number }
  assert.equal(events, count)
  for (const listener of listeners) assert.equal((await listener.upTo(position)).length, count)
})

test('the server stops soon although clients keep their connections open', async (t) => {
  await socketIo(t, server.url)
  await socketIo(t, server.url, 'polling')
  const polite = await plainSocket(t, server.url)
  const closed = once(polite.client, 'close')
  for (const path of ['/ws', '/socket.io/?EIO=4&transport=websocket', '/nowhere']) {
    const socket = await rawUpgrade(t, server.url, path)
    await once(socket, 'data')
    socket.pause()
  }
  assert.equal(await server.stop(), 0)
  assert.equal((await closed)[0], 1001)
})

/** All that comes until the server ends the connection. */
async function wholeOf(socket: Socket): Promise<string> {
  return Buffer.concat(await within('the end of a connection', socket.toArray())).toString()
}

/** Waits for an answer like that; a connection that ends before it is a failure. */
async function answered(socket: Socket, pattern: RegExp): Promise<void> {
  let text = ''
  for await (const bytes of each(`an answer like ${pattern}`, socket.iterator({ destroyOnReturn: false }))) {
    text += String(bytes)
    if (pattern.test(text)) return
  }
  assert.match(text, pattern)
}
