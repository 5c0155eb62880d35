import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { rolesOf, startCluster } from '../support/cluster.ts'
import { startNats, withoutNats } from '../support/nats.ts'
import { startProcess } from '../support/process.ts'
import { json } from '../support/server.ts'

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

const SETTINGS = {
  readings: { Key: ['mac', 'timestamp'], Time: 'timestamp', Latest: { in: 'sensors', by: 'mac' } },
  sensors: { Time: 'timestamp' },
}

test('natural keys, latest items and only-if-newer work at every node', {
  skip: withoutNats,
}, async (t) => {
  const flags = ['--Collections', JSON.stringify(SETTINGS)]
  const { nodes } = await startCluster(t, { data: { readings: [], sensors: [] }, flags })
  const { leader, followers } = await rolesOf(nodes)
  const reading = (minute: number, n: number) => ({ mac: 'a', timestamp: `2026-01-01T00:0${minute}:00`, n })
  // The same readings at all nodes at once: each is stored once.
  const all = [leader, ...followers]
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, n) =>
      (all[n % 3] ?? leader).fetch('/api/readings', json('POST', reading(n % 5, 1))),
    ),
  )
  const statuses = answers.map((answer) => answer.status)
  assert.deepEqual([statuses.filter((status) => status === 201).length, statuses.includes(200)], [5, true])
  const ids = await Promise.all(answers.map(async (answer) => ((await answer.json()) as { id: number }).id))
  assert.equal(new Set(ids).size, 5)
  for (const node of all) {
    assert.equal((await node.fetch('/api/readings', json('POST', reading(3, 2)))).status, 409)
    const again = await node.fetch('/api/readings', json('POST', [reading(3, 1), reading(4, 1)]))
    assert.deepEqual([again.status, ((await again.json()) as { ids: number[] }).ids.length], [200, 2])
    const older = await node.fetch('/api/sensors/a', json('PUT', reading(1, 9), { Prefer: 'only-if-newer' }))
    assert.deepEqual([older.status, await older.json()], [200, { applied: false }])
    assert.deepEqual(await (await node.fetch('/api/sensors')).json(), [{ ...reading(4, 1), id: 'a' }])
    assert.equal(((await (await node.fetch('/api/readings')).json()) as unknown[]).length, 5)
  }
})
