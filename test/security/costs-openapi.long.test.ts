import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProbed } from '../support/probe.ts'
import { send, sendJson } from '../support/requests.ts'

test('the description of collections with wide items blocks others no longer than reading one of their items', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`member${index}`, index]))
  const items = Array.from({ length: 20 }, (_, id) => ({ id, ...wide }))
  const { url, longestBlock } = await startProbed(t, { data: { a: items, b: items, c: [{ id: 0 }] } })
  // What is loaded with the first request is.
  await send(url, 'GET', '/openapi.json')
  const blockOf = (path: string) =>
    longestBlock(async (time) => {
      await sendJson(url, 'PUT', '/api/c/0', { time })
      assert.equal((await send(url, 'GET', path)).status, 200)
    })
  const harmless = await blockOf('/api/a/0')
  const described = await blockOf('/openapi.json')
  assert.ok(described < 10 * harmless, `${described} ms, against ${harmless} ms`)
})
