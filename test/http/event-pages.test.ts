import assert from 'node:assert/strict'
import { test } from 'node:test'
import { send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

test('a page of long events is one JSON array with a Content-Length, in either order', async (t) => {
  const { url } = await startServer(t, { data: {} })
  const texts = Array.from({ length: 9 }, (_, n) => 'é'.repeat(n % 2 === 0 ? 400_000 : 10))
  for (const text of texts) assert.equal((await sendJson(url, 'POST', '/api/long', { text })).status, 201)
  for (const order of ['asc', 'desc']) {
    const page = await send(url, 'GET', `/events?type=ItemCreated&limit=8&order=${order}`)
    assert.equal(page.status, 200)
    assert.equal(page.headers['content-length'], String(Buffer.byteLength(page.text)))
    const found = page.json<{ item: { text: string } }[]>().map(({ item }) => item.text.length)
    const lengths = texts.map(({ length }) => length)
    assert.deepEqual(found, (order === 'asc' ? lengths : lengths.toReversed()).slice(0, 8))
    assert.match(page.headers.link as string, /rel="next"/)
  }
})
