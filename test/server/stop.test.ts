import assert from 'node:assert/strict'
import { test } from 'node:test'
import { once, within } from '../support/deadline.ts'
import { openClosing, type RawConnection } from '../support/raw.ts'
import { ofOneServer, startProgram } from '../support/server.ts'

const HOST = 'Host: localhost\r\n'
const get = (path: string, fields = HOST) => `GET ${path} HTTP/1.1\r\n${fields}\r\n`
const POST = `POST /api/things HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`

const skip = ofOneServer('the connections are those of one server')

test('at SIGTERM idle connections and event streams end, and half-sent requests may still arrive', {
  skip,
}, async (t) => {
  const server = await startProgram(t, { data: { things: [] } })
  const open = async (sent: string): Promise<RawConnection> => {
    const connection = await openClosing(t, server.url)
    connection.socket.write(sent)
    return connection
  }
  const ending: RawConnection[] = [await openClosing(t, server.url)]
  for (const [sent, status] of [
    [get('/nothing'), 404],
    [get('/events?from=1', `${HOST}Accept: text/event-stream\r\n`), 200],
  ] as const) {
    const connection = await open(sent)
    if (connection.socket.bytesRead === 0) await once(connection.socket, 'data')
    assert.ok(connection.rest.startsWith(`HTTP/1.1 ${status}`), sent)
    ending.push(connection)
  }
  const arriving: [RawConnection, string][] = []
  for (const length of ['POST /api/thi'.length, POST.indexOf('localhost'), POST.length - 1]) {
    const rest = POST.slice(length)
    arriving.push([await open(POST.slice(0, length)), rest])
    const used = await open(get('/nothing') + POST.slice(0, length))
    assert.equal((await used.next())?.status, 404)
    arriving.push([used, rest])
    const usedBefore = await open(get('/nothing'))
    assert.equal((await usedBefore.next())?.status, 404)
    usedBefore.socket.write(POST.slice(0, length))
    arriving.push([usedBefore, rest])
  }
  // Answered after all of the above have arrived.
  assert.equal((await server.fetch('/nothing')).status, 404)

  const began = performance.now()
  const stopped = server.stop()
  for (const { socket } of ending) if (!socket.closed) await once(socket, 'close')
  for (const [{ socket }, rest] of arriving) socket.write(rest)
  for (const [connection] of arriving) {
    const response = await connection.next()
    // A slow machine may send the rest too late.
    const status = performance.now() - began > 2000 && response?.status === 503 ? 503 : 201
    assert.deepEqual([response?.status, response?.headers.connection], [status, 'close'])
  }
  assert.equal(await within('the end of the server', stopped), 0)
})

test('responses that a client has not read yet are complete although the server ends', { skip }, async (t) => {
  const text = 'x'.repeat(1_000_000)
  const server = await startProgram(t, { data: { things: [{ id: 1, text }] } })
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
