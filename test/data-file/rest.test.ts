import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from '../support/deadline.ts'
import { openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

/** How long a write of the file takes, of simulated time. */
const TAKES_MS = 50
/** How long the replaced file is kept. */
const KEEP_MS = 1000

test('after a write the file rests nine times as long as the write took, even when there was another change meanwhile', async () => {
  const scheduled: { readonly work: () => void; readonly delayMs: number }[] = []
  const files = new SimulatedDisk().files()
  let isSlow = false
  let written = 0
  let ms = 0
  const { engine } = await openTestEngine(
    {
      ...files,
      async exchange(one, other) {
        if (isSlow) {
          await create()
          ms += TAKES_MS
        }
        written++
        return files.exchange(one, other)
      },
    },
    {},
    undefined,
    (work, delayMs) => {
      if (delayMs !== KEEP_MS) scheduled.push({ work, delayMs })
      return { cancel() {} }
    },
    undefined,
    () => ms,
  )
  const create = () =>
    engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, { actor: 'a', requestId: 'r' })
  scheduled.length = 0
  await create()
  const [first, ...others] = scheduled.splice(0)
  assert.ok(first)
  assert.deepEqual(others, [])
  const before = written
  isSlow = true
  first.work()
  await until('the file to be written, and the next time to be set', async () => scheduled.length > 0)
  assert.equal(written, before + 1)
  assert.equal(scheduled.length, 1)
  assert.equal(scheduled[0]?.delayMs, 9 * TAKES_MS)
  await engine.close()
})
