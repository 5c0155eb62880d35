import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { send } from '../support/requests.ts'
import { json } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const QUERIES = ['', 'n=1', 'n_gt=2&sort=-n&pageSize=3', 'sort=n&page=2&pageSize=2', 'q=b', 'fields=n', 'asOf=3']
const HEADERS = ['etag', 'x-total-count', 'link', 'journal-position', 'content-type', 'content-length']

test('cached responses equal those of the first request', async (t) => {
  const random = new Random(SEED)
  const server = await startServer(t, { data: { a: [{ n: 1 }, { n: 2 }, { n: 3 }], b: [] } })
  const ask = async (path: string, headers: Record<string, string>) => {
    const response = await server.fetch(path, { headers })
    const told = HEADERS.map((name) => response.headers.get(name))
    return { status: response.status, told, text: await response.text() }
  }
  // An empty parameter has no effect, but makes another text.
  let others = 0
  for (let step = 0; step < 120; step++) {
    const context = `SEED=${SEED}, step ${step}`
    const collection = random.pick(['a', 'b'])
    if (random.chance(0.3)) {
      const [method, path] = random.pick([
        ['POST', `/api/${collection}`],
        ['PUT', '/api/a/1'],
      ])
      const written = await server.fetch(path as string, json(method as string, { n: random.integer(6), t: 'bob' }))
      assert.ok(written.ok, context)
      continue
    }
    const query = random.pick(QUERIES)
    const first = await ask(`/api/${collection}?${query}${'&'.repeat(1 + ++others)}`, {})
    for (let time = 0; time < 6; time++) {
      // A page of another origin is answered by Koa.
      const headers: Record<string, string> = random.chance(0.3) ? { Origin: 'http://elsewhere.example' } : {}
      const search = random.chance(0.5) ? query : `_=${time}&${query}`
      assert.deepEqual(await ask(`/api/${collection}?${search}`, headers), first, context)
    }
    // There was no such collection then.
    if (first.status === 404) continue
    const tag = first.told[0] as string
    const again = await server.fetch(`/api/${collection}?${query}`, { headers: { 'If-None-Match': tag } })
    assert.equal(again.status, 304, context)
    assert.equal(await again.text(), '')
  }
})

test('the configured indexes of a collection that a request creates are built without a query', async (t) => {
  const flags = ['--Collections', JSON.stringify({ readings: { Indexes: ['mac,at', 'value'] } })]
  const server = await startServer(t, { data: { other: [] }, flags })
  const hasIndexes = async (entries: number): Promise<boolean> => {
    const metrics = await (await server.fetch('/metrics')).text()
    return ['mac,at', 'value'].every((path) =>
      metrics.includes(`recollect_index_entries{collection="readings",path="${path}"} ${entries}\n`),
    )
  }
  await server.fetch('/api/readings', json('POST', { mac: 'a', at: 1, value: 2 }))
  await until('the indexes of the new collection', () => hasIndexes(1))
  await server.fetch('/api/readings?all=true', { method: 'DELETE' })
  await server.fetch('/api/readings', json('POST', [{ mac: 'b' }, { mac: 'c' }]))
  await until('those of the collection that was created again', () => hasIndexes(2))
})

const SEARCHES = 64

test('many long searches at once are answered one after the other, and short requests in between', async (t) => {
  const things = Array.from({ length: 20_000 }, (_, id) => ({ id, name: `thing ${id} ${'x'.repeat(100)}` }))
  const { url } = await startServer(t, { data: { things } })
  let short = 0
  let isDone = false
  /** For each answer to a search, the number of short requests that were answered before it. */
  const before: number[] = []
  const searches = Array.from({ length: SEARCHES }, async (_, index) => {
    const { status, text } = await send(url, 'GET', `/api/things?name_contains=${index}.x`)
    assert.deepEqual([status, text], [200, '[]'])
    before.push(short)
  })
  const asking = (async () => {
    for (; !isDone; short++) assert.equal((await send(url, 'GET', `/api/things/${short % 1000}`)).status, 200)
  })()
  await Promise.all(searches)
  isDone = true
  await asking
  const different = new Set(before).size
  assert.ok(different >= SEARCHES / 2, `the answers came at ${different} different times: ${before}`)
  const half = before.filter((count) => count <= short / 2).length
  assert.ok(half >= SEARCHES / 4, `${half} answers came in the first half: ${before} of ${short}`)
})
