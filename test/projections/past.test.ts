import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { segmentName } from '../../src/events/segment.ts'
import { SegmentReader } from '../../src/events/segment-reader.ts'
import { walk } from '../../src/events/walk.ts'
import { Document } from '../../src/json/document.ts'
import { parsePath } from '../../src/json/paths.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { Past } from '../../src/projections/past.ts'
import { type Snapshot, Views } from '../../src/projections/views.ts'
import { type CollectionSnapshot, itemsOf } from '../../src/query/collection-snapshot.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { UNLIMITED } from '../../src/runtime/memory.ts'
import { scan } from '../query/scan.ts'
import { answerOf, whole } from '../support/api.ts'
import { CollectionWriter, collectionOf, project, readBy, storedHistory } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { makeFormat5 } from '../support/format-5.ts'
import { segmentsOf } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

/** A collection with one item, replaced `writes` times, whose journal is read no faster than it is let. */
function recorded(writes: number) {
  const records: Recorded[] = []
  const views = Views.temporary()
  const apply = (event: DomainEvent): void => {
    const origin = { actor: 'ada', requestId: 'r' }
    const one = { position: views.position + 1, time: '2026-11-21T12:00:00.000Z', ...origin, events: [event] }
    records.push(one)
    project(views, one)
  }
  apply({ type: 'CollectionCreated', collection: 'things' })
  for (let n = 0; n < writes; n++) {
    const item = Document.of({ id: 1, n })
    const stamp = { collection: 'things', id: 1, revision: n + 1, prior: n === 0 ? 0 : n + 1 }
    apply({ type: n === 0 ? 'ItemCreated' : 'ItemReplaced', ...stamp, item })
  }
  // Events before another order are folded.
  apply({ type: 'CollectionOrdered', collection: 'things', ids: [1] })
  const reading: (() => void)[] = []
  const journal = readBy(async function* (from, to = records.length) {
    await new Promise<void>((resolve) => reading.push(resolve))
    yield* records.slice(from - 1, to)
  })
  return { past: new Past(journal, views, storedHistory(views), UNLIMITED), reading }
}

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** The number in the one item. */
function numberIn(reading: CollectionSnapshot): unknown {
  const [item] = itemsOf(reading)
  return item?.value.n
}

const gone = { isGone: () => true }

test('past states are built two at a time, and each is right', async () => {
  const { past, reading } = recorded(10)
  const asked = [5, 3, 8, 2].map((at) => past.collection('things', at))
  let most = 0
  for (let made = 0; made < asked.length; made++) {
    await settled()
    most = Math.max(most, reading.length)
    reading.shift()?.()
  }
  const collections = await Promise.all(asked)
  assert.equal(most, 2)
  assert.deepEqual(collections.map(numberIn), [3, 1, 6, 0])
})

test('building a past state is skipped when all requests for it were aborted', async () => {
  const { past, reading } = recorded(10)
  const others = [2, 3].map((at) => past.collection('things', at))
  const givenUp = assert.rejects(past.collection('things', 5, gone), { code: 'Invalid', message: /went away/ })
  const first = past.collection('things', 6, gone)
  const second = past.collection('things', 6)
  for (let made = 0; made < 3; made++) {
    await settled()
    reading.shift()?.()
  }
  await Promise.all([...others, givenUp])
  assert.equal(numberIn(await second), 4)
  assert.equal(numberIn(await first), 4)
  assert.equal(reading.length, 0)
  const later = past.collection('things', 5)
  await settled()
  reading.shift()?.()
  assert.equal(numberIn(await later), 3, 'and whoever asks for it later is answered')
})

test('building a past state is aborted with its last request, and started again for a later one', async () => {
  const { past, reading } = recorded(10)
  let isGone = false
  const leaving = { isGone: () => isGone }
  let later: Promise<CollectionSnapshot> | undefined
  const askedAtOnce = () => {
    later ??= past.collection('things', 5)
  }
  const last = {
    isGone() {
      if (isGone) queueMicrotask(askedAtOnce)
      return isGone
    },
  }
  const both = [past.collection('things', 5, leaving), past.collection('things', 5, last)]
  const givenUp = both.map((one) => assert.rejects(one, { code: 'Invalid', message: /went away/ }))
  const other = past.collection('things', 6, leaving)
  const staying = past.collection('things', 6)
  await settled()
  isGone = true
  for (const go of reading.splice(0)) go()
  await Promise.all(givenUp)
  assert.equal(numberIn(await staying), 4)
  assert.equal(numberIn(await other), 4)
  await settled()
  assert.equal(reading.length, 1, 'it is read again')
  reading.shift()?.()
  assert.equal(numberIn((await later) as CollectionSnapshot), 3)
})

const TIMES = Number(process.env.PAST_TIMES ?? 1)
const LIMITS = { parameters: 100, pageSize: 10_000 }
const SEARCHES = [
  '',
  'a_gt=3',
  'a=2&sort=-b',
  'sort=-a',
  'sort=b',
  'b_lt=5&sort=a,b',
  'tags=2',
  'a_ne=1&q=7',
  'tags_gt=1&sort=-tags',
]

function queryOf(search: string) {
  return parseQuery(parseParameters(search, LIMITS.parameters), LIMITS)
}

/** A collection that is written to, with all its states as they were. */
class World {
  readonly writer = new CollectionWriter()
  readonly past: Past
  readonly queries: Queries
  readonly random: Random
  readonly snapshots = new Map<Position, Snapshot>()

  constructor(seed: number) {
    this.random = new Random(seed)
    const { views, journal } = this.writer
    // The history knows nothing of what was before it.
    this.writer.put({ id: 'first' })
    this.past = new Past(journal, views, storedHistory(views), UNLIMITED)
    this.queries = new Queries({ views, bytes: 0 })
  }

  write(): void {
    const { random, writer } = this
    const id = random.pick([random.integer(5), random.integer(300), `k${random.integer(50)}`])
    if (random.chance(0.2)) {
      if (writer.collection.item(String(id))) writer.remove(id)
    } else if (random.chance(0.01)) writer.order(id, random.integer(300))
    else if (random.chance(0.03)) writer.resetIds(random.integer(300))
    else if (random.chance(0.05)) writer.expire(...this.oldest(random.integer(20)))
    else writer.put({ id, a: random.integer(8), b: random.integer(1000), tags: this.tags() })
    const snapshot = writer.views.snapshot()
    this.snapshots.set(snapshot.position, snapshot)
  }

  /** Some of the first items, and one that may be anywhere. */
  oldest(count: number): readonly ItemId[] {
    const ids: ItemId[] = [this.random.integer(300)]
    for (const { id } of this.writer.collection.items()) {
      if (ids.length > count) break
      if (this.random.chance(0.9)) ids.push(id)
    }
    return ids
  }

  tags(): JsonValue {
    const { random } = this
    return random.pick<JsonValue>([
      null,
      random.integer(4),
      [random.integer(4), random.integer(4)],
      [],
      'x'.repeat(1500),
    ])
  }

  async check(past = this.past): Promise<void> {
    const { random, writer, queries } = this
    const at = random.pick([...this.snapshots.keys()])
    const search = random.pick(SEARCHES)
    const size = random.pick([1, 7, 1000])
    const offset = random.integer(random.pick([1, 20, writer.collection.size + 2]))
    const query = queryOf(`${search}&offset=${offset}&limit=${size}`)
    const then = this.snapshots.get(at)?.get('things')
    const wanted = scan(then?.items() ?? [], query)
    const reading = await past.collection('things', at)
    const context = `asOf=${at} of ${writer.views.position}, ${search}, ${size} from ${offset}`
    const { text, total } = await answerOf(queries, reading, query)
    assert.equal(total, wanted.total, context)
    assert.equal(whole(text), wanted.text, context)
    assert.equal(reading.position, then?.facts.position, context)
    if (random.chance(0.05)) {
      assert.deepEqual(
        Array.from(itemsOf(reading), (item) => [item.text, item.revision, item.position]),
        Array.from(then?.items() ?? [], (item) => [item.text, item.revision, item.position]),
      )
    }
    reading.release()
  }
}

describe('a past collection', () => {
  test('equals what it was at any position, with any index', async () => {
    for (let round = 0; round < TIMES; round++) {
      const world = new World(SEED + round)
      const { writer, random } = world
      for (let step = 0; step < 150; step++) {
        for (let count = random.integer(8); count > 0; count--) world.write()
        if (world.snapshots.size === 0) continue
        if (step % 40 === 20) {
          const paths = random.pick([['a'], ['a', 'b'], ['b'], ['tags'], ['a', 'tags']]).map(parsePath)
          await writer.views.indexes.build(writer.collection.facts.table, 'things', paths)
        }
        // From here on, rows of both formats are read.
        if (step === 75) writer.views.store.transaction(() => makeFormat5(writer.views.store))
        for (let asked = 0; asked < 3; asked++) await world.check()
      }
    }
  })

  test('equals what it was when its events are in records of 512 KiB, as an earlier version imported them', async () => {
    const world = new World(SEED)
    const { writer } = world
    for (let count = 0; count < 600; count++) world.write()
    const write: Recorded = {
      ...(writer.records[0] as Recorded),
      events: writer.records.flatMap(({ events }) => [...events]),
    }
    const disk = new SimulatedDisk()
    for (const { first, bytes } of segmentsOf([write], 512 * 1024)) disk.put(`/journal/${segmentName(first)}`, bytes)
    const reader = new SegmentReader(disk.files(), (await walk(disk.files(), '/journal')).segments)
    const journal = {
      head: writer.records.length,
      read: (from: Position, to = writer.records.length) => reader.events(from, to),
      at: (positions: readonly Position[]) => reader.at(positions),
    }
    const past = new Past(journal, writer.views, storedHistory(writer.views), UNLIMITED)
    for (let asked = 0; asked < 80; asked++) await world.check(past)
  })

  test('reads only versions that a state near it does not have', async () => {
    const writer = new CollectionWriter()
    const found: Position[] = []
    const journal = readBy((from, to) => {
      found.push(from)
      return writer.journal.read(from, to)
    })
    const past = new Past(journal, writer.views, storedHistory(writer.views), UNLIMITED)
    writer.putAll(Array.from({ length: 100 }, (_, id) => ({ id, n: 0 })))
    for (let id = 0; id < 10; id++) writer.put({ id, n: 1 })
    for (let id = 5; id < 15; id++) writer.put({ id, n: 2 })
    const numbers = async (at: Position): Promise<readonly unknown[]> => {
      const reading = await past.collection('things', at)
      const all = Array.from(itemsOf(reading), ({ value }) => value.n)
      reading.release()
      return all.slice(0, 16)
    }
    assert.deepEqual(await numbers(111), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    assert.deepEqual(
      found.splice(0),
      [107, 108, 109, 110, 111, 12, 13, 14, 15, 16].sort((a, b) => a - b),
    )
    assert.deepEqual(await numbers(109), [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    assert.deepEqual(found.splice(0), [10, 11], 'the versions before the two changes between')
    assert.deepEqual(await numbers(111), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    assert.deepEqual(found, [], 'it is cached')
  })

  test('does not read the journal for unchanged items', async () => {
    const writer = new CollectionWriter()
    const { views } = writer
    let read = 0
    const journal = readBy(async function* (from, to) {
      for await (const recorded of writer.journal.read(from, to)) {
        read++
        yield recorded
      }
    })
    const past = new Past(journal, views, storedHistory(views), UNLIMITED)
    writer.putAll(Array.from({ length: 2000 }, (_, id) => ({ id, n: id })))
    for (let id = 0; id < 10; id++) writer.put({ id, n: -1 })
    const queries = new Queries({ views, bytes: 0 })
    const total = async (at: Position): Promise<number> => {
      const reading = await past.collection('things', at)
      const { total } = await answerOf(queries, reading, queryOf('n_gte=5&sort=-n&pageSize=3'))
      reading.release()
      return total
    }
    assert.deepEqual([await total(2011), await total(1001)], [1990, 995])
    assert.equal(read, 10, 'only the ten that changed')
    assert.equal(await total(2006), 1995)
    assert.equal(read, 10, 'those of the other state')
  })

  test('does not use an index that is dropped while the changes are read', async () => {
    const writer = new CollectionWriter()
    const { table } = writer.collection.facts
    storedHistory(writer.views)
    writer.putAll(Array.from({ length: 500 }, (_, id) => ({ id, n: id })))
    await writer.views.indexes.build(table, 'things', [parsePath('n')])
    writer.put({ id: 0, n: -1 })
    // Nothing of the index is in memory after a restart.
    const views = new Views(writer.views.store)
    const journal = readBy(async function* (from, to) {
      await views.indexes.dropTable(table)
      yield* writer.journal.read(from, to)
    })
    const reading = await new Past(journal, views, storedHistory(views), UNLIMITED).collection('things', 400)
    assert.deepEqual(views.indexes.all, [])
    const { total } = await answerOf(new Queries({ views, bytes: 0 }), reading, queryOf('n=5'))
    assert.equal(total, 1)
    reading.release()
  })

  test('is renewed after minutes of use, and the old one is closed with its last reader', async (t) => {
    const writer = new CollectionWriter()
    const past = new Past(writer.journal, writer.views, storedHistory(writer.views), UNLIMITED)
    writer.putAll(Array.from({ length: 50 }, (_, id) => ({ id, n: 1 })))
    const pinned = (): Position[] => [...writer.views.store.versions.pinned]
    const reading = await past.collection('things', 20)
    const first = pinned()
    writer.put({ id: 7, n: 2 })
    const now = performance.now.bind(performance)
    t.mock.method(performance, 'now', () => now() + 301_000)
    const other = await past.collection('things', 20)
    assert.deepEqual(pinned(), [...first, writer.views.position])
    assert.deepEqual(
      Array.from(itemsOf(other), ({ text }) => text),
      Array.from(itemsOf(reading), ({ text }) => text),
    )
    reading.release()
    await until('the first is let go', () => pinned().length === 1)
    other.release()
  })

  test('keeps replaced items only while it is used', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const writer = new CollectionWriter()
    const past = new Past(writer.journal, writer.views, storedHistory(writer.views), UNLIMITED)
    writer.putAll(Array.from({ length: 50 }, (_, id) => ({ id, n: 1 })))
    const reading = await past.collection('things', 20)
    const pins = (): number => [...writer.views.store.versions.pinned].length
    assert.equal(pins(), 1)
    reading.release()
    assert.equal(pins(), 1, 'it may be asked for again')
    t.mock.timers.reset()
    const now = performance.now.bind(performance)
    t.mock.method(performance, 'now', () => now() + 31_000)
    const other = await past.collection('things', 30)
    other.release()
    await until('the first is let go', () => pins() === 1)
  })
})

test('a snapshot that is never closed is released by garbage collection', async () => {
  const { views } = collectionOf([{ n: 1 }])
  const pinned = (): number => [...views.store.versions.pinned].length
  views.snapshot()
  assert.equal(pinned(), 1)
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  await until('the pin is released', () => {
    collectGarbage()
    return pinned() === 0
  })
})
