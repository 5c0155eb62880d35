import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { after, type TestContext, test } from 'node:test'
import { type Socket as Client, io } from 'socket.io-client'
import { eventOf, fetch, once, until, within } from '../support/deadline.ts'
import { startProbed } from '../support/probe.ts'

/** MiB that each flood sends. What answers them is about as long, and was kept before. */
const FLOOD_MIB = Number(process.env.SOCKET_FLOOD_MIB ?? 24)
const MIB = 1024 * 1024
/** The bytes that may wait for a socket, and what V8 needs beside them. */
const MOST_BYTES = 12 * MIB
const ENGINE = '/socket.io/?EIO=4&transport=websocket'
const probed = await startProbed({ after }, { data: { a: [{ id: 1, text: 'x'.repeat(1000) }] } })

/** A connection whose upgrade to a WebSocket was accepted and whose client reads nothing from now on. */
async function deafSocket(t: TestContext, path: string, first = '', url = probed.url): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13`
  const key = randomBytes(16).toString('base64')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n${fields}\r\nSec-WebSocket-Key: ${key}\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  assert.match(head.toString('latin1'), /^HTTP\/1\.1 101 /)
  if (first !== '') {
    socket.write(frame(1, first))
    let answered = ''
    while (!answered.includes('40{')) answered += String((await once(socket, 'data'))[0])
  }
  socket.pause()
  return socket
}

/** A frame of a client (RFC 6455 §5.2), masked with zeros. */
function frame(opcode: number, text: string): Buffer {
  const payload = Buffer.from(text)
  assert.ok(payload.length < 65_536)
  const length =
    payload.length < 126 ? [0x80 | payload.length] : [0x80 | 126, payload.length >> 8, payload.length & 255]
  return Buffer.concat([Buffer.from([0x80 | opcode, ...length, 0, 0, 0, 0]), payload])
}

/** Sends the same frames again and again, until all were sent or the server has ended the connection. */
async function flood(socket: Socket, frames: Buffer, mebibytes: number): Promise<void> {
  // A connection that is reset ends, too.
  const closed = eventOf(socket, 'close').catch(() => {})
  for (let sent = 0; sent < mebibytes * MIB && !socket.destroyed; sent += frames.length) {
    if (socket.write(frames)) continue
    const drained = eventOf(socket, 'drain').catch(() => {})
    await within('room to write, or the end', Promise.race([drained, closed]))
  }
}

/** The cost of a flood while the client has not read anything. */
async function costOf(t: TestContext, socket: Socket, frames: Buffer, mebibytes = FLOOD_MIB): Promise<number> {
  const before = await probed.memory()
  await flood(socket, frames, mebibytes)
  const cost = (await probed.memory()) - before
  t.diagnostic(`${mebibytes} MiB cost ${Math.round(cost / 1024)} KiB`)
  return cost
}

const repeated = (times: number, of: (index: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: times }, (_, index) => of(index)))

test('pings whose pongs are not read need no memory, at /ws and with Socket.IO', async (t) => {
  const pings = repeated(500, () => frame(9, 'x'.repeat(100)))
  for (const [path, first] of [['/ws'], [ENGINE, '40']] as const) {
    const socket = await deafSocket(t, path, first)
    assert.ok((await costOf(t, socket, pings)) < MOST_BYTES, path)
  }
})

test('a ping gets a pong, and of those that arrive meanwhile the last one does', async (t) => {
  const socket = await deafSocket(t, '/ws')
  let answered = Buffer.alloc(0)
  socket.resume().on('data', (bytes: Buffer) => {
    answered = Buffer.concat([answered, bytes])
  })
  const pong = (text: string) => Buffer.concat([Buffer.from([0x8a, text.length]), Buffer.from(text)])
  socket.write(frame(9, 'alone'))
  await until('the first pong', () => answered.includes(pong('alone')))
  socket.write(repeated(100, (index) => frame(9, `ping ${index}`)))
  await until('the pong to the last ping', () => answered.includes(pong('ping 99')))
})

for (const [what, message] of [
  ['unsubscribe', '["unsubscribe",{"subscription":"none"}]'],
  ['subscribe', '["subscribe",{"collection":"a"}]'],
  ['subscribe that is refused', '["subscribe",{"collection":7}]'],
] as const) {
  test(`a client that sends ${what} repeatedly and reads no response needs no memory`, async (t) => {
    const socket = await deafSocket(t, ENGINE, '40')
    const frames = repeated(500, (index) => frame(1, `42${index}${message}`))
    assert.ok((await costOf(t, socket, frames)) < MOST_BYTES)
    await until('it is disconnected', async () => {
      const metrics = await (await fetch(`${probed.url}/metrics`)).text()
      return metrics.includes('recollect_sockets{kind="socket.io"} 0')
    })
  })
}

test('unread responses of Socket.IO itself need no memory', async (t) => {
  const joining = await deafSocket(t, ENGINE, '40')
  const joins = repeated(500, () => frame(1, '40/other,'))
  assert.ok((await costOf(t, joining, joins, FLOOD_MIB / 4)) < MOST_BYTES, 'to join a namespace that there is not')
  const polling = await (await fetch(`${probed.url}/socket.io/?EIO=4&transport=polling`)).text()
  const { sid } = JSON.parse(polling.slice(1)) as { sid: string }
  const upgrading = await deafSocket(t, `${ENGINE}&sid=${sid}`)
  const probes = repeated(500, () => frame(1, '2probe'))
  assert.ok((await costOf(t, upgrading, probes, FLOOD_MIB / 4)) < MOST_BYTES, 'to try a transport out again and again')
})

test('a client that answers pings but does not read a long response is disconnected; one that has read it is not', async (t) => {
  const own = await startProbed(t, {
    data: { a: Array.from({ length: 1000 }, (_, id) => ({ id, text: 'é'.repeat(4000) })) },
    // Far beyond a pause of this process while the machine is busy.
    flags: ['--Limits.StallSeconds', '10'],
  })
  const open = async (): Promise<Socket> => {
    const socket = await deafSocket(t, ENGINE, '40', own.url)
    socket.write(frame(1, '421["subscribe",{"collection":"a"}]'))
    const answering = setInterval(() => socket.write(frame(1, '3')), 100)
    socket.once('close', () => clearInterval(answering))
    return socket
  }
  const sockets = async (): Promise<number> => {
    const metrics = await (await fetch(`${own.url}/metrics`)).text()
    return Number(/recollect_sockets\{kind="socket\.io"\} (\d+)/.exec(metrics)?.[1])
  }
  const reader = await open()
  reader.resume()
  await until('one has read the response', () => reader.bytesRead > 8_000_000)
  const deaf = await open()
  await until('the deaf one is disconnected', async () => (await sockets()) === 1)
  deaf.resume()
  await until('its end', () => deaf.closed)
  assert.equal(reader.closed, false)
})

function ask(socket: Client, message: string, wanted: object) {
  return within(`the response to ${message}`, socket.emitWithAck(message, wanted))
}

test('a client that subscribes and unsubscribes often gets its responses in order', async (t) => {
  const socket = io(probed.url, { transports: ['websocket'], forceNew: true, reconnection: false })
  t.after(() => socket.close())
  for (let round = 0; round < 3; round++) {
    const subscribed = await Promise.all(
      Array.from({ length: 100 }, () => ask(socket, 'subscribe', { collection: 'a' })),
    )
    const names = subscribed.map(({ subscription }) => subscription as string)
    assert.equal(new Set(names).size, 100)
    const tooMany = ask(socket, 'subscribe', { collection: 'a' })
    const ended = names.map((subscription) => ask(socket, 'unsubscribe', { subscription }))
    assert.equal((await tooMany).error, 'TooMany', 'it came before a place was free')
    assert.ok((await Promise.all(ended)).every(({ ended }) => ended === true))
  }
})
