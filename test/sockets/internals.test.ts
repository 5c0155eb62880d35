import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Server, type Socket } from 'socket.io'
import { io } from 'socket.io-client'
import { WebSocket, WebSocketServer } from 'ws'
import {
  type EngineTransport,
  engineConnectionOf,
  insertJsonText,
  jsonText,
  queuedBytes,
  queuedPackets,
  terminate,
  whenSent,
} from '../../src/sockets/socket-io-internals.ts'
import { bytesNotAccepted, framesOf, sendFrames } from '../../src/sockets/ws-internals.ts'
import { once, until, within } from '../support/deadline.ts'

const CHANGED = 'an upgrade has changed a private part of a library, see'
const WS = `${CHANGED} src/sockets/ws-internals.ts`
const SOCKET_IO = `${CHANGED} src/sockets/socket-io-internals.ts`

/** Longer than what the kernel keeps for a reader. */
const LONG = 'x'.repeat(16 * 1024 * 1024)

/** Both ends of a WebSocket. */
async function webSockets(t: TestContext) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.after(() => server.close())
  await once(server, 'listening')
  const connected = once(server, 'connection')
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.after(() => client.terminate())
  const texts: string[] = []
  client.on('message', (bytes) => texts.push(bytes.toString()))
  const [served] = (await connected) as [WebSocket]
  if (client.readyState !== client.OPEN) await once(client, 'open')
  return { client, served, texts }
}

/** Both ends of a connection of Socket.IO. */
async function socketIo(t: TestContext, transport: 'websocket' | 'polling') {
  const http = createServer()
  const server = new Server(http)
  insertJsonText(server)
  t.after(() => server.close())
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const connected = once(server, 'connection')
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const client = io(url, { transports: [transport], reconnection: false })
  t.after(() => client.close())
  const told: unknown[] = []
  client.on('told', (...values) => told.push(...values))
  const [socket] = (await connected) as [Socket]
  return { client, socket, connection: engineConnectionOf(socket), told }
}

test('ws sends text messages that were framed before, in one write', async (t) => {
  const { served, texts } = await webSockets(t)
  const sent = ['a', 'ä'.repeat(200), 'b'.repeat(70_000)]
  sendFrames(served, framesOf(sent))
  await until('the messages', () => texts.length === sent.length)
  assert.deepEqual(texts, sent, WS)
})

test('ws tells how many bytes the kernel has not accepted', async (t) => {
  const { client, served } = await webSockets(t)
  assert.equal(bytesNotAccepted(served), 0)
  client.pause()
  served.send(LONG)
  await until(`unaccepted bytes: ${WS}`, () => bytesNotAccepted(served) > 0)
  client.resume()
  await until('no unaccepted bytes', () => bytesNotAccepted(served) === 0)
})

for (const transport of ['websocket', 'polling'] as const) {
  test(`Socket.IO inserts JSON text unchanged into events and acknowledgements, by ${transport}`, async (t) => {
    const { client, socket, told } = await socketIo(t, transport)
    socket.on('ask', (answer: (value: unknown) => void) => answer(jsonText('{"b":[2]}')))
    socket.emit('told', jsonText('{"a":1}'), 'plain')
    assert.deepEqual(await within('an acknowledgement', client.emitWithAck('ask')), { b: [2] }, SOCKET_IO)
    await until('an event', () => told.length === 2)
    assert.deepEqual(told, [{ a: 1 }, 'plain'], SOCKET_IO)
  })

  test(`Socket.IO writes packets that were encoded before, by ${transport}`, async (t) => {
    const { connection, told } = await socketIo(t, transport)
    const packets = ['2["told",1]', '2["told",2]']
    const frames = framesOf(packets.map((packet) => `4${packet}`))
    connection.write(packets.join('\x1e4'), { wsPreEncodedFrame: [frames] })
    await until(`both events: ${SOCKET_IO}`, () => told.length === 2)
    assert.deepEqual(told, [1, 2])
  })

  test(`Socket.IO calls back when a packet was sent, by ${transport}`, async (t) => {
    const { client, socket, connection, told } = await socketIo(t, transport)
    const sent: number[] = []
    for (let n = 0; n < 3; n++) {
      whenSent(connection, () => sent.push(n))
      socket.emit('told', n)
    }
    await until(`the calls: ${SOCKET_IO}`, () => sent.length === 3)
    assert.deepEqual(sent, [0, 1, 2])
    await until('the packets', () => told.length === 3)
    if (transport === 'polling') return
    const raw = (client.io.engine as unknown as { transport: { ws: WebSocket } }).transport.ws
    raw.pause()
    whenSent(connection, () => sent.push(3))
    socket.emit('told', LONG)
    await until('a part in the socket', () => bytesNotAccepted(connection.transport.socket as WebSocket) > 0)
    assert.equal(sent.length, 3, SOCKET_IO)
    raw.resume()
    await until(`the call: ${SOCKET_IO}`, () => sent.length === 4)
  })

  test(`Socket.IO keeps packets for a slow client in a buffer, and discards them when it is terminated, by ${transport}`, async (t) => {
    const { socket, connection } = await socketIo(t, transport)
    const empty = { packets: queuedPackets(connection), bytes: queuedBytes(connection) }
    // The first one waits for the transport, which leaves the others in the buffer.
    for (let n = 0; n < 4; n++) socket.emit('told', LONG)
    assert.ok(queuedPackets(connection) > empty.packets, SOCKET_IO)
    assert.ok(queuedBytes(connection) > empty.bytes + LONG.length, SOCKET_IO)
    const closed = once(socket, 'disconnect')
    assert.equal(connection.transport.socket instanceof WebSocket, transport === 'websocket', SOCKET_IO)
    terminate(connection)
    await closed
  })
}

test('Socket.IO tells of each probe of an upgrade with its transport', async (t) => {
  const { connection, client } = await socketIo(t, 'polling')
  const probed: EngineTransport[] = []
  connection.on('upgrading', (transport) => probed.push(transport))
  const { hostname, port } = new URL((client.io as unknown as { uri: string }).uri)
  const probe = new WebSocket(
    `ws://${hostname}:${port}/socket.io/?EIO=4&transport=websocket&sid=${client.io.engine.id}`,
  )
  t.after(() => probe.terminate())
  await once(probe, 'open')
  probe.send('2probe')
  await until(`a probe: ${SOCKET_IO}`, () => probed.length === 1)
  assert.ok(probed[0]?.socket instanceof WebSocket, SOCKET_IO)
})
