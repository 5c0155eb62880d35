import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { apiResources } from '../../src/http/api.ts'
import { type HttpRequest, Reply } from '../../src/http/exchange.ts'
import { waitForPosition } from '../../src/http/pipeline.ts'
import { Document } from '../../src/json/document.ts'
import { Arrivals } from '../../src/projections/arrivals.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { UNLIMITED } from '../../src/runtime/memory.ts'
import { Turns } from '../../src/runtime/turns.ts'
import { apiRequest } from '../support/api.ts'
import { project, recordOf, storedHistory } from '../support/collections.ts'
import { type Reply as Response, send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/service.ts'

const { url } = await startServer(
  { after },
  {
    data: { things: [{ id: 1 }], moving: [{ id: 1, n: 0 }] },
    flags: ['--Limits.WaitSeconds', '600', '--Api.UpsertOnPut', 'true'],
  },
)

function positionOf({ headers }: Response): number {
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

test('a read with a minimum position that is reached is answered at once', async () => {
  for (const path of ['/api', '/api/things', '/api/things/1', '/api/things/1/id']) {
    const reply = await send(url, 'GET', path, {
      headers: { 'Wait-For-Position': String(positionOf(await send(url, 'GET', '/api'))) },
    })
    assert.equal(reply.status, 200)
  }
})

test('a read with a later minimum position waits for it', async () => {
  const next = positionOf(await send(url, 'GET', '/api')) + 1
  const read = send(url, 'GET', '/api/things/2', { headers: { 'Wait-For-Position': String(next) } })
  await sendJson(url, 'PUT', '/api/things/2', { n: 2 })
  const reply = await read
  assert.equal(reply.status, 200)
  assert.equal(Number(reply.headers['journal-position']), next)
})

test('a position that is not reached in time gets 503 with Retry-After, and an invalid one gets 400', async (t) => {
  const impatient = await startServer(t, { data: { things: [] }, flags: ['--Limits.WaitSeconds', '1'] })
  for (const method of ['GET', 'HEAD']) {
    const late = await send(impatient.url, method, '/api/things', { headers: { 'Wait-For-Position': '1000' } })
    assert.equal(late.status, 503)
    assert.equal(late.headers['retry-after'], '1')
    if (method === 'GET') assert.equal(late.json<{ type: string }>().type, 'urn:recollect:problem:Lagging')
  }
  for (const wrong of ['-1', 'x', '1.5', '', '9'.repeat(30)]) {
    const reply = await send(url, 'GET', '/api/things', { headers: { 'Wait-For-Position': wrong } })
    assert.equal(reply.status, 400, wrong)
  }
})

test('at most a thousand reads wait for a position; others are rejected at once', async () => {
  let position = 1
  const arrivals = new Arrivals()
  const wait = waitForPosition({ position: () => position, arrivals, waitSeconds: 3600 })
  const ask = async () => {
    await wait(apiRequest('/api', '', { 'wait-for-position': '2' }), new Reply())
    return position
  }
  const waiting = Array.from({ length: 1000 }, ask)
  await assert.rejects(ask(), { code: 'Lagging' })
  position = 2
  arrivals.apply()
  assert.deepEqual(new Set(await Promise.all(waiting)), new Set([2]))
  position = 1
  const later = ask()
  position = 2
  arrivals.apply()
  assert.equal(await later, 2)
})

const LIMITS = {
  bytes: 1000,
  parameters: 10,
  pageSize: 100,
  scanSeconds: 1,
  bodyBytes: 1000,
  itemValues: 1000,
  batchBytes: 1000,
  batchItems: 1,
}

/** The routes over views of one collection with one item, whose `n` is the position that it came from. */
function served(turns = new Turns()) {
  const now = () => new Date()
  const views = Views.temporary()
  const history = storedHistory(views)
  const journal = {
    id: '00000000-0000-4000-8000-000000000000',
    timeMs: 0,
    get head() {
      return views.position
    },
    async *read() {},
    async *at() {},
  }
  const apply = (event: DomainEvent): void => {
    project(views, recordOf(views.position + 1, [event], now().getTime()))
  }
  const write = (): void => {
    const position = views.position + 1
    const item = Document.of({ id: 1, n: position })
    const stamp = { collection: 'things', id: 1, revision: position - 1, prior: position === 2 ? 0 : position - 1 }
    apply({ type: position === 2 ? 'ItemCreated' : 'ItemReplaced', ...stamp, item })
  }
  apply({ type: 'CollectionCreated', collection: 'things' })
  write()
  const handler = {
    bulk: () => Promise.reject(new Error('nothing is written')),
    delete: () => Promise.reject(new Error('nothing is deleted')),
    restore: () => Promise.reject(new Error('nothing is restored')),
    handle: () => Promise.reject(new Error('nothing is written here')),
  }
  const past = new Past(journal, views, history, UNLIMITED)
  const queries = new Queries({ views, bytes: 2 ** 20, turns })
  const hints = { check: () => true }
  const resources = apiResources({
    views,
    handler,
    past,
    queries,
    journal,
    now,
    hints,
    isJsonServer: false,
    foreignKeySuffix: 'Id',
    times: new Map(),
    limits: LIMITS,
    turns,
    useResultObject: false,
    idField: 'id',
  })
  const ask = async (path: string, querystring: string, headers: HttpRequest['headers'] = {}, reply = new Reply()) => {
    const resource = resources.find((one) => one.path.split('/').length === path.split('/').length)
    await resource?.routes.GET?.(apiRequest(path, querystring, headers), reply)
    return reply
  }
  return { apply, write, ask }
}

/** Lets so many others that wait for nothing go first. */
async function pass(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await undefined
}

for (const [path, shown] of [
  ['/api/things/1', (body: string) => (JSON.parse(body) as { n: number }).n],
  ['/api/things/1/n', Number],
  ['/api/things', (body: string) => (JSON.parse(body) as [{ n: number }])[0].n],
] as const) {
  test(`${path} shows the state at the position that it names, when events are appended meanwhile`, async () => {
    const { write, ask } = served()
    for (let turns = 0; turns < 20; turns++) {
      const asked = ask(path, 'x_exists=false')
      await pass(turns)
      write()
      const { body, position } = await asked
      assert.equal(position, shown(String(body)), `an event ${turns} turns after the question`)
    }
  })
}

test('a 304 of a collection has the position of the matching ETag', async () => {
  const { write, ask } = served()
  for (let turns = 0; turns < 20; turns++) {
    const asked = ask('/api/things', 'x_exists=false', { 'if-none-match': '*' })
    await pass(turns)
    write()
    const { status, headers, position } = await asked
    assert.equal(status, 304)
    assert.equal(headers[headers.indexOf('ETag') + 1], `"${position}-00000000-0000-4000-8000-000000000000"`)
  }
})

test('a collection that is removed during a scan is returned as it was at the begin of the request', async () => {
  let time = 0
  // Every look at the clock takes a millisecond, so that nothing is done at once.
  const { apply, ask } = served(new Turns({ now: () => time++ }))
  for (let id = 2; id < 50; id++) {
    apply({ type: 'ItemCreated', collection: 'things', id, revision: 1, prior: 0, item: Document.of({ id }) })
  }
  const asked = ask('/api/things', 'q=4')
  apply({ type: 'ItemDeleted', collection: 'things', id: 4, revision: 2, prior: 5 })
  apply({ type: 'CollectionRemoved', collection: 'things' })
  const { body, position, headers } = await asked
  assert.deepEqual(
    (JSON.parse(String(body)) as { id: number }[]).map(({ id }) => id),
    [4, 14, 24, 34, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49],
  )
  assert.equal(position, 50)
  assert.equal(headers[headers.indexOf('ETag') + 1], '"50-00000000-0000-4000-8000-000000000000"')
  await assert.rejects(ask('/api/things', 'q=4'), { code: 'NotFound' })
})
