import { test } from 'node:test'
import { longValues } from '../support/long-items.ts'
import { startServer } from '../support/server.ts'
import { queriesOf, storeLong } from './long-queries.ts'

/** The size of an item; up to Limits.BodyBytes. */
const BYTES = Number(process.env.LONG_ITEM_BYTES ?? 60_000)

test('every query of huge items of any structure is answered', async (t) => {
  const { url } = await startServer(t, { data: {} })
  for (const [what, json] of Object.entries(longValues(BYTES))) {
    await storeLong(url, what, json)
    await (await queriesOf(url, what))()
  }
})
