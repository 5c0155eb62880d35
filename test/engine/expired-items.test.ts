import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { replay } from '../../src/cli/run.ts'
import { compareStore } from '../../src/cli/store.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { agree, Follower } from '../support/follower.ts'
import { DAY_MS, type House, house, json, measure, oldestIs, post, READINGS, times } from '../support/retention.ts'

const COLLECTIONS = { readings: { ...READINGS, Keep: '1d' } }

function expiredOf(server: House): Promise<unknown> {
  return oldestIs(server, server.clock.ms - DAY_MS)
}

async function positionOf(server: House): Promise<number> {
  return ((await json(server, '/health')) as { readonly position: number }).position
}

test('a subscription gets a leave for each item that expires, live and when it resumes', async (t) => {
  const server = await house(t, { collections: COLLECTIONS })
  await measure(server, 20)
  const followers = ['', 'sensor=a'].map((query) => new Follower({ collection: 'readings', query }))
  for (const follower of followers) await follower.connect(t, server.url)
  await measure(server, 20)
  await expiredOf(server)
  for (const follower of followers) await agree(server, follower, 'live')
  for (const follower of followers) follower.cut()
  await measure(server, 10)
  await expiredOf(server)
  for (const follower of followers) {
    const { items } = await follower.connect(t, server.url).then((answer) => answer as { readonly items?: unknown })
    assert.equal(items, undefined, 'it resumes')
    await agree(server, follower, 'resumed')
  }
})

test('an edit made from an older version of the data file brings nothing back', async (t) => {
  const server = await house(t, { collections: COLLECTIONS })
  await measure(server, 20)
  assert.equal((await post(server, '/admin/snapshot', undefined)).status, 200)
  const old = JSON.parse(readFileSync(server.file, 'utf8')) as { readings: { id: number; value: number }[] }
  await measure(server, 15)
  await expiredOf(server)
  assert.equal((await post(server, '/admin/snapshot', undefined)).status, 200)
  const [gone, kept] = [old.readings[0], old.readings.at(-1)] as [{ value: number }, { id: number; value: number }]
  gone.value = -1
  kept.value = -2
  writeFileSync(server.file, JSON.stringify(old))
  const before = await times(server)
  const reloaded = (await (await post(server, '/admin/reload', undefined)).json()) as { readonly events: number }
  assert.equal(reloaded.events, 1)
  assert.deepEqual(await times(server), before)
  assert.equal(((await json(server, `/api/readings/${kept.id}`)) as { readonly value: number }).value, -2)
})

test('a restore does not bring back what would expire at once', async (t) => {
  const server = await house(t, { collections: COLLECTIONS })
  await measure(server, 20)
  const to = await positionOf(server)
  await measure(server, 15)
  await expiredOf(server)
  const one = await post(server, '/admin/restore', { to, collection: 'readings', id: 0 })
  assert.equal(((await one.json()) as { readonly events: number }).events, 0)
  const expected = (await times(server, `&asOf=${to}`)).filter((time) => Date.parse(time) >= server.clock.ms - DAY_MS)
  assert.equal((await post(server, '/admin/restore', { to, collection: 'readings' })).status, 200)
  assert.deepEqual(await times(server), expected)
})

test('a past state with too many expired items is 410 with the command that writes it; items and events are read', async (t) => {
  const server = await house(t, { collections: COLLECTIONS, flags: ['--Limits.PastItems', '10'] })
  await measure(server, 20)
  const to = await positionOf(server)
  const then = await times(server)
  await measure(server, 15)
  await expiredOf(server)
  const refused = await server.fetch(`/api/readings?asOf=${to}`)
  const { detail } = (await refused.json()) as { readonly detail: string }
  assert.equal(refused.status, 410)
  assert.match(detail, new RegExp(`recollect replay --to ${to} --out <file>`))
  assert.equal((await server.fetch(`/api?count=true&asOf=${to}`)).status, 410)
  assert.equal((await server.fetch(`/api/readings/0?asOf=${to}`)).status, 200)
  assert.equal(((await json(server, '/events?collection=readings&id=0')) as readonly unknown[]).length, 2)
  const out = join(server.directory, 'then.json')
  await replay(nodeFiles, join(server.directory, 'db.journal'), String(to), out, () => {})
  const { readings } = JSON.parse(readFileSync(out, 'utf8')) as {
    readonly readings: readonly { readonly time: string }[]
  }
  assert.deepEqual(
    readings.map(({ time }) => time),
    then,
  )
})

test('a store that is built from the journal equals the one that was written, and both are verified', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await house(t, { collections: COLLECTIONS, directory })
  await measure(first, 60)
  await expiredOf(first)
  const to = (await positionOf(first)) - 30
  const paths = ['/api/readings?limit=1000', `/api/readings?limit=1000&asOf=${to}`, '/events?collection=readings&id=1']
  const read = (server: House): Promise<unknown> => Promise.all(paths.map((path) => json(server, path)))
  const before = await read(first)
  await first.stop()
  const journal = join(directory, 'db.journal')
  assert.deepEqual(await compareStore(nodeFiles, journal, () => {}), [])
  rmSync(join(journal, 'store'), { recursive: true })
  mkdirSync(join(journal, 'store'))
  const second = await house(t, { collections: COLLECTIONS, directory, clock: first.clock })
  assert.deepEqual(await read(second), before)
  await measure(second, 5)
  await expiredOf(second)
  await second.stop()
  assert.deepEqual(await compareStore(nodeFiles, journal, () => {}), [])
})

test('latest items stay when their readings expire', async (t) => {
  const collections = {
    readings: { ...READINGS, Keep: '1d', Latest: { in: 'sensors', by: 'sensor' } },
  }
  const server = await house(t, { collections })
  await measure(server, 1)
  assert.equal(
    (await post(server, '/api/readings', { sensor: 'c', time: new Date(server.clock.ms), value: 1 })).status,
    201,
  )
  await measure(server, 30)
  await expiredOf(server)
  const sensors = (await json(server, '/api/sensors')) as readonly { readonly id: string }[]
  assert.deepEqual(
    sensors.map(({ id }) => id),
    ['a', 'b', 'c'],
  )
})

test('a replay expires what the journal says, whatever the settings are', async (t) => {
  const directory = await temporaryDirectory(t)
  const first = await house(t, { collections: COLLECTIONS, directory })
  await measure(first, 40)
  await expiredOf(first)
  const expected = await times(first)
  await first.stop()
  const out = join(directory, 'now.json')
  await replay(nodeFiles, join(directory, 'db.journal'), '9999-01-01', out, () => {})
  const { readings } = JSON.parse(readFileSync(out, 'utf8')) as {
    readonly readings: readonly { readonly time: string }[]
  }
  assert.deepEqual(
    readings.map(({ time }) => time),
    expected,
  )
  const second = await house(t, { collections: { readings: READINGS }, directory, clock: first.clock })
  assert.deepEqual(await times(second), expected)
})
