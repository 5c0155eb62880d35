import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { rolesOf, startCluster } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { withoutNats } from '../support/nats.ts'
import { json, type RunningProgram } from '../support/server.ts'

const KEEP_MS = 3000
const FLAGS = ['--Collections', JSON.stringify({ readings: { Time: 'time', Keep: `${KEEP_MS / 1000}s` } })]

async function readingsAt(node: RunningProgram): Promise<readonly { readonly id: number; readonly time: number }[]> {
  return (await (await node.fetch('/api/readings?limit=10000')).json()) as { id: number; time: number }[]
}

async function measure(node: RunningProgram, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    assert.equal((await node.fetch('/api/readings', json('POST', { time: Date.now() }))).status, 201)
    await sleep(10)
  }
}

test('the leader lets items expire, all nodes show that, and the next leader continues', {
  skip: withoutNats,
}, async (t) => {
  const { nodes } = await startCluster(t, { servers: 1, data: { readings: [] }, flags: FLAGS })
  const { leader, followers } = await rolesOf(nodes)
  const [node, other] = followers as [RunningProgram, RunningProgram]
  const isShort = async (one: RunningProgram): Promise<boolean> => {
    const items = await readingsAt(one)
    return items.length > 0 && (items[0]?.id as number) > 0
  }
  await measure(node, 20)
  await until('the first reading has expired everywhere', async () => {
    await measure(node, 10)
    const all = await Promise.all([leader, node, other].map(isShort))
    return all.every((short) => short)
  })
  const first = (await readingsAt(other))[0]?.id as number
  await leader.stop('SIGKILL')
  await until('more has expired without the first leader', async () => {
    const posted = await node.fetch('/api/readings', json('POST', { time: Date.now() }))
    await posted.arrayBuffer()
    await sleep(50)
    const ids = await Promise.all([node, other].map(async (one) => (await readingsAt(one))[0]?.id ?? 0))
    return ids.every((id) => id > first + 20)
  })
  const confirmed = await node.fetch('/admin/retention', { method: 'POST' })
  assert.equal(confirmed.status, 200, await confirmed.text())
})
