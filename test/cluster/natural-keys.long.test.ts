import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rolesOf, startCluster } from '../support/cluster.ts'
import { withoutNats } from '../support/nats.ts'
import { json } from '../support/server.ts'

const SETTINGS = {
  readings: {
    Key: ['mac', 'timestamp'],
    Indexes: ['mac,timestamp'],
    Time: 'timestamp',
    Latest: { in: 'sensors', by: 'mac' },
  },
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
