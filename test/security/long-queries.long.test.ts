import { test } from 'node:test'
import { LONG_VALUES } from '../support/long-json.ts'
import { startServer } from '../support/server.ts'
import { queriesOf, storeLong } from './long-queries.ts'

test('every query of huge items of any structure is answered', async (t) => {
  const { url } = await startServer(t, { data: {} })
  for (const [what, json] of Object.entries(LONG_VALUES)) {
    await storeLong(url, what, json)
    await (await queriesOf(url, what))()
  }
})
