import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startNats, withoutNats } from '../support/nats.ts'
import { startProcess } from '../support/process.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The files of a torture run take up to an hour, the default ones minutes. */
const DEADLINE_MS = (process.env.CLUSTER_FILES ? 60 : 8) * 60_000
/** Tests of test/http by their names, others by their paths. */
const FILES = (process.env.CLUSTER_FILES ?? 'batches,bulk,conditions,retries,objects,test/model/model.test.ts')
  .split(',')
  .map((name) => (name.includes('/') ? name : `test/http/${name}.test.ts`))
const MODEL_REQUESTS = process.env.CLUSTER_MODEL_REQUESTS ?? '300'

test('three nodes keep the promises of one server when they take requests in turn', {
  skip: withoutNats,
}, async (t) => {
  const [server] = await startNats(t, { servers: 1, maxPayload: 8 * 1024 * 1024 })
  const run = startProcess(t, [process.execPath, '--import', 'tsx', '--test', '--test-reporter=tap', ...FILES], {
    cwd: ROOT,
    env: { MODEL_REQUESTS, TEST_CLUSTER: server?.url, NODE_TEST_CONTEXT: undefined },
  })
  const { code } = await run.ended(DEADLINE_MS)
  const out = run.output()
  const passed = Number(/^# pass (\d+)$/m.exec(out)?.[1] ?? 0)
  assert.equal(code, 0, out.slice(Math.max(0, out.search(/^ *not ok/m))))
  assert.ok(passed > 0, out)
  const skipped = [...out.matchAll(/# SKIP (.*)$/gm)].map(([, why]) => why)
  t.diagnostic(`${passed} tests passed`)
  for (const why of new Set(skipped)) t.diagnostic(`${skipped.filter((other) => other === why).length} skipped: ${why}`)
})
