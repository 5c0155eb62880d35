import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { json, type RunningServer, runToEnd } from '../support/server.ts'
import { startServer } from '../support/service.ts'

interface Restored {
  readonly position: number
  readonly dryRun: boolean
  readonly events: number
  readonly changes: readonly { readonly type: string; readonly collection: string; readonly id?: unknown }[]
}

interface Told {
  readonly position: number
  readonly type: string
  readonly id?: unknown
  readonly revision?: number
}

const FLAGS = ['--Api.Reset', 'true']
const DATA = {
  posts: [
    { id: 1, title: 'a' },
    { id: 3, title: 'b' },
  ],
  tags: [{ id: 'x' }],
  empty: [],
  profile: { name: 'Ada' },
}

async function reset(server: RunningServer, body?: object): Promise<Restored> {
  const answer = await server.fetch('/admin/reset', body ? json('POST', body) : { method: 'POST' })
  assert.equal(answer.status, 200, await answer.clone().text())
  const restored = (await answer.json()) as Restored
  assert.equal(answer.headers.get('Journal-Position'), String(restored.position))
  return restored
}

async function read(server: RunningServer, path: string): Promise<unknown> {
  return (await server.fetch(path)).json()
}

/** All collections and objects by their names. */
async function stateOf(server: RunningServer): Promise<Record<string, unknown>> {
  const names = (await read(server, '/api')) as string[]
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(server, `/api/${name}`)])))
}

async function post(server: RunningServer, collection: string, item: object): Promise<unknown> {
  const answer = await server.fetch(`/api/${collection}`, json('POST', item))
  assert.equal(answer.status, 201, await answer.clone().text())
  return ((await answer.json()) as { id: unknown }).id
}

async function change(server: RunningServer): Promise<readonly unknown[]> {
  const ids = [
    await post(server, 'posts', { title: 'c' }),
    await post(server, 'posts', { title: 'd' }),
    await post(server, 'tags', {}),
    await post(server, 'empty', {}),
    await post(server, 'created', {}),
  ]
  await server.fetch('/api/posts/1', { method: 'DELETE' })
  await server.fetch('/api/posts/4', { method: 'DELETE' })
  await server.fetch('/api/posts/3', json('PUT', { title: 'other' }))
  await server.fetch('/api/profile', json('PUT', { name: 'Grace' }))
  await server.fetch('/api/tags?all=true', { method: 'DELETE' })
  return ids
}

describe('POST /admin/reset', () => {
  test('returns to the first data with the same ids, as often as it is sent', async (t) => {
    const server = await startServer(t, { data: DATA, flags: FLAGS })
    assert.equal((await reset(server)).events, 0, 'nothing has changed yet')
    for (let round = 0; round < 3; round++) {
      assert.deepEqual(await change(server), [4, 5, 0, 0, 0])
      await reset(server)
      assert.deepEqual(await stateOf(server), DATA)
      assert.equal((await reset(server)).events, 0, 'a second time')
    }
  })

  test('continues revisions and keeps the history', async (t) => {
    const server = await startServer(t, { data: DATA, flags: FLAGS })
    await change(server)
    const before = await read(server, '/api/posts')
    const { position, events } = await reset(server)
    assert.equal(await post(server, 'posts', { title: 'again' }), 4)
    assert.deepEqual(await read(server, `/api/posts?asOf=${position - events}`), before)
    assert.deepEqual(await read(server, `/api/posts?asOf=${position}`), DATA.posts)
    const history = (await read(server, '/events?collection=posts&id=4')) as Told[]
    assert.deepEqual(
      history.map(({ type, revision }) => [type, revision]),
      [
        ['ItemCreated', 1],
        ['ItemDeleted', 2],
        ['ItemCreated', 3],
      ],
    )
    const resets = (await read(server, '/events?type=IdsReset&collection=posts')) as { nextId: number }[]
    assert.deepEqual(
      resets.map(({ nextId }) => nextId),
      [4],
    )
  })

  test('with dryRun reports the changes and makes none', async (t) => {
    const server = await startServer(t, { data: DATA, flags: FLAGS })
    await change(server)
    const state = await stateOf(server)
    const dry = await reset(server, { dryRun: true })
    assert.deepEqual(await stateOf(server), state)
    const done = await reset(server, { dryRun: false })
    assert.deepEqual(dry, { ...done, dryRun: true, position: done.position - done.events })
    assert.deepEqual(
      done.changes.filter(({ type }) => type === 'IdsReset').map(({ collection }) => collection),
      ['posts', 'tags', 'empty', 'created'],
    )
  })

  test('lasts through a restart, also one that builds the store again', async (t) => {
    const first = await startServer(t, { data: DATA, flags: FLAGS })
    await change(first)
    await reset(first)
    await first.stop()
    const second = await startServer(t, { directory: first.directory, flags: FLAGS })
    assert.deepEqual(await stateOf(second), DATA)
    assert.equal(await post(second, 'posts', {}), 4)
    await reset(second)
    await second.stop()
    const verified = await runToEnd(t, first.directory, ['verify', first.file, '--store'])
    assert.equal(verified.code, 0, verified.stdout + verified.stderr)
    await rm(join(first.directory, 'db.journal', 'store'), { recursive: true })
    const third = await startServer(t, { directory: first.directory, flags: FLAGS })
    assert.deepEqual(await stateOf(third), DATA)
    assert.deepEqual(await change(third), [4, 5, 0, 0, 0])
  })

  test('removes all of a server that began without data', async (t) => {
    const server = await startServer(t, { data: {}, flags: FLAGS })
    assert.equal((await reset(server)).events, 0)
    for (let round = 0; round < 2; round++) {
      assert.equal(await post(server, 'posts', {}), 0)
      assert.equal(await post(server, 'posts', {}), 1)
      await reset(server)
      assert.deepEqual(await read(server, '/api'), [])
    }
  })

  test('keeps natural keys and latest items as they were at first', async (t) => {
    const time = '2025-01-01T00:00:00Z'
    const readingsSettings = { Time: 'time', Key: ['mac', 'time'], Latest: { in: 'now', by: 'mac' } }
    const flags = [...FLAGS, '--Collections', JSON.stringify({ readings: readingsSettings })]
    const readings = [{ id: 0, mac: 'm', time, n: 1 }]
    const server = await startServer(t, { data: { readings }, flags })
    const first = await stateOf(server)
    assert.deepEqual(first, { readings, now: [{ ...readings[0], id: 'm' }] })
    for (let round = 0; round < 2; round++) {
      assert.equal(await post(server, 'readings', { mac: 'm', time: '2025-01-02T00:00:00Z', n: 2 }), 1)
      await server.fetch('/api/readings/0', { method: 'DELETE' })
      await reset(server)
      assert.deepEqual(await stateOf(server), first)
      const conflict = await server.fetch('/api/readings', json('POST', { mac: 'm', time, n: 3 }))
      assert.equal(conflict.status, 409)
    }
  })

  test('is offered with json-server compatibility, and otherwise 404', async (t) => {
    const compatible = await startServer(t, { data: DATA, flags: ['--Api.Compatibility', 'json-server'] })
    await compatible.fetch('/api/posts/1', { method: 'DELETE' })
    await reset(compatible)
    assert.deepEqual(await stateOf(compatible), DATA)
    const other = await startServer(t, { data: DATA })
    assert.equal((await other.fetch('/admin/reset', { method: 'POST' })).status, 404)
    const paths = async (server: RunningServer): Promise<object> =>
      ((await read(server, '/openapi.json')) as { paths: object }).paths
    assert.ok(Object.hasOwn(await paths(compatible), '/admin/reset'))
    assert.ok(!Object.hasOwn(await paths(other), '/admin/reset'))
  })

  test('rejects an unknown member, a parameter and a body that is not JSON', async (t) => {
    const server = await startServer(t, { data: DATA, flags: FLAGS })
    for (const [path, init, status] of [
      ['/admin/reset', json('POST', { to: 1 }), 422],
      ['/admin/reset', json('POST', { dryRun: 1 }), 422],
      ['/admin/reset', json('POST', []), 422],
      ['/admin/reset?dryRun=true', { method: 'POST' }, 400],
      ['/admin/reset', { method: 'POST', body: 'dryRun=true' }, 415],
    ] as const) {
      const answer = await server.fetch(path, init)
      assert.equal(answer.status, status, await answer.text())
    }
  })

  test('is refused by a read-only server', async (t) => {
    const server = await startServer(t, { data: DATA, flags: [...FLAGS, '--read-only'] })
    assert.equal((await server.fetch('/admin/reset', { method: 'POST' })).status, 405)
  })
})
