import assert from 'node:assert/strict'
import { test } from 'node:test'
import { send } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

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
