import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openRaw, type RawConnection } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

const flags = ['--Http.KeepAliveSeconds', '1', '--Limits.HeaderSeconds', '1']
const { url } = await startServer({ after }, { data: { readings: [] }, flags })

const HOST = 'Host: localhost\r\n'
const OF_KOA = `${HOST}${KOA_LINE}\r\n`
const get = (path: string, fields = HOST) => `GET ${path} HTTP/1.1\r\n${fields}\r\n`
const post = (fields: string) =>
  `POST /api/readings HTTP/1.1\r\n${fields}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`

async function ask(connection: RawConnection, request: string) {
  connection.socket.write(request)
  return connection.next()
}

test('no POST is lost on a connection that is used again as late as the server announced, or later on the way', async (t) => {
  const pausesMs = [1000, 3500]
  const clients = pausesMs.flatMap((pauseMs) =>
    [HOST, OF_KOA].map(async (fields) => {
      const connection = await openRaw(t, url)
      for (let count = 0; count < 2; count++) {
        const posted = await ask(connection, post(fields))
        assert.equal(posted?.status, 201, `POST ${count}, every ${pauseMs} ms`)
        assert.equal(posted.headers['keep-alive'], 'timeout=1')
        await sleep(pauseMs)
      }
    }),
  )
  await Promise.all(clients)
  const connection = await openRaw(t, url)
  const found = await ask(connection, get('/api/readings'))
  assert.equal(JSON.parse(found?.body ?? '').length, clients.length * 2)
})

test('every response announces the same time', async (t) => {
  const connection = await openRaw(t, url)
  for (const request of [
    get('/api/readings'),
    get('/api/readings', OF_KOA),
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
  const stream = await openRaw(t, url)
  stream.socket.write(get('/events?from=1', `${HOST}Accept: text/event-stream\r\n`))
  const idle = await openRaw(t, url)
  assert.equal((await ask(idle, get('/api')))?.status, 200)
  assert.equal(await idle.next(), undefined)
  assert.equal(stream.socket.readableEnded || stream.socket.destroyed, false)
})
