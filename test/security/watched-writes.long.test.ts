import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONG_VALUES } from '../support/long-json.ts'
import { startServer } from '../support/server.ts'
import { watchedWrites } from './watched-writes.ts'

test('subscribers to a hundred queries are told of a write of a huge item of any structure', async (t) => {
  const { url } = await startServer(t, { data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
  let changes = 0
  for (const [what, json] of Object.entries(LONG_VALUES)) {
    const writes = await watchedWrites(t, url, what, json)
    await writes.deaf()
    await writes.watched()
    changes += writes.changes()
  }
  assert.ok(changes > 0, 'those whom it concerns were told')
})
