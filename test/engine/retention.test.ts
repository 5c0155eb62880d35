import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import {
  BEGIN_MS,
  DAY_MS,
  HOUR_MS,
  type House,
  house,
  json,
  measure,
  oldestIs,
  post,
  READINGS,
  reading,
  times,
} from '../support/retention.ts'

test('readings older than Keep leave the present by ItemsExpired events, and stay in the journal', async (t) => {
  const server = await house(t, { collections: { readings: { ...READINGS, Keep: '2d' } } })
  await measure(server, 72)
  await oldestIs(server, BEGIN_MS + 72 * HOUR_MS - 2 * DAY_MS)
  assert.equal((await times(server)).length, 2 * 49)
  const events = (await json(server, '/events?type=ItemsExpired&limit=1000')) as readonly {
    readonly actor: string
    readonly rule: string
    readonly runs: readonly { readonly id: number; readonly count: number }[]
  }[]
  assert.ok(events.every(({ actor, rule }) => actor === 'retention' && rule === '2d'))
  const expired = events
    .flatMap(({ runs }) => runs)
    .flatMap(({ id, count }) => Array.from({ length: count }, (_, i) => id + i))
  assert.deepEqual(
    expired,
    Array.from({ length: 2 * 72 - 2 * 49 }, (_, id) => id),
  )
  assert.equal((await server.fetch('/api/readings/0')).status, 404)
  const [created, gone] = (await json(server, '/events?collection=readings&id=0')) as readonly {
    readonly type: string
  }[]
  assert.deepEqual([created?.type, gone?.type], ['ItemCreated', 'ItemsExpired'])
})

test('a past state shows readings that have expired since, in their order', async (t) => {
  const server = await house(t, { collections: { readings: { ...READINGS, Keep: '2d' } } })
  await measure(server, 40)
  const then = await times(server)
  const { position } = (await json(server, '/health')) as { readonly position: number }
  await measure(server, 40)
  await oldestIs(server, server.clock.ms - 2 * DAY_MS)
  assert.deepEqual(await times(server, `&asOf=${position}`), then)
  assert.deepEqual(await times(server, `&asOf=${position}&sensor=b&sort=-time`), [...new Set(then)].reverse())
  const item = (await json(server, `/api/readings/3?asOf=${position}`)) as { readonly sensor: string }
  assert.equal(item.sensor, 'b')
  const counts = (await json(server, `/api?count=true&asOf=${position}`)) as { readonly readings: number }
  assert.equal(counts.readings, then.length)
})

test('a new rule that would let items expire waits for its confirmation or a day', async (t) => {
  const directory = await temporaryDirectory(t)
  const clock = { ms: BEGIN_MS }
  const first = await house(t, { collections: { readings: READINGS }, directory, clock })
  await measure(first, 72)
  await first.stop()
  const server = await house(t, { collections: { readings: { ...READINGS, Keep: '1d' } }, directory, clock })
  await measure(server, 1)
  assert.equal((await times(server)).length, 2 * 73)
  const { retention } = (await json(server, '/health')) as { readonly retention: readonly { readonly state: string }[] }
  assert.deepEqual(
    retention.map(({ state }) => state),
    ['waiting'],
  )
  const tried = (await (await post(server, '/admin/retention?dryRun=true', undefined)).json()) as Confirmed
  assert.deepEqual([tried.dryRun, tried.collections[0]?.items], [true, 2 * 48])
  assert.equal((await times(server)).length, 2 * 73)
  const confirmed = (await (await post(server, '/admin/retention', undefined)).json()) as Confirmed
  assert.equal(confirmed.collections[0]?.items, 2 * 48)
  await oldestIs(server, clock.ms - DAY_MS)
  assert.equal((await times(server)).length, 2 * 25)
})

interface Confirmed {
  readonly position: number
  readonly dryRun: boolean
  readonly collections: readonly { readonly collection: string; readonly state: string; readonly items: number }[]
}

test('a new rule begins after a day without a confirmation, also through a restart', async (t) => {
  const directory = await temporaryDirectory(t)
  const clock = { ms: BEGIN_MS }
  const first = await house(t, { collections: { readings: READINGS }, directory, clock })
  await measure(first, 72)
  await first.stop()
  const collections = { readings: { ...READINGS, Keep: '1d' } }
  const second = await house(t, { collections, directory, clock })
  await measure(second, 20)
  assert.equal((await times(second)).length, 2 * 92)
  await second.stop()
  const third = await house(t, { collections, directory, clock })
  await measure(third, 5)
  await oldestIs(third, clock.ms - DAY_MS)
})

test('a clock that jumps by more than a day stops expiry until it is confirmed, also through a restart', async (t) => {
  const directory = await temporaryDirectory(t)
  const clock = { ms: BEGIN_MS }
  const collections = { readings: { ...READINGS, Keep: '2d' } }
  const first = await house(t, { collections, directory, clock })
  await measure(first, 60)
  await oldestIs(first, clock.ms - 2 * DAY_MS)
  const before = await times(first)
  clock.ms += 3650 * DAY_MS
  await measure(first, 2)
  assert.deepEqual((await times(first)).slice(0, before.length), before)
  await first.stop()
  const server = await house(t, { collections, directory, clock })
  await measure(server, 2)
  assert.deepEqual((await times(server)).slice(0, before.length), before)
  const health = (await json(server, '/health')) as {
    readonly status: string
    readonly retention: readonly { readonly state: string; readonly horizon: string }[]
  }
  assert.equal(health.status, 'degraded')
  assert.deepEqual(health.retention, [
    { collection: 'readings', rule: '2d', state: 'stopped', horizon: new Date(BEGIN_MS + 12 * HOUR_MS).toISOString() },
  ])
  assert.equal((await post(server, '/admin/retention', undefined)).status, 200)
  await until('the old readings have expired', async () => (await times(server)).length === 8)
  assert.equal(((await json(server, '/health')) as { readonly status: string }).status, 'ok')
})

test('an expired reading is rejected when it is sent again, alone and in a batch', async (t) => {
  const server = await house(t, { collections: { readings: { ...READINGS, Keep: '1d' } } })
  await measure(server, 30)
  await oldestIs(server, server.clock.ms - DAY_MS)
  const old = reading('a', BEGIN_MS + HOUR_MS)
  const single = await post(server, '/api/readings', old)
  assert.equal(single.status, 422)
  assert.match(((await single.json()) as { readonly detail: string }).detail, /has expired.*Keep is 1d/)
  const batch = await server.fetch('/api/readings', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Prefer: 'handling=lenient' },
    body: JSON.stringify([old, reading('a', server.clock.ms - 1)]),
  })
  const results = JSON.stringify(await batch.json())
  assert.match(results, /has expired/)
  assert.equal((await times(server)).length, 2 * 25 + 1)
})

test('an id that is used again continues its revision and its events', async (t) => {
  const flags = ['--Api.UpsertOnPut', 'true']
  const server = await house(t, { collections: { readings: { ...READINGS, Keep: '1d' } }, flags })
  await measure(server, 30)
  await oldestIs(server, server.clock.ms - DAY_MS)
  const put = await server.fetch('/api/readings/1', {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ id: 1, ...reading('c', server.clock.ms) }),
  })
  assert.equal(put.status, 201, await put.text())
  const events = (await json(server, '/events?collection=readings&id=1')) as readonly {
    readonly type: string
    readonly position: number
    readonly revision?: number
    readonly prior?: number
  }[]
  assert.deepEqual(
    events.map(({ type, revision }) => [type, revision]),
    [
      ['ItemCreated', 1],
      ['ItemsExpired', undefined],
      ['ItemCreated', 3],
    ],
  )
  assert.equal(events[2]?.prior, events[1]?.position)
})

test('KeepItems keeps the newest items by their event time', async (t) => {
  const server = await house(t, { collections: { readings: { ...READINGS, KeepItems: 100 } } })
  await measure(server, 40)
  assert.equal((await post(server, '/api/readings', reading('late', BEGIN_MS))).status, 201)
  await measure(server, 20)
  await until('the oldest have expired', async () => (await times(server)).length === 100)
  assert.deepEqual(await times(server), [...(await times(server))].sort())
  assert.equal((await times(server)).at(-1), new Date(server.clock.ms).toISOString())
})

test('without an event time the time of the last event of an item counts', async (t) => {
  const server = await house(t, { collections: { notes: { Keep: '1d' } } })
  for (let hour = 0; hour < 30; hour++) {
    server.clock.ms += HOUR_MS
    assert.equal((await post(server, '/api/notes', { hour })).status, 201)
    if (hour === 20) {
      const patch = { method: 'PATCH', headers: { 'Content-Type': 'application/merge-patch+json' } }
      assert.equal((await server.fetch('/api/notes/0', { ...patch, body: '{"hour":-1}' })).status, 204)
    }
  }
  await until('the old notes have expired', async () => {
    const notes = (await json(server, '/api/notes?limit=100')) as readonly { readonly hour: number }[]
    return notes.length === 26 && notes[0]?.hour === -1 && notes[1]?.hour === 5
  })
})

/** Whose journal is full from the next expiry on, once `fills` is set, until `isFull` is cleared. */
function filledByExpiry() {
  const disk = { fills: false, isFull: false }
  const files: Files = {
    ...nodeFiles,
    async open(path, how, mode) {
      const file = await nodeFiles.open(path, how, mode)
      const write = async (bytes: Uint8Array, offset: number): Promise<number> => {
        disk.isFull ||= disk.fills && Buffer.from(bytes).includes('ItemsExpired')
        if (disk.isFull) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
        return file.write(bytes, offset)
      }
      return { ...file, write }
    },
  }
  return { disk, files }
}

test('expiry that finds the disk full loses nothing, and continues with the first write that has room', async (t) => {
  const { disk, files } = filledByExpiry()
  const server = await house(t, { collections: { readings: { ...READINGS, KeepItems: 100 } }, files })
  await measure(server, 50)
  disk.fills = true
  await measure(server, 1)
  await until('the disk is full', () => disk.isFull)
  await until('the failure is logged', () => server.log.some((line) => line.includes('items could not expire')))
  assert.equal((await times(server)).length, 102)
  assert.equal((await post(server, '/api/readings', reading('c', server.clock.ms))).status, 507)
  const health = await server.fetch('/health')
  const { status, journal } = (await health.json()) as { readonly status: string; readonly journal: object }
  assert.deepEqual([health.status, status], [503, 'unavailable'])
  assert.ok('writable' in journal && !journal.writable)
  Object.assign(disk, { fills: false, isFull: false })
  const before = await times(server)
  assert.equal((await post(server, '/api/readings', reading('c', server.clock.ms))).status, 201)
  await until('the oldest have expired', async () => (await times(server)).length === 100)
  assert.deepEqual(await times(server), [...before.slice(3), new Date(server.clock.ms).toISOString()])
  const { status: after } = (await json(server, '/health')) as { readonly status: string }
  assert.equal(after, 'ok')
  assert.deepEqual(server.failures, [])
})

/** A rule that would run again and again looks at the clock each time. */
async function assertResting(server: House): Promise<void> {
  const before = server.clock.reads ?? 0
  for (let turn = 0; turn < 2000; turn++) await new Promise((resolve) => setImmediate(resolve))
  const reads = (server.clock.reads ?? 0) - before
  assert.ok(reads < 200, `the clock was looked at ${reads} times while nothing was written`)
}

test('a rule that has stopped or waits for its confirmation rests until the next write', async (t) => {
  const directory = await temporaryDirectory(t)
  const clock = { ms: BEGIN_MS }
  const collections = { readings: { ...READINGS, Keep: '2d' } }
  const first = await house(t, { collections, directory, clock })
  await measure(first, 60)
  clock.ms += 3650 * DAY_MS
  await measure(first, 2)
  await assertResting(first)
  await first.stop()
  const second = await house(t, { collections, directory, clock })
  await assertResting(second)
  await post(second, '/admin/retention', undefined)
  await until('the old readings have expired', async () => (await times(second)).length === 4)
  await assertResting(second)
  await measure(second, 30)
  await second.stop()
  const third = await house(t, { collections: { readings: { ...READINGS, KeepItems: 10 } }, directory, clock })
  await measure(third, 2)
  assert.equal((await times(third)).length, 2 * 34)
  await assertResting(third)
})
