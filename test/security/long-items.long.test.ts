import { after, test } from 'node:test'
import { longObjects } from '../support/long-json.ts'
import { startServer } from '../support/server.ts'
import { workOn } from './long-item-works.ts'

const server = await startServer({ after }, { data: { c: [] } })

for (const [shape, item] of Object.entries(longObjects())) {
  test(`an item of the structure "${shape}" can be written, patched, read, imported and restored`, async () => {
    await workOn(server, item, (_, work) => work())
  })
}
