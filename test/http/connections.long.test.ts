import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { once, until, within } from '../support/deadline.ts'
import { openClosing, openRaw, type RawConnection } from '../support/raw.ts'
import { KOA_LINE, send } from '../support/requests.ts'
import { ofOneServer, startProgram } from '../support/server.ts'

/** Pages of them are longer than what the kernel keeps for a reader. */
const long = Array.from({ length: 50 }, (_, id) => ({ id, text: 'x'.repeat(300_000) }))
const things = Array.from({ length: 2000 }, (_, id) => ({ id, text: 'x'.repeat(100) }))
const { url } = await startProgram({ after }, { data: { things, long } })

const flags = ['--Http.KeepAliveSeconds', '1', '--Limits.HeaderSeconds', '1']
const impatient = await startProgram({ after }, { data: { posted: [] }, flags })

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

test('a read pipelined behind writes shows them', async (t) => {
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

test('pipelined writes of items are made in their order, long and short, also while others write long ones', async (t) => {
  let isOver = false
  const others = Array.from({ length: 4 }, async (_, id) => {
    const headers = { 'Content-Type': 'application/merge-patch+json' }
    for (let n = 0; !isOver; n++) await send(url, 'PATCH', `/api/long/${id}`, { headers, body: `{"n":${n}}` })
  })
  try {
    for (let round = 0; round < 20; round++) {
      const connection = await openClosing(t, url)
      const name = `ordered${round}`
      const to = (path: string, body: string) =>
        `${path} HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      const text = (n: number): string => (n % 4 === 1 ? 'x'.repeat(100_000) : '')
      const writes = Array.from({ length: 12 }, (_, n) => to(`POST /api/${name}`, `{"n":${n},"text":"${text(n)}"}`))
      connection.socket.write(writes.join(''))
      for (const _ of writes) assert.equal((await connection.next())?.status, 201)
      const items = (await send(url, 'GET', `/api/${name}?sort=id`)).json<{ n: number }[]>()
      const expected = writes.map((_, n) => n)
      assert.deepEqual(
        items.map(({ n }) => n),
        expected,
        `round ${round}`,
      )
    }
  } finally {
    isOver = true
    await Promise.all(others)
  }
})

test('a pipelined write does not pass another whose body is compressed, long or a list', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 3700 }, (_, n) => [`ké${n}${'y'.repeat(200)}`, n]))
  const list = Array.from({ length: 3000 }, (_, id) => ({ id }))
  const sent = (method: string, path: string, body: string | Buffer, fields = ''): Buffer => {
    const type = method === 'DELETE' ? '' : 'Content-Type: application/json\r\n'
    const head = `${method} ${path} HTTP/1.1\r\n${HOST}${type}${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`
    return Buffer.concat([Buffer.from(head), Buffer.from(body)])
  }
  const gzip = 'Content-Encoding: gzip\r\n'
  const removal = (path: string): Buffer => sent('DELETE', path, '')
  const rounds: readonly (readonly [about: string, requests: readonly Buffer[], statuses: readonly number[]])[] = [
    [
      'a long one, and a short one',
      [
        sent('PUT', '/api/passed/1', JSON.stringify(wide)),
        sent('PUT', '/api/passed/1', '{"n":2}'),
        removal('/api/passed/1'),
      ],
      [201, 204, 204],
    ],
    [
      'a compressed one',
      [sent('PUT', '/api/passed/2', gzipSync('{"n":1}'), gzip), removal('/api/passed/2')],
      [201, 204],
    ],
    ['a list', [sent('POST', '/api/passedList', JSON.stringify(list)), removal('/api/passedList/2999')], [201, 204]],
  ]
  const upsert = await startProgram(t, { flags: ['--Api.UpsertOnPut', 'true', '--Api.ClientIdsOnPost', 'true'] })
  for (const [about, requests, statuses] of rounds) {
    const connection = await openClosing(t, upsert.url)
    connection.socket.write(Buffer.concat(requests))
    for (const status of statuses) assert.equal((await connection.next())?.status, status, about)
  }
  assert.equal((await send(upsert.url, 'GET', '/api/passed')).text, '[]')
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

async function ask(connection: RawConnection, request: string) {
  connection.socket.write(request)
  return connection.next()
}

test('no POST is lost on a connection that is used again as late as the server announced, or later on the way', async (t) => {
  const pausesMs = [1000, 3500]
  const clients = pausesMs.flatMap((pauseMs) =>
    [HOST, OF_KOA].map(async (fields) => {
      const connection = await openRaw(t, impatient.url)
      for (let count = 0; count < 2; count++) {
        const posted = await ask(connection, post('{}', fields))
        assert.equal(posted?.status, 201, `POST ${count}, every ${pauseMs} ms`)
        assert.equal(posted.headers['keep-alive'], 'timeout=1')
        await sleep(pauseMs)
      }
    }),
  )
  await Promise.all(clients)
  const connection = await openRaw(t, impatient.url)
  const found = await ask(connection, get('/api/posted'))
  assert.equal(JSON.parse(found?.body ?? '').length, clients.length * 2)
})

test('every response announces the same time', async (t) => {
  const connection = await openRaw(t, impatient.url)
  for (const request of [
    get('/api/posted'),
    get('/api/posted', OF_KOA),
    get('/api/nothing'),
    get('/'),
    get('/socket.io/?EIO=4&transport=polling'),
    get('/api', `${HOST}Connection: Upgrade\r\nUpgrade: h2c\r\n`),
  ]) {
    const response = await ask(connection, request)
    assert.equal(response?.headers.connection, 'keep-alive', request)
    assert.equal(response.headers['keep-alive'], 'timeout=1', request)
  }
})

test('a connection that stays idle is closed, one with an event stream is not', async (t) => {
  const stream = await openRaw(t, impatient.url)
  stream.socket.write(get('/events?from=1', `${HOST}Accept: text/event-stream\r\n`))
  const idle = await openRaw(t, impatient.url)
  assert.equal((await ask(idle, get('/api')))?.status, 200)
  assert.equal(await idle.next(), undefined)
  assert.equal(stream.socket.readableEnded || stream.socket.destroyed, false)
})

const ITEMS = 30_000
const CLIENTS = 40

const skip = ofOneServer('each node counts for itself, and is asked by itself')

/** How many GETs of a collection were answered so, as `/metrics` counts them. */
async function answeredWith(url: string, status: number): Promise<number> {
  const { text } = await send(url, 'GET', '/metrics')
  const series = `recollect_http_request_duration_seconds_count{method="GET",route="/api/:collection",status="${status}"}`
  const line = text.split('\n').find((one) => one.startsWith(series))
  return line ? Number(line.slice(series.length)) : 0
}

/** Asks, each over a connection of its own, which is cut once all have been read. */
async function askAndGo(url: string, paths: readonly string[], headers: string): Promise<void> {
  const port = Number(new URL(url).port)
  const sockets = await Promise.all(
    paths.map((path) =>
      within(
        `a connection for GET ${path}`,
        new Promise<Socket>((resolve, reject) => {
          const socket = connect(port, '127.0.0.1', () => {
            socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`, () => resolve(socket))
          })
          socket.once('error', reject)
        }),
      ),
    ),
  )
  assert.equal((await send(url, 'GET', '/api/things/1')).status, 200)
  for (const socket of sockets) socket.destroy()
}

for (const [way, headers] of [
  ['through the fast front', ''],
  ['through Koa', `${KOA_LINE}\r\n`],
] as const) {
  test(`a search stops when the client disconnects, ${way}`, { skip }, async (t) => {
    const things = Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0 }))
    const { url } = await startProgram(t, { data: { things } })
    const type = { 'Content-Type': 'application/json' }
    for (let id = 0; id < CLIENTS; id++) {
      await send(url, 'PUT', `/api/things/${id}`, { headers: type, body: `{"n":${id}}` })
    }
    const works = {
      'a text in all items': (client: number) => `/api/things?q=nothing-${client}`,
      'the past of a collection': (client: number) => `/api/things?asOf=${ITEMS + 1 + client}&pageSize=1`,
    }
    for (const [work, pathOf] of Object.entries(works)) {
      // Any search of a round may be over before its client is gone.
      const first = await answeredWith(url, 400)
      await until(`most searches of a round for ${work} are stopped, in one round or several`, async () => {
        const [answered, stopped] = [await answeredWith(url, 200), await answeredWith(url, 400)]
        await askAndGo(
          url,
          Array.from({ length: CLIENTS }, (_, client) => pathOf(client)),
          headers,
        )
        await until(
          'all were answered, or stopped',
          async () => (await answeredWith(url, 200)) + (await answeredWith(url, 400)) === answered + stopped + CLIENTS,
        )
        return (await answeredWith(url, 400)) - first > CLIENTS / 2
      })
      assert.equal((await send(url, 'GET', pathOf(0))).status, 200, 'and it is answered to others')
    }
  })
}

test('a client that disconnects in the middle of a long response affects nobody', { skip }, async (t) => {
  const long = Array.from({ length: 200 }, (_, id) => ({ id, text: 'x'.repeat(50_000) }))
  const { url, stderr } = await startProgram(t, { data: { long } })
  for (const headers of ['', `${KOA_LINE}\r\n`]) {
    for (let client = 0; client < 10; client++) {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.write(`GET /api/long HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`)
      await once(socket, 'data')
      socket.destroy()
    }
  }
  const { status, text } = await send(url, 'GET', '/api/long')
  assert.equal(status, 200)
  assert.equal((JSON.parse(text) as unknown[]).length, 200)
  assert.doesNotMatch(stderr(), /"level":[56]0/)
})
