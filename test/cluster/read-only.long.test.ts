import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { healthOf, rolesOf } from '../support/cluster.ts'
import { until } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { startNats, withoutNats } from '../support/nats.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

const skip = withoutNats
const DATA = { things: [{ id: 1, n: 1 }], profile: { n: 1 } }

/** Two nodes on one stream, one after the other; of the first one the data file is imported, and it decides. */
async function startNodes(t: Scope, flags: readonly [readonly string[], readonly string[]]) {
  const nats = await startNats(t)
  const journal = ['--Journal.Type', 'jetstream', '--Journal.Stream', `test-${randomUUID()}`, '--Journal.Replicas', '1']
  const common = [...journal, '--Journal.Servers', nats.map(({ url }) => url).join(','), '--Api.UpsertOnPut', 'true']
  const first = await startServer(t, { data: DATA, flags: [...common, ...flags[0]] })
  await rolesOf([first])
  const second = await startServer(t, { flags: [...common, ...flags[1]] })
  return [first, second] as const
}

async function refusesWrites(node: RunningServer): Promise<void> {
  const writes: readonly [string, RequestInit][] = [
    ['/api', json('POST', {})],
    ['/api/things', json('POST', { n: 2 })],
    ['/api/things', { method: 'DELETE' }],
    ['/api/things/1', json('PUT', { n: 2 })],
    ['/api/things/1/n', json('PUT', 2)],
    ['/api/profile', json('PATCH', { n: 2 })],
    ['/admin/restore', json('POST', { to: 0 })],
    ['/admin/reload', { method: 'POST' }],
    ['/admin/snapshot', { method: 'POST' }],
  ]
  for (const [path, init] of writes) {
    const answer = await node.fetch(path, init)
    assert.equal(answer.status, 405, `${init.method} ${path}`)
    assert.match(((await answer.json()) as { detail: string }).detail, /read-only/)
  }
}

test('a read-only node rejects writes, and shows those of the others', { skip }, async (t) => {
  const [writable, readOnly] = await startNodes(t, [[], ['--read-only']])
  await refusesWrites(readOnly)
  const written = await writable.fetch('/api/things/1', json('PUT', { n: 2 }))
  assert.equal(written.status, 204)
  const wait = { headers: { 'Wait-For-Position': String(written.headers.get('journal-position')) } }
  assert.deepEqual(await (await readOnly.fetch('/api/things/1', wait)).json(), { id: 1, n: 2 })
  assert.deepEqual(await (await readOnly.fetch('/api/profile', wait)).json(), DATA.profile)
  const [one, other] = [await healthOf(writable), await healthOf(readOnly)] as { readOnly?: boolean; status: string }[]
  assert.deepEqual([one?.readOnly, other?.readOnly, other?.status], [false, true, 'ok'])
})

test('a read-only leader accepts writes of the other nodes, and ignores edits of its data file', {
  skip,
}, async (t) => {
  const [readOnly, writable] = await startNodes(t, [['--read-only'], []])
  assert.equal((await healthOf(readOnly)).cluster.role, 'leader')
  await refusesWrites(readOnly)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), DATA.things, 'the first items were imported')
  const writes = [
    await writable.fetch('/api/things/1', json('PUT', { n: 2 })),
    await writable.fetch('/api/profile/n', json('PUT', 2)),
    await writable.fetch('/api/things', json('POST', [{ n: 3 }, { n: 4 }])),
  ]
  assert.deepEqual(
    writes.map(({ status }) => status),
    [204, 204, 201],
  )
  const position = String(writes[2]?.headers.get('journal-position'))
  const items = [
    { id: 1, n: 2 },
    { id: 2, n: 3 },
    { id: 3, n: 4 },
  ]
  const seen = await readOnly.fetch('/api/things', { headers: { 'Wait-For-Position': position } })
  assert.deepEqual(await seen.json(), items)

  await until('the data file is written', async () => (await readFile(readOnly.file, 'utf8')).includes('4'))
  const edited = JSON.stringify({ things: [] })
  await writeFile(readOnly.file, edited)
  const reloaded = await writable.fetch('/admin/reload', { method: 'POST' })
  assert.equal(reloaded.status, 409)
  assert.match(((await reloaded.json()) as { detail: string }).detail, /read-only/)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), items)

  const everything = await writable.fetch('/api', json('POST', { things: [{ n: 9 }] }))
  assert.equal(everything.status, 200)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), [{ id: 4, n: 9 }])
  assert.equal(await readFile(readOnly.file, 'utf8'), edited)
})
