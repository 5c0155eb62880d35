import assert from 'node:assert/strict'
import { test } from 'node:test'
import { longValues } from '../support/long-items.ts'
import { startProbed } from '../support/probe.ts'
import { send } from '../support/requests.ts'

/** The size of an item; up to Limits.BodyBytes. */
const BYTES = Number(process.env.LONG_ITEM_BYTES ?? 60_000)
const TIMES = Number(process.env.LONG_ITEM_TIMES ?? 2)

/** A text for which V8's own search takes as many comparisons as the product of the lengths. */
const SLOW_TO_FIND = `${'a'.repeat(500)}b${'a'.repeat(7000)}`

const QUERIES = [
  'a=5',
  'a=6',
  'a_ne=0&a_ne=7',
  'a_gt=[[[1]]]',
  'a_gte={"k1":1}',
  'a_in=1,[2],{}',
  'a_exists=true',
  'a.b.c_exists=true',
  'a.b=1',
  `a_contains=${SLOW_TO_FIND}`,
  'a_startswith=aab',
  'a_endswith=aab',
  'q=zz',
  `q=${SLOW_TO_FIND}`,
  'sort=a',
  'sort=-n,a.b',
  'a_gt=0&n=1&sort=a',
  'fields=a.b.c,n',
]

const JSON_BODY = { 'Content-Type': 'application/json' }

test('a query of huge items of any structure blocks the event loop about as long as one of short items', async (t) => {
  const short = Array.from({ length: BYTES / 100 }, (_, id) => ({ id, n: id, text: 'x'.repeat(80) }))
  const { url, longestBlock } = await startProbed(t, { data: { short } })
  const blockOf = async (path: string) => {
    const before = await send(url, 'GET', `${path}?pageSize=1`)
    await send(url, 'POST', path, { body: '{"n":9}', headers: JSON_BODY })
    const past = `asOf=${before.headers['journal-position']}&a=5&sort=a`
    return longestBlock(async () => {
      for (const query of [...QUERIES, past]) {
        const { status, text } = await send(url, 'GET', `${path}?${query}`)
        assert.equal(status, 200, `${query}: ${text}`)
      }
    }, TIMES)
  }
  const harmless = await blockOf('/api/short')
  for (const [what, json] of Object.entries(longValues(BYTES))) {
    const path = `/api/${encodeURIComponent(what)}`
    for (const body of ['{"n":1,"a":1}', '{"n":2}', `{"n":3,"a":${json}}`]) {
      assert.equal((await send(url, 'POST', path, { body, headers: JSON_BODY })).status, 201)
    }
    const block = await blockOf(path)
    assert.ok(block < 15 * harmless, `${what}: ${block} ms, against ${harmless} ms`)
  }
})
