import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProbed } from '../support/probe.ts'
import { send, sendJson } from '../support/requests.ts'

const MEMBERS = 10_000
const TEXT = 'x'.repeat(400)
const LONGEST_MS = 30

test('describing a collection of wide items blocks the event loop for at most 30 ms', async (t) => {
  const wide = Object.fromEntries(Array.from({ length: MEMBERS }, (_, index) => [`member${index}`, TEXT]))
  const items = Array.from({ length: 20 }, (_, id) => ({ id, ...wide }))
  const { url, longestBlock } = await startProbed(t, { data: { a: items, c: [{ id: 0 }] } })
  // The first request loads modules.
  await send(url, 'GET', '/openapi.json')
  const described = await longestBlock(async (time) => {
    await sendJson(url, 'PUT', '/api/c/0', { time })
    assert.equal((await send(url, 'GET', '/openapi.json')).status, 200)
  }, 5)
  assert.ok(described < LONGEST_MS, `${described} ms`)
  t.diagnostic(`${described.toFixed(1)} ms`)
})
