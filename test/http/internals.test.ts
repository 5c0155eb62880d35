import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import {
  allowHalfOpen,
  allowNoContinue,
  beforeFirstRead,
  closeAfterLastResponse,
  correctIdleConnections,
  intercept,
  stopParsing,
} from '../../src/http/node-http-internals.ts'
import { once, until } from '../support/deadline.ts'
import { openRaw } from '../support/raw.ts'

const CHANGED = 'this version of Node has changed undocumented behaviour, see src/http/node-http-internals.ts'

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'
const EXPECTING = 'POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n'

/** Node's own HTTP server, and a raw connection to it. */
async function connected(t: TestContext, listener?: RequestListener) {
  const http = createServer(listener)
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.after(() => {
    http.close()
    http.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return { http, open: () => openRaw(t, url) }
}

test('Node serves connections and requests by listeners that can be called later', async (t) => {
  const { http, open } = await connected(t, (_, response) => response.end('served'))
  const serve = intercept<[Socket]>(http, 'connection')
  const answer = intercept<[IncomingMessage, ServerResponse]>(http, 'request')
  const held: Socket[] = []
  http.on('connection', (socket) => held.push(socket))
  http.on('request', (request, response) => answer(request, response))
  const connection = await open()
  connection.socket.write(GET)
  await until('a connection', () => held.length === 1)
  assert.equal(held[0]?.listenerCount('data'), 0, CHANGED)
  serve(held[0] as Socket)
  assert.equal((await connection.next())?.body, 'served', CHANGED)
})

test('Node answers a client that has closed its side, if it is told to', async (t) => {
  const { http, open } = await connected(t, (request, response) => {
    request.socket.once('end', () => setImmediate(() => response.end('served')))
  })
  allowHalfOpen(http)
  const connection = await open()
  connection.socket.end(GET)
  assert.equal((await connection.next())?.body, 'served', CHANGED)
})

test('Node closes idle connections by destroying their sockets, but for those that have sent nothing', async (t) => {
  const sockets: Socket[] = []
  const { http, open } = await connected(t, (_, response) => response.end('served'))
  http.on('connection', (socket) => sockets.push(socket))
  const [idle, busy] = [await open(), await open()]
  for (const { socket } of [idle, busy]) socket.write(GET)
  for (const connection of [idle, busy]) assert.equal((await connection.next())?.status, 200)
  await open()
  await until('the silent connection', () => sockets.length === 3)
  correctIdleConnections(http, { all: () => sockets, busy: () => sockets.slice(1, 2) })
  http.closeIdleConnections()
  assert.deepEqual(
    sockets.map(({ destroyed }) => destroyed),
    [true, false, true],
    CHANGED,
  )
  http.close()
  busy.socket.write(GET)
  assert.equal((await busy.next())?.body, 'served', CHANGED)
})

test('Node parses nothing of a connection without the listeners of its data', async (t) => {
  let requests = 0
  const sockets: Socket[] = []
  const { http, open } = await connected(t, (_, response) => {
    requests++
    response.end('served')
  })
  http.on('connection', (socket) => sockets.push(socket))
  const connection = await open()
  connection.socket.write(GET)
  await connection.next()
  stopParsing(sockets[0] as Socket)
  const bytesRead = sockets[0]?.bytesRead ?? 0
  connection.socket.write(GET)
  await until('the second request', () => (sockets[0]?.bytesRead ?? 0) > bytesRead)
  assert.equal(requests, 1, CHANGED)
})

test('Node ends a connection after its last response by destroySoon', async (t) => {
  let closed = 0
  const { open } = await connected(t, (request, response) => {
    closeAfterLastResponse(request.socket, () => {
      closed++
      request.socket.end()
    })
    response.setHeader('Connection', 'close').end('served')
  })
  const connection = await open()
  connection.socket.write(GET)
  assert.equal((await connection.next())?.body, 'served')
  await until(`the end: ${CHANGED}`, () => closed === 1)
})

test('Node asks a request for its body when it is read first', async (t) => {
  let reads = 0
  const { open } = await connected(t, async (request, response) => {
    beforeFirstRead(request, () => reads++)
    await new Promise((resolve) => setImmediate(resolve))
    const before = reads
    let body = ''
    for await (const part of request) body += part
    response.end(`${before} ${reads} ${body}`)
  })
  const connection = await open()
  connection.socket.write(EXPECTING.replace('Expect: 100-continue\r\n', ''))
  await until(`a reader: ${CHANGED}`, () => reads === 1)
  connection.socket.write('body')
  assert.equal((await connection.next())?.body, '0 1 body', CHANGED)
})

test('Node keeps a connection after a response without 100 Continue, if it is told to', async (t) => {
  const { http, open } = await connected(t, (_, response) => response.end('served'))
  http.on('checkContinue', (request, response) => {
    allowNoContinue(response)
    response.end('refused')
    request.resume()
  })
  const connection = await open()
  connection.socket.write(EXPECTING)
  assert.equal((await connection.next())?.headers.connection, 'keep-alive', CHANGED)
  connection.socket.write(`body${GET}`)
  assert.equal((await connection.next())?.body, 'served', CHANGED)
})
