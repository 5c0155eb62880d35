import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { LONG_VALUES, longObjects } from '../support/long-json.ts'
import { startProgram } from '../support/server.ts'
import { queriesOf, storeLong, watchedWrites, workOn } from './long-items.ts'

const server = await startProgram({ after }, { data: { c: [] } })

for (const [shape, item] of Object.entries(longObjects())) {
  test(`an item of the structure "${shape}" can be written, patched, read, imported and restored`, async () => {
    await workOn(server, item, (_, work) => work())
  })
}

test('every query of huge items of any structure is answered', async (t) => {
  const { url } = await startProgram(t, { data: {} })
  for (const [what, json] of Object.entries(LONG_VALUES)) {
    await storeLong(url, what, json)
    await (await queriesOf(url, what))()
  }
})

test('subscribers to a hundred queries are told of a write of a huge item of any structure', async (t) => {
  const { url } = await startProgram(t, { data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
  let changes = 0
  for (const [what, json] of Object.entries(LONG_VALUES)) {
    const writes = await watchedWrites(t, url, what, json)
    await writes.deaf()
    await writes.watched()
    changes += writes.changes()
  }
  assert.ok(changes > 0, 'those whom it concerns were told')
})
