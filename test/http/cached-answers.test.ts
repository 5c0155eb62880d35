import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { json, startServer } from '../support/server.ts'

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
