import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type ClusterHealth, healthOf, rolesOf, startCluster } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { fill, mountSmallDisk } from '../support/directory.ts'
import { withoutNats } from '../support/nats.ts'
import { assertOnceAMinute } from '../support/process.ts'
import { json, type RunningProgram } from '../support/server.ts'

const KIB = 6000

test('a node whose disk is full rejects writes with 507 and hands over the lead; it recovers when there is space', {
  skip: withoutNats,
}, async (t) => {
  const disk = await mountSmallDisk(t, KIB)
  if ('missing' in disk) return t.skip(disk.missing)
  try {
    await fillAndFree(t, disk.directory)
  } finally {
    disk.unmount()
  }
})

async function fillAndFree(t: TestContext, directory: string): Promise<void> {
  const cluster = await startCluster(t, { servers: 1, nodes: 0 })
  const startedMs = performance.now()
  let full = await cluster.start(directory)
  const other = await cluster.start()
  assert.equal((await rolesOf([full, other])).leader, full)
  let written = 0
  const put = async (node: RunningProgram): Promise<number> => {
    const key = `k${written++}`
    const answer = await node.fetch(`/api/a/${key}`, json('PUT', { text: 'x'.repeat(1000) }))
    await answer.arrayBuffer()
    return answer.status
  }
  for (let times = 0; times < 20; times++) assert.ok((await put(full)) < 300)
  const filler = join(directory, 'filler')

  await fill(filler)
  const refused = await until('a write is refused', async () => {
    const status = await put(full)
    return status >= 300 && status
  })
  assert.ok([507, 504].includes(refused), String(refused))
  assert.equal(await put(full), 507)
  assert.equal((await full.fetch('/api/a?take=1')).status, 200)
  await until('the other node leads', async () => (await healthOf(other)).cluster.role === 'leader')
  for (let times = 0; times < 200; times++) assert.ok((await put(other)) < 300)
  assert.equal(await put(full), 507)
  const unhealthy = await full.fetch('/health')
  const { status, cluster: known } = (await unhealthy.json()) as ClusterHealth
  assert.deepEqual([unhealthy.status, status, known.role], [503, 'unavailable', 'follower'])

  const messages = ['the disk has no room for the store', 'the copy of the journal cannot be written']
  assertOnceAMinute(full.stderr(), startedMs, ...messages)

  // A start on the full disk waits for room, and can be ended.
  assert.equal(await full.stop(), 0, full.stderr())
  await fill(filler)
  full = await cluster.start(directory)
  assert.equal(await put(full).then((status) => status >= 500), true)
  assert.equal((await full.fetch('/health')).status >= 200, true)
  assert.equal(await full.stop(), 0, full.stderr())
  full = await cluster.start(directory)
  await rm(filler)
  await until('the node to have all', async () => {
    const { status, position } = await healthOf(full)
    return status === 'ok' && position === (await healthOf(other)).position
  })
  assert.ok((await put(full)) < 300)
  const items = async (node: RunningProgram): Promise<unknown> => (await node.fetch('/api/a?sort=id')).json()
  assert.deepEqual(await items(full), await items(other))
  assert.equal(await other.stop(), 0, other.stderr())
  await until('the node leads', async () => (await healthOf(full)).cluster.role === 'leader')
  assert.ok((await put(full)) < 300)
  assert.equal(await full.stop(), 0, full.stderr())
}
