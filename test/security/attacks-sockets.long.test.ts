import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, afterEach, type TestContext, test } from 'node:test'
import { io } from 'socket.io-client'
import { WebSocket } from 'ws'
import { eventOf, once, until, within } from '../support/deadline.ts'
import { plainSocket, rawUpgrade, socketIo } from '../support/listeners.ts'
import { swaggerAsset } from '../support/pages.ts'
import { send, sendJson } from '../support/requests.ts'
import { runToEnd, startProgram } from '../support/server.ts'
import { assertSound } from './soundness.ts'

const MIB = 1024 * 1024
const limits = ['--Limits.SocketsPerAddress', '5000', '--Limits.HeaderSeconds', '30']
const server = await startProgram(
  { after },
  { data: { things: [{ id: 1 }] }, flags: ['--Api.UpsertOnPut', 'true', ...limits] },
)
const { url } = server
const ws = url.replace('http', 'ws')

afterEach(async () => {
  assert.equal(server.process.exitCode, null)
  assert.doesNotMatch(server.stderr(), /"level":(50|60)/)
  await assertSound(server)
})

/** Resident memory of the server. */
function memory(): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${server.process.pid}/status`, 'utf8')) ?? []
  return Number(kib) * 1024
}

const isLinux = process.platform === 'linux'

/** A connection that is opened and says no more than this. */
async function idle(t: TestContext, text = ''): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  if (text !== '') socket.write(text)
  return socket
}

async function write(text = ''): Promise<number> {
  const reply = await sendJson(url, 'PUT', '/api/things/1', { text })
  assert.equal(reply.status, 204)
  return Number(reply.headers['journal-position'])
}

test('a thousand connections that send nothing, little, or only listen leave others served and memory bounded', async (t) => {
  const before = isLinux ? memory() : 0
  const silent = await Promise.all(Array.from({ length: 350 }, () => idle(t)))
  const begun = await Promise.all(
    Array.from({ length: 350 }, () => idle(t, 'POST /api/things HTTP/1.1\r\nHost: localhost\r\nConte')),
  )
  const open = await Promise.all(Array.from({ length: 150 }, () => rawUpgrade(t, url, '/ws')))
  const polled = await Promise.all(
    Array.from({ length: 150 }, () => rawUpgrade(t, url, '/socket.io/?EIO=4&transport=websocket')),
  )
  assert.equal(silent.length + begun.length + open.length + polled.length, 1000)
  const listener = await plainSocket(t, url)
  await listener.upTo(await write('seen by a thousand'))
  assert.equal((await send(url, 'GET', '/api/things/1')).status, 200)
  if (isLinux) assert.ok(memory() - before < 200 * MIB, `${(memory() - before) / MIB} MiB more`)
})

test('clients that never read delay nobody, and memory stays bounded', async (t) => {
  const before = isLinux ? memory() : 0
  const deaf = await Promise.all([
    ...Array.from({ length: 20 }, () => rawUpgrade(t, url, '/ws')),
    ...Array.from({ length: 20 }, () =>
      idle(t, 'GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\n\r\n'),
    ),
    ...Array.from({ length: 20 }, () =>
      idle(t, 'GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n'),
    ),
    ...Array.from({ length: 20 }, () =>
      idle(t, `GET ${swaggerAsset('swagger-ui-bundle.js')} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(20)),
    ),
  ])
  for (const socket of deaf) socket.pause()
  const listener = await socketIo(t, url)
  let last = 0
  for (let count = 0; count < 60; count++) last = await write('x'.repeat(MIB / 2))
  await listener.upTo(last)
  assert.equal((await send(url, 'GET', '/events?limit=1')).status, 200)
  if (isLinux) assert.ok(memory() - before < 400 * MIB, `${(memory() - before) / MIB} MiB more`)
  await write()
})

test('frames that are too large, fragmented, binary or invalid close their socket and nothing else', async (t) => {
  const listener = await plainSocket(t, url)
  const frames: readonly (string | Buffer)[] = [
    'x'.repeat(17 * 1024),
    Buffer.alloc(17 * 1024),
    Buffer.from([0xff, 0xfe]),
    '',
    '4',
    '42',
    '40{"__proto__":{"polluted":true}}',
    '42["subscribe",{"__proto__":{"polluted":true},"collection":"__proto__"}]',
    '42["constructor"]',
    '42["__proto__",{}]',
    '42["disconnect"]',
    '42["subscribe"]',
    '421["subscribe",{"collection":{"toString":1}}]',
    '421["subscribe",{"collection":"things","query":{"__proto__":"x"}}]',
    `421["subscribe",{"collection":"things","query":"${'a=1&'.repeat(2000)}"}]`,
    '42'.padEnd(10_000, '9'),
    `42${'['.repeat(10_000)}`,
    '451-["x",{"_placeholder":true,"num":0}]',
    '459999999999-["x"]',
    '451-["x",{"_placeholder":true,"num":"constructor"}]',
    '43[]',
    '430[]',
    '44',
    '41',
    '40/admin,{}',
    '40/../,',
    '5',
    '6',
    '1',
    '0{}',
    'b!!!',
    'bAAAA',
    '\u0000',
    '2probe',
    '3'.repeat(5000),
  ]
  for (const path of ['/ws', '/socket.io/?EIO=4&transport=websocket', '/socket.io/?EIO=3&transport=websocket']) {
    for (const frame of frames) {
      const socket = new WebSocket(ws + path)
      t.after(() => socket.terminate())
      socket.on('error', () => {})
      const opened = Promise.race([
        eventOf(socket, 'open').then(() => true),
        eventOf(socket, 'close').then(() => false),
      ])
      const isOpen = await within('a WebSocket, or its end', opened)
      if (!isOpen) continue
      if (path.startsWith('/socket.io')) socket.send('40')
      socket.send(frame)
      socket.send(frame)
      socket.close()
    }
  }
  for (const bytes of [
    '\xff\xff\xff\xff',
    '\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff',
    '\x81\xfe',
    '\xc1\x80',
    '\x01\x80',
    '\x80\x80',
    '\x89\xfe\xff\xff',
  ]) {
    const raw = await rawUpgrade(t, url, '/ws')
    raw.write(Buffer.from(bytes, 'latin1'))
  }
  const listens = await listener.upTo(await write('still there'))
  assert.ok(listens.length > 0)
})

test('polling requests that are forged, doubled or malformed', async (t) => {
  const base = '/socket.io/?EIO=4&transport=polling'
  const opened = await send(url, 'GET', base)
  const { sid } = JSON.parse(opened.text.slice(1)) as { sid: string }
  const targets = [
    ...[
      '&sid=',
      '&sid=__proto__',
      '&sid=constructor',
      '&sid=toString',
      '&sid=x&sid=y',
      `&sid=${'x'.repeat(5000)}`,
      `&sid=${sid}x`,
    ],
    ...[
      '&EIO=3',
      '&EIO=4&EIO=4',
      '&transport=__proto__',
      '&transport=constructor',
      '&j=1',
      '&j=alert(1)',
      '&b64=1',
      '&t[toString]=1',
    ],
  ]
  for (const extra of targets) {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS']) {
      // A poll that is well-formed waits for something to come.
      if (method === 'GET' && /^&(j|b64|t\[)/.test(extra)) continue
      const { status, headers } = await send(url, method, `${base}${extra}`, method === 'POST' ? { body: '40' } : {})
      assert.ok(status < 500, `${method} ${extra}: ${status}`)
      assert.doesNotMatch(String(headers['content-type']), /html/)
    }
  }
  for (const body of [
    '',
    'x'.repeat(20_000),
    '\x1e'.repeat(10_000),
    '4'.repeat(10_000),
    `40\x1e${'42["a"]\x1e'.repeat(1000)}`,
    '\ud800',
  ]) {
    const fresh = JSON.parse((await send(url, 'GET', base)).text.slice(1)) as { sid: string }
    const reply = await send(url, 'POST', `${base}&sid=${fresh.sid}`, { body }).catch(() => undefined)
    assert.ok(!reply || reply.status < 500, `${body.slice(0, 20)}: ${reply?.status}`)
  }
  const client = io(url, { transports: ['polling'], reconnection: false, forceNew: true })
  t.after(() => client.close())
  await until('an honest client to be let in', () => client.connected)
})

test('upgrades that are aborted half way, on every path', async (t) => {
  const listener = await plainSocket(t, url)
  for (const target of ['/ws', '/socket.io/?EIO=4&transport=websocket', '/nothing', '/api']) {
    for (const protocol of ['websocket', 'h2c', 'x'.repeat(1000)]) {
      const some = await Promise.all(Array.from({ length: 20 }, () => rawUpgrade(t, url, target, protocol)))
      for (const [index, socket] of some.entries()) index % 2 ? socket.destroy() : socket.resetAndDestroy()
    }
  }
  await listener.upTo(await write('after all of them'))
})

test('the journal is intact afterwards', async (t) => {
  assert.equal((await runToEnd(t, server.directory, ['verify', '--file', server.file])).code, 0)
})
