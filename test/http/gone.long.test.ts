import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { once, until, within } from '../support/deadline.ts'
import { KOA_LINE, send } from '../support/requests.ts'
import { ofOneServer, startServer } from '../support/server.ts'

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
    const { url } = await startServer(t, { data: { things } })
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
  const { url, stderr } = await startServer(t, { data: { long } })
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
