import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { pino } from 'pino'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { FileEngine } from '../../src/engine/file-engine.ts'
import { EventBus } from '../../src/engine/projections.ts'
import type { RemoteJournal } from '../../src/engine/remote-journal.ts'
import { type Replay, ReplayEngine } from '../../src/engine/replay-engine.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { lastPosition, type Projection, positioned, type Recorded, slice } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { Corruption, Refusal } from '../../src/runtime/errors.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { choice, text } from '../../src/settings/kinds.ts'
import { SimulatedClock } from '../support/clock.ts'
import { project, snapshotOf } from '../support/collections.ts'
import { fetch } from '../support/deadline.ts'
import { JOURNAL, SETTINGS } from '../support/engine.ts'
import { openJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { startHere } from '../support/service.ts'
import { type Operation, SimulatedDisk } from '../support/simulated-files.ts'

const NOON = Date.parse('2026-11-20T12:00:00.000Z')
const LATER = Date.parse('2026-11-21T12:00:00.000Z')
const SECOND = 1000
const iso = (ms: number): string => new Date(ms).toISOString()

/** A write: when, and which events; those that are numbers put the item `x` of `a`. */
type Write = readonly [ms: number, ...values: readonly (number | DomainEvent)[]]

async function recorded(writes: readonly Write[], segmentBytes = 2000): Promise<SimulatedDisk> {
  const disk = new SimulatedDisk()
  let ms = NOON
  const { journal } = await openJournal(disk.files(), JOURNAL, { now: () => new Date(ms), segmentBytes })
  let revision = 0
  let prior = 0
  for (const [at, ...values] of writes) {
    ms = at
    const expected = journal.head + 1
    const events = values.map((value, index): DomainEvent => {
      if (typeof value !== 'number') return value
      const event = { collection: 'a', id: 'x', revision: ++revision, prior, item: Document.of({ id: 'x', n: value }) }
      prior = expected + index
      return { type: revision === 1 ? 'ItemCreated' : 'ItemReplaced', ...event }
    })
    await journal.append({ expected, actor: 'a', requestId: 'r', events })
  }
  await journal.close()
  return disk
}

interface Played {
  readonly engine: Engine
  readonly clock: SimulatedClock
  readonly failures: readonly unknown[]
  readonly operations: readonly Operation[]
  /** The events of the bus, with the simulated time of each. */
  readonly told: readonly (readonly [at: number, recorded: Recorded])[]
}

async function play(disk: SimulatedDisk, replay: Replay): Promise<Played> {
  const clock = new SimulatedClock()
  const failures: unknown[] = []
  const operations: Operation[] = []
  const files = disk.files((operation) => {
    operations.push(operation)
    return undefined
  })
  const failed = (error: unknown): void => void failures.push(error)
  const engine = await ReplayEngine.open(SETTINGS, replay, {
    files,
    now: () => new Date(LATER),
    newId: () => '',
    ...clock,
    log: pino({ level: 'silent' }),
    memory: new MemoryBudget(),
    sampleFile: '',
    failed,
  })
  await engine.start(failed)
  const told: (readonly [number, Recorded])[] = []
  engine.bus.add({ sockets: { apply: (one) => told.push([clock.elapsedMs(), one]) } })
  return { engine, clock, failures, operations, told }
}

const created = { type: 'CollectionCreated', collection: 'a' } as const
const now = ({ views }: Engine): unknown => [views.position, views.find('a')?.item('x')?.value.n]

test('a replay starts at a position and advances at a multiple of the original speed', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + 60 * SECOND, 1],
    [NOON + 60 * SECOND, 2],
    [NOON + 90 * SECOND, 3],
  ])
  const { engine, clock, failures } = await play(disk, { from: '2', speed: 10 })
  assert.deepEqual(now(engine), [2, 0])
  assert.equal(engine.journal.head, 2)
  await clock.pass(5999)
  assert.deepEqual(now(engine), [2, 0])
  assert.equal(engine.now().getTime(), NOON + 59_990)
  await clock.pass(1)
  assert.deepEqual(now(engine), [4, 2])
  await clock.pass(2999)
  assert.deepEqual(now(engine), [4, 2])
  await clock.pass(1)
  assert.deepEqual(now(engine), [5, 3])
  await clock.pass(1000 * SECOND)
  assert.deepEqual(now(engine), [5, 3])
  assert.deepEqual([clock.waiting, failures], [0, []])
  await engine.close()
})

test('events recorded by a clock that ran ahead are replayed at their own times', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [LATER + 60 * SECOND, 1],
    [LATER + 90 * SECOND, 2],
  ])
  const { engine, clock } = await play(disk, { from: iso(LATER + 60 * SECOND), speed: 1 })
  assert.deepEqual(now(engine), [3, 1])
  assert.equal(engine.now().getTime(), LATER + 60 * SECOND)
  await clock.pass(30 * SECOND)
  assert.deepEqual(now(engine), [4, 2])
  await engine.close()
  await assert.rejects(play(disk, { from: iso(LATER + 91 * SECOND), speed: 1 }), /in the future/)
})

test('later events are invisible, to reads and as past states', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + SECOND, 1],
    [NOON + 2 * SECOND, 2],
  ])
  const { engine, clock } = await play(disk, { from: '2', speed: 1 })
  const positions = async (from?: number, to?: number): Promise<Position[]> => {
    const found: Position[] = []
    for await (const recorded of engine.journal.read(from ?? 1, to)) {
      for (const [position] of positioned(recorded)) found.push(position)
    }
    return found
  }
  assert.deepEqual([await positions(), await positions(1, 9), await positions(3, 4)], [[1, 2], [1, 2], []])
  await clock.pass(SECOND)
  assert.deepEqual([await positions(), await positions(3, 4)], [[1, 2, 3], [3]])
  const [then, before] = [await engine.past.item('a', 'x', 2), await engine.past.item('a', 'x', 1)]
  assert.deepEqual([then?.value, before], [{ id: 'x', n: 0 }, undefined])
  await engine.close()
})

test('an instant sets the start time; one before the first event starts with that', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + 100 * SECOND, 1],
  ])
  const within = await play(disk, { from: iso(NOON + 40 * SECOND), speed: 1 })
  assert.deepEqual(now(within.engine), [2, 0])
  await within.clock.pass(60 * SECOND - 1)
  assert.deepEqual(now(within.engine), [2, 0])
  await within.clock.pass(1)
  assert.deepEqual(now(within.engine), [3, 1])

  for (const from of ['0', '2001-01-01']) {
    const { engine, clock } = await play(disk, { from, speed: 1 })
    assert.deepEqual(now(engine), [0, undefined])
    await clock.pass(0)
    assert.deepEqual(now(engine), [2, 0], from)
    await engine.close()
  }
  const after = await play(disk, { from: iso(NOON + 3600 * SECOND), speed: 1 })
  assert.deepEqual(now(after.engine), [3, 1])
  assert.equal(after.engine.now().getTime(), NOON + 3600 * SECOND)
  await Promise.all([within.engine.close(), after.engine.close()])
})

test('a replay does not advance beyond the present', async () => {
  const { engine, clock } = await play(await recorded([[NOON, created, 0]]), { from: '2', speed: 1000 })
  await clock.pass(24 * 3600 * SECOND)
  assert.equal(engine.now().getTime(), LATER)
  await engine.close()
})

test('a write is replayed as a whole, even one of many records, also from a position within it', async () => {
  const many = Array.from({ length: 40 }, (_, n): DomainEvent => {
    const item = Document.of({ id: n, text: 'x'.repeat(60_000) })
    return { type: 'ItemCreated', collection: 'a', id: n, revision: 1, prior: 0, item }
  })
  const disk = await recorded([
    [NOON, created],
    [NOON + SECOND, ...many],
    [NOON + 2 * SECOND, 1],
  ])
  const whole = await play(disk, { from: '1', speed: 1 })
  await whole.clock.pass(5 * SECOND)
  assert.deepEqual(
    whole.told.map(([, { position, events }]) => [position, events.length]),
    [
      [2, 40],
      [42, 1],
    ],
  )
  const within = await play(disk, { from: '12', speed: 1 })
  assert.equal(within.engine.views.find('a')?.size, 11)
  await within.clock.pass(0)
  assert.deepEqual(
    within.told.map(([, { position, events }]) => [position, events.length]),
    [[13, 29]],
  )
  await Promise.all([whole.engine.close(), within.engine.close()])
})

test('a replay rejects writes, and does not change what it reads', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + SECOND, 1],
  ])
  const before = disk.list(JOURNAL).map((name) => [name, disk.bytes(`${JOURNAL}/${name}`)])
  const { engine, clock, operations } = await play(disk, { from: '0', speed: 1000 })
  await clock.pass(SECOND)
  const origin = { actor: 'a', requestId: 'r' }
  const isRefused = (error: unknown): boolean => error instanceof Refusal && error.code === 'MethodNotAllowed'
  await assert.rejects(engine.handler.handle({ type: 'CreateItem', collection: 'a', item: {} }, origin), isRefused)
  await assert.rejects(
    engine.handler.restore({ type: 'collections', collections: new Map() }, origin, false),
    isRefused,
  )
  await assert.rejects(engine.reload(), isRefused)
  await assert.rejects(engine.journal.append({ expected: 4, events: [], ...origin }))
  await engine.close()
  assert.deepEqual([...new Set(operations)].sort(), ['list', 'open', 'read'])
  assert.deepEqual(
    disk.list(JOURNAL).map((name) => [name, disk.bytes(`${JOURNAL}/${name}`)]),
    before,
  )
})

test('a closed replay releases everything and reports no more events', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + SECOND, 1],
  ])
  const { engine, clock, told, failures } = await play(disk, { from: '2', speed: 1 })
  await clock.pass(10)
  assert.equal(clock.waiting, 1)
  await engine.close()
  assert.equal(clock.waiting, 0)
  await clock.pass(10 * SECOND)
  assert.deepEqual([told, failures], [[], []])
})

test('a replay of an empty journal ends', async () => {
  const { engine } = await play(await recorded([]), { from: '0', speed: 1 })
  assert.deepEqual([engine.journal.head, engine.health().status], [0, 'ok'])
  await engine.close()
})

test('damage found during a replay ends the service, and nothing is skipped', async () => {
  const writes: Write[] = [
    [NOON, created, 0],
    [NOON + SECOND, 1],
    [NOON + 2 * SECOND, 2],
  ]
  const disk = await recorded(writes, 100)
  const { engine, failures, clock } = await play(disk, { from: '0', speed: 1 })
  const path = `${JOURNAL}/${disk.list(JOURNAL).findLast((name) => name.endsWith('.ndjson'))}`
  const bytes = Buffer.from(disk.bytes(path) as Buffer)
  disk.put(path, bytes.fill(0x20, bytes.length - 80, bytes.length - 40))
  await clock.pass(10 * SECOND)
  assert.deepEqual(now(engine), [3, 1])
  assert.equal(failures.length, 1)
  assert.ok(failures[0] instanceof Corruption)
  await assert.rejects(play(disk, { from: '0', speed: 1 }), Corruption, 'and none is begun')
  await engine.close()
})

test('a replay that waits for space on the disk can be ended', async () => {
  const disk = await recorded([
    [NOON, created, 0],
    [NOON + SECOND, 1],
  ])
  const { engine, failures, clock } = await play(disk, { from: '2', speed: 1 })
  engine.views.store.transaction = () => {
    throw Object.assign(new Error('The disk is full.'), { code: 'ENOSPC' })
  }
  await clock.pass(2 * SECOND)
  assert.ok(engine.views.isFull)
  await engine.close()
  assert.deepEqual(failures, [])
})

test('any journal is replayed from any position at any speed, each write when it is due, with the right state', async () => {
  const random = new Random(SEED)
  for (let round = 0; round < 6; round++) {
    let ms = NOON
    const writes: Write[] = [[ms, created, 0]]
    for (let n = 1; n < 120; n++) {
      ms += random.pick([0, 0, 1, 30, 700, 5000, 600_000])
      writes.push([ms, ...Array.from({ length: 1 + random.integer(4) }, (_, index) => n + index / 10)])
    }
    const disk = await recorded(writes, 500 + random.integer(5000))
    const { journal } = await openJournal(disk.killed().files(), JOURNAL)
    const all: Recorded[] = []
    for await (const one of journal.read(1)) all.push(one)
    await journal.close()
    const from = random.integer(journal.head + 1)
    const speed = random.pick([1, 3.5, 60, 1000])
    const context = `SEED=${SEED}, round ${round}, from ${from} at ${speed}`
    const { engine, clock, told, failures } = await play(disk, { from: String(from), speed })

    const expected = Views.temporary()
    for (const one of all) if (one.position <= from) project(expected, slice(one, 1, from))
    assert.deepEqual(snapshotOf(engine.views), snapshotOf(expected), context)
    let position = from
    const apply = (one: Recorded): void => {
      assert.equal(one.position, position + 1, context)
      position = lastPosition(one)
      assert.equal(engine.journal.head, position, context)
      project(expected, one)
      assert.deepEqual(snapshotOf(engine.views), snapshotOf(expected), context)
    }
    engine.bus.add({ sockets: { apply } })
    await clock.pass((ms - NOON) / speed + 20)
    assert.equal(position, journal.head, context)
    const ends = all.map(lastPosition)
    const origin = Date.parse(all.find((one) => lastPosition(one) >= from)?.time ?? '')
    for (const [at, one] of told) {
      assert.ok(ends.includes(lastPosition(one)), `${context}: a write comes whole`)
      const due = Math.max(0, (Date.parse(one.time) - origin) / speed)
      assert.ok(at >= due - 0.001 && at <= due + 10.001, `${context}: ${one.position}, due ${due}, came ${at}`)
    }
    assert.deepEqual(failures, [], context)
    await engine.close()
  }
})

test('projections see a write in the same order, whenever they were added: views, response, data file, notifications', () => {
  const seen: string[] = []
  const named = (name: string): Projection => ({ apply: () => seen.push(name) })
  const bus = new EventBus()
  bus.add({ arrivals: named('arrivals'), sockets: named('sockets') })
  bus.add({
    dataFile: named('dataFile'),
    handler: named('handler'),
    fieldList: named('fieldList'),
    queries: named('queries'),
  })
  bus.add({ views: named('views') })
  bus.publish({ position: 1, time: '2026-01-01T00:00:00.000Z', actor: 'a', requestId: 'r', events: [] })
  assert.deepEqual(seen, ['views', 'handler', 'dataFile', 'queries', 'fieldList', 'sockets', 'arrivals'])
})

/** A journal in another directory, which stands for any place that is not the usual one. */
function elsewhere(opened: unknown[]): RemoteJournal {
  return {
    ...CLUSTER,
    keys: {
      'Journal.Type': choice('file', ['file', 'elsewhere'], 'where the journal is'),
      'Journal.Place': text('', 'its directory'),
    },
    read(value, absolute, mistakes) {
      if (value('Journal.Type') === 'file') return undefined
      const place = String(value('Journal.Place'))
      if (place === '') mistakes.push('Journal.Place must name a directory.')
      return { place: absolute(place) }
    },
    open(settings, dependencies) {
      opened.push(settings.remote)
      const { place } = settings.remote as { readonly place: string }
      return FileEngine.open({ ...settings, journal: place, store: `${place}/store` }, dependencies)
    },
  }
}

const ELSEWHERE = ['--Journal.Type', 'elsewhere']

test('a remote journal has settings of its own, and the service serves its engine', async (t) => {
  const opened: unknown[] = []
  const remoteJournal = elsewhere(opened)
  const flags = [...ELSEWHERE, '--Journal.Place', 'place']
  const { url, directory } = await startHere(t, { data: { people: [{ id: 1 }] }, remoteJournal, flags })
  assert.deepEqual(opened, [{ place: join(directory, 'place') }])
  assert.deepEqual(await (await fetch(`${url}/api/people`)).json(), [{ id: 1 }])
})

test('a remote journal that the settings do not choose is not opened', async (t) => {
  const opened: unknown[] = []
  const { url } = await startHere(t, { data: { people: [] }, remoteJournal: elsewhere(opened) })
  assert.equal((await fetch(`${url}/api/people`)).status, 200)
  assert.deepEqual(opened, [])
})

test('mistakes in the settings of a remote journal prevent the start, and settings of another one are unknown', async (t) => {
  const remoteJournal = elsewhere([])
  await assert.rejects(startHere(t, { remoteJournal, flags: ELSEWHERE }), /Journal\.Place must name a directory/)
  const flags = ['--Journal.Servers', 'a']
  await assert.rejects(startHere(t, { remoteJournal, flags }), /Unknown flag --Journal\.Servers/)
})
