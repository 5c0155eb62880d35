import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { once } from '../support/deadline.ts'
import { openClosing, openRaw } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

/** Pages of them are longer than what the kernel keeps for a reader. */
const long = Array.from({ length: 50 }, (_, id) => ({ id, text: 'x'.repeat(300_000) }))
const things = Array.from({ length: 2000 }, (_, id) => ({ id, text: 'x'.repeat(100) }))
const { url } = await startServer({ after }, { data: { things, long } })

const HOST = 'Host: localhost\r\n'
const OF_KOA = `${HOST}${KOA_LINE}\r\n`
const get = (path: string, fields = HOST) => `GET ${path} HTTP/1.1\r\n${fields}\r\n`
const post = (body: string, fields = HOST) =>
  `POST /api/posted HTTP/1.1\r\n${fields}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

test('pipelined requests are answered in order', async (t) => {
  const connection = await openClosing(t, url)
  const kinds: readonly (readonly [string, (body: string) => boolean])[] = [
    [get('/api/things/7'), (body) => JSON.parse(body).id === 7],
    [get('/api/things/8', OF_KOA), (body) => JSON.parse(body).id === 8],
    [get('/api/things?q=nothing'), (body) => body === '[]'],
    [get('/openapi.json'), (body) => JSON.parse(body).openapi === '3.1.0'],
    [get('/socket.io/?EIO=4&transport=polling'), (body) => body.startsWith('0{"sid"')],
    [get('/api/things?pageSize=2000'), (body) => JSON.parse(body).length === 2000],
    [get('/'), (body) => body.startsWith('<!doctype html>')],
    [get('/nothing'), (body) => JSON.parse(body).status === 404],
  ]
  const rounds = 20
  const sent = Array.from({ length: rounds }, () => kinds.map(([text]) => text).join('')).join('')
  connection.socket.write(sent)
  for (let round = 0; round < rounds; round++) {
    for (const [request, isRight] of kinds) {
      const response = await connection.next()
      assert.ok(response && isRight(response.body), `${request}${response?.body.slice(0, 200)}`)
    }
  }
})

test('a read pipelined behind a write shows it, and the writes share a flush', async (t) => {
  for (const fields of [HOST, OF_KOA]) {
    const connection = await openClosing(t, url)
    const writes = 200
    let sent = ''
    for (let n = 0; n < writes; n++) sent += post(`{"n":${n}}`, fields)
    connection.socket.write(sent + get('/api/posted?sort=-id&pageSize=1', fields) + get('/api/posted', fields))
    for (let n = 0; n < writes; n++) assert.equal((await connection.next())?.status, 201)
    const [last] = JSON.parse((await connection.next())?.body ?? '') as { n: number }[]
    assert.equal(last?.n, writes - 1)
    await connection.next()
  }
})

test('a truncated last request is rejected after the earlier ones were answered', async (t) => {
  const connection = await openClosing(t, url)
  connection.socket.write(`${get('/api/things?q=nothing').repeat(50)}${get('/api/things/7')}rubbish\r\n\r\n`)
  for (let n = 0; n < 50; n++) assert.equal((await connection.next())?.body, '[]')
  assert.equal(JSON.parse((await connection.next())?.body ?? '').id, 7)
  assert.equal((await connection.next())?.status, 400)
  assert.equal(await connection.next(), undefined)
  assert.equal(connection.failure, undefined)
})

test('a long response before a WebSocket upgrade is complete', async (t) => {
  const connection = await openRaw(t, url)
  const upgrade = `${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`
  for (const path of ['/api/things/7', '/api/long']) connection.socket.write(get(path))
  connection.socket.write(get('/ws', upgrade))
  assert.equal((await connection.next())?.status, 200)
  assert.equal((JSON.parse((await connection.next())?.body ?? '') as unknown[]).length, long.length)
  while (!connection.rest.includes('\r\n\r\n')) await once(connection.socket, 'data')
  assert.match(connection.rest, /^HTTP\/1\.1 101 /)
})

test('a WebSocket is opened after the requests before it are answered', async (t) => {
  const connection = await openRaw(t, url)
  const upgrade = `${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`
  connection.socket.write(get('/api/things?q=nothing') + get('/openapi.json') + get('/ws', upgrade))
  assert.equal((await connection.next())?.body, '[]')
  assert.equal((await connection.next())?.status, 200)
  while (!connection.rest.includes('\r\n\r\n')) await once(connection.socket, 'data')
  assert.match(connection.rest, /^HTTP\/1\.1 101 /)
})

for (const [way, fields] of [
  ['through the fast front', HOST],
  ['through Koa', OF_KOA],
] as const) {
  test(`requests behind an upgrade to another protocol are answered in order and executed once, ${way}`, async (t) => {
    const connection = await openClosing(t, url)
    const offer = `${fields}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n`
    const rounds = 10
    const round = post('{}', fields) + get('/api/things/7', offer) + post('{}', offer) + get('/openapi.json', fields)
    connection.socket.write(round.repeat(rounds))
    const ids: number[] = []
    for (let at = 0; at < rounds; at++) {
      ids.push(JSON.parse((await connection.next())?.body ?? '').id)
      assert.equal(JSON.parse((await connection.next())?.body ?? '').id, 7)
      ids.push(JSON.parse((await connection.next())?.body ?? '').id)
      assert.equal(JSON.parse((await connection.next())?.body ?? '').openapi, '3.1.0')
    }
    const first = ids[0] as number
    assert.deepEqual(
      ids,
      ids.map((_, index) => first + index),
    )
  })
}

test('a client that closes its side after its request gets the response', async (t) => {
  for (const fields of [HOST, OF_KOA]) {
    for (const request of [post('{"half":true}', fields), get('/api/things/7', fields), get('/openapi.json', fields)]) {
      const connection = await openRaw(t, url)
      connection.socket.end(request.repeat(3))
      for (let n = 0; n < 3; n++) assert.match(String((await connection.next())?.status), /^20[01]$/)
      assert.equal(await connection.next(), undefined)
    }
  }
})
