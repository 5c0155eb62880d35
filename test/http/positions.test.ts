import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

const { url } = await startServer({ after }, { data: { things: [{ id: 1 }], moving: [{ id: 1, n: 0 }] } })

function positionOf({ headers }: Reply): number {
  const text = String(headers['journal-position'])
  assert.match(text, /^(0|[1-9]\d*)$/)
  return Number(text)
}

test('a write returns the position of its last event, and the next one follows it', async () => {
  const start = positionOf(await send(url, 'GET', '/api'))
  const created = await sendJson(url, 'POST', '/api/fresh', {})
  assert.equal(positionOf(created), start + 2, 'CollectionCreated and ItemCreated')
  const path = String(created.headers.location)
  assert.equal(positionOf(await sendJson(url, 'PUT', path, { n: 1 })), start + 3)
  assert.equal(positionOf(await sendJson(url, 'PATCH', path, { n: 2 })), start + 4)
  assert.equal(positionOf(await sendJson(url, 'PUT', path, { n: 2 })), start + 5, 'also when the data stays the same')
  assert.equal(positionOf(await send(url, 'DELETE', path)), start + 6)
  const types = (await send(url, 'GET', `/events?from=${start + 1}`)).json<{ position: number; type: string }[]>()
  assert.deepEqual(
    types.map(({ position, type }) => [position, type]),
    [
      [start + 1, 'CollectionCreated'],
      [start + 2, 'ItemCreated'],
      [start + 3, 'ItemReplaced'],
      [start + 4, 'ItemPatched'],
      [start + 5, 'ItemReplaced'],
      [start + 6, 'ItemDeleted'],
    ],
  )
})

test('every other response under /api has the position that it shows, and appends nothing', async () => {
  const position = positionOf(await send(url, 'GET', '/api'))
  for (const [method, path, headers] of [
    ['GET', '/api'],
    ['GET', '/api/'],
    ['HEAD', '/api/things'],
    ['GET', '/api/things/1'],
    ['GET', '/api/things/1/id'],
    ['GET', '/api/things?page=0'],
    ['GET', '/api/things/2'],
    ['GET', '/api/unknown/2'],
    ['GET', '/api/%zz'],
    ['GET', '/api//'],
    ['GET', '/api/things', { 'If-None-Match': '*' }],
    ['OPTIONS', '/api/things/1'],
    ['DELETE', '/api/things/2'],
    ['DELETE', '/api/things/1', { 'If-Match': '"x"' }],
    ['POST', '/api/things'],
    ['PUT', '/api/things/1', { 'Content-Type': 'text/plain' }],
    ['PROPFIND', '/api/things'],
  ] as const) {
    assert.equal(positionOf(await send(url, method, path, { headers: headers ?? {} })), position, `${method} ${path}`)
  }
})

test('a client reads its own writes, whatever else is written', async () => {
  await Promise.all(
    Array.from({ length: 50 }, async (_, n) => {
      const created = await sendJson(url, 'POST', '/api/own', { n })
      const path = String(created.headers.location)
      const read = await send(url, 'GET', path)
      assert.equal(read.json<{ n: number }>().n, n)
      assert.ok(positionOf(read) >= positionOf(created))
      await sendJson(url, 'PATCH', path, { m: n })
      assert.equal((await send(url, 'GET', path)).json<{ m: number }>().m, n)
      await send(url, 'DELETE', path)
      assert.equal((await send(url, 'GET', path)).status, 404)
    }),
  )
})

test('a response shows the state at its position', async (t) => {
  const reads: { item: unknown; position: number }[] = []
  let writing = true
  t.after(() => {
    writing = false
  })
  const write = async (): Promise<void> => {
    for (let n = 1; n <= 150; n++) {
      assert.equal((await sendJson(url, 'PUT', '/api/moving/1', { n })).status, 204)
    }
  }
  const elsewhere = async (): Promise<void> => {
    while (writing) await sendJson(url, 'POST', '/api/things', {})
  }
  const read = async (): Promise<void> => {
    while (writing) {
      const reply = await send(url, 'GET', '/api/moving/1')
      reads.push({ item: reply.json(), position: positionOf(reply) })
      const all = await send(url, 'GET', '/api/moving')
      reads.push({ item: all.json<unknown[]>()[0], position: positionOf(all) })
    }
  }
  const others = [elsewhere(), read(), read(), read()]
  await write()
  writing = false
  await Promise.all(others)
  const events = (await send(url, 'GET', '/events?collection=moving&limit=1000')).json<
    { position: number; item?: unknown }[]
  >()
  assert.ok(reads.length > 10)
  for (const { item, position } of reads) {
    const last = events.filter((event) => event.item && event.position <= position).at(-1)
    assert.deepEqual(item, last?.item, `at position ${position}`)
  }
})
