import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rolesOf, startCluster } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import { withoutNats } from '../support/nats.ts'
import { json, type RunningProgram } from '../support/server.ts'

const COUNT = 400
const PART = 2
const FLAGS = ['--Limits.AtomicItems', String(PART)]
const DATA = { things: Array.from({ length: COUNT }, (_, id) => ({ id })) }
const DELETION = { method: 'DELETE', headers: { 'Idempotency-Key': 'all' } }

const deleteAt = (node: RunningProgram): Promise<Response> => node.fetch('/api/things?id_lt=400', DELETION)

async function countAt(node: RunningProgram): Promise<number> {
  const response = await node.fetch('/api/things?pageSize=1')
  await response.arrayBuffer()
  return Number(response.headers.get('x-total-count'))
}

test('a node that forwards a large deletion answers as the leader does, and others write meanwhile', {
  skip: withoutNats,
}, async (t) => {
  const { nodes } = await startCluster(t, { servers: 1, data: DATA, flags: FLAGS })
  const { leader, followers } = await rolesOf(nodes)
  const [node, other] = followers as [RunningProgram, RunningProgram]
  const deleting = deleteAt(node)
  await until('the first deletions', async () => (await countAt(other)) < COUNT)
  const posted = await other.fetch('/api/things', json('POST', {}))
  assert.equal(posted.status, 201)
  const first = await deleting
  const position = Number(first.headers.get('journal-position'))
  const text = await first.text()
  assert.deepEqual(JSON.parse(text), { deleted: COUNT, dryRun: false, writes: COUNT / PART, ids: [0, 1] })
  assert.ok(Number(posted.headers.get('journal-position')) < position, 'the POST came in between')
  for (const one of [node, other, leader]) {
    const again = await deleteAt(one)
    assert.deepEqual([await again.text(), Number(again.headers.get('journal-position'))], [text, position])
    assert.equal(await countAt(one), 1)
  }
})

test('a large deletion whose leader is killed continues at another node, and its response counts all', {
  skip: withoutNats,
}, async (t) => {
  const { nodes } = await startCluster(t, { servers: 1, data: DATA, flags: FLAGS })
  const { leader, followers } = await rolesOf(nodes)
  const [node, other] = followers as [RunningProgram, RunningProgram]
  const interrupted = deleteAt(node).then(
    ({ status }) => status,
    () => undefined,
  )
  await until('the first deletions', async () => (await countAt(other)) < COUNT)
  await leader.stop('SIGKILL')
  assert.notEqual(await interrupted, 200)
  const left = await countAt(other)
  assert.ok(left > 0 && left < COUNT, `${left} left`)
  const response = await until('the deletion at another node', async () => {
    const retried = await deleteAt(other)
    if (retried.status === 200) return retried
    await retried.arrayBuffer()
    return undefined
  })
  const { deleted, writes, ids } = (await response.json()) as { deleted: number; writes: number; ids: number[] }
  assert.deepEqual([deleted, writes, ids], [COUNT, COUNT / PART, [0, 1]])
  assert.equal(await countAt(other), 0)
})
