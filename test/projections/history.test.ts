import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { lastPosition } from '../../src/events/journal.ts'
import type { History } from '../../src/projections/history.ts'
import { positionAt } from '../../src/projections/moment.ts'
import { Views } from '../../src/projections/views.ts'
import { POSITION_BYTES, positionOf, prefixEnd, TAG } from '../../src/store/keys.ts'
import { project, readBy, storedHistory } from '../support/collections.ts'
import { begun, created, deleted, replaced } from '../support/decider.ts'
import { makeFormat5 } from '../support/format-5.ts'
import { memoryJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'

const KEYS = 5

/** The past of an item, as the test itself records it. */
interface Told {
  readonly positions: Position[]
  exists: boolean
}

async function told(events: number, random: Random) {
  const journal = memoryJournal('a journal', () => new Date(0))
  const views = Views.temporary()
  const history = storedHistory(views)
  const reads: Position[] = []
  const items = Array.from({ length: KEYS }, (): Told => ({ positions: [], exists: false }))
  journal.follow((recorded) => project(views, recorded))
  let head = 0
  const append = async (...drafted: DomainEvent[]) => {
    const appended = await journal.append({ expected: head + 1, actor: 'a', requestId: 'r', events: drafted })
    head = lastPosition(appended)
  }
  await append(begun)
  while (head < events) {
    const drafted: DomainEvent[] = []
    for (const [id, item] of items.entries()) {
      if (random.chance(0.6)) continue
      const stamp = { revision: item.positions.length + 1, prior: item.positions.at(-1) ?? 0 }
      item.positions.push(head + 1 + drafted.length)
      if (item.exists && random.chance(0.2)) drafted.push(deleted(id, stamp))
      else drafted.push((item.exists ? replaced : created)({ id, n: head }, stamp))
      item.exists = drafted.at(-1)?.type !== 'ItemDeleted'
    }
    if (drafted.length > 0) await append(...drafted)
  }
  const counting = readBy((from, to) => {
    reads.push(from)
    return journal.read(from, to)
  })
  return { history, journal: counting, views, items, head, reads }
}

async function checkEvents({ history, journal, items, head, reads }: Awaited<ReturnType<typeof told>>, random: Random) {
  for (const [id, { positions }] of items.entries()) {
    assert.ok(positions.length > 64, 'more than are looked up together')
    for (let at = 0; at <= head + 1; at++) {
      reads.length = 0
      const last = await history.lastEventOf(journal, 'things', String(id), at)
      const expected = positions.findLast((position) => position <= at)
      assert.equal(last?.position, expected, `SEED=${SEED}: item ${id} at ${at}`)
      assert.equal(last && String(last.event.id), last && String(id))
      assert.deepEqual(reads, [expected ?? positions[0]], 'only this event is read, or the first one')
    }
    for (let time = 0; time < 50; time++) {
      const [from, to] = [random.integer(head), random.integer(head + 2)]
      const count = 1 + random.integer(70)
      const earlier = positions.filter((position) => position <= to)
      assert.equal(
        history.startOfLast('things', String(id), count, to),
        earlier.at(-Math.min(count, 64)) ?? earlier[0],
        `SEED=${SEED}: the last ${count} events of item ${id} up to ${to}`,
      )
      const found: Position[] = []
      for await (const { position } of history.eventsOf(journal, 'things', String(id), from, to)) found.push(position)
      const expected = positions.filter((position) => position >= from && position <= to)
      assert.deepEqual(found, expected, `SEED=${SEED}: item ${id} from ${from} to ${to}`)
    }
  }
}

test('the events of an item between any two positions are found, and the last one before any', async () => {
  const random = new Random(SEED)
  await checkEvents(await told(1000, random), random)
})

test('the rows of events in a store of format 5 are read as well', async () => {
  const random = new Random(SEED)
  const world = await told(1000, random)
  world.views.store.transaction(() => makeFormat5(world.views.store))
  await checkEvents(world, random)
})

/** A journal whose clock is set forwards and back, with large writes, and its times by position. */
async function timed(random: Random) {
  let ms = Date.parse('2026-11-20T12:00:00.000Z')
  const journal = memoryJournal('a journal', () => new Date(ms))
  const views = Views.temporary()
  const history = storedHistory(views)
  const times = [Number.NEGATIVE_INFINITY]
  journal.follow((recorded) => {
    project(views, recorded)
    for (const _ of recorded.events) times.push(Date.parse(recorded.time))
  })
  while (journal.head < 3000) {
    ms += random.pick([0, 1, 1, 5, 1000, -2, -3000])
    const length = random.chance(0.01) ? 300 : 1
    const events = Array.from({ length }, (_, index) => created({ id: journal.head + 1 + index }))
    const drafted = journal.head === 0 ? [begun] : events
    await journal.append({ expected: journal.head + 1, actor: 'a', requestId: 'r', events: drafted })
  }
  return { journal, views, history, times }
}

test('the last event up to any time is found, also where an earlier version stored no times', async () => {
  const random = new Random(SEED)
  const { journal, views, history, times } = await timed(random)
  const { store } = views
  let read = 0
  const counting = readBy(
    (from, to) => {
      read++
      return journal.read(from, to)
    },
    () => journal.head,
  )
  const check = async (known: History | undefined, most: number): Promise<void> => {
    for (let round = 0; round < 300; round++) {
      const ms = random.pick([
        (times[1] as number) - 1,
        -1,
        2 ** 50,
        random.pick(times.slice(1)) + random.integer(3) - 1,
      ])
      read = 0
      const context = `SEED=${SEED}, round ${round}, ${ms}`
      assert.equal(
        await positionAt(counting, known, ms),
        times.findLastIndex((time) => time <= ms),
        context,
      )
      assert.ok(read <= most, `${read} events were read: ${context}`)
    }
  }
  const rows = store.rows(Buffer.from([TAG.time]), Buffer.from([TAG.time + 1]))
  await check(history, 16)
  await check(undefined, 48)
  const lost = rows.slice(0, 100)
  const other = rows.filter(() => random.chance(0.3))
  store.transaction(() => {
    for (const { key } of [...lost, ...other]) store.remove(key)
  })
  await check(history, 48)
})

test('rows of events that nobody sees yet do not name a position beyond the head', async () => {
  const { journal, history, times } = await timed(new Random(SEED))
  const head = 1000
  const before = readBy(
    (from, to) => journal.read(from, to),
    () => head,
  )
  for (const ms of [times.at(-1) as number, times[head] as number, (times[head] as number) + 1]) {
    assert.equal(await positionAt(before, history, ms), head)
  }
})

test('an unknown item has no events', async () => {
  const { history, journal } = await told(10, new Random(1))
  assert.equal(await history.lastEventOf(journal, 'things', 'x', 5), undefined)
  assert.equal(await history.lastEventOf(journal, 'nothing', '0', 5), undefined)
  for await (const _ of history.eventsOf(journal, 'things', 'x', 1, 10)) assert.fail('an event was found')
})

test('a lost row of an earlier event is noticed, and nothing that depends on it is answered', async () => {
  const { history, journal, views, items, head } = await told(200, new Random(SEED))
  const { positions } = items[0] as Told
  const { store } = views
  const damages: Error[] = []
  store.damaged = (error) => damages.push(error)
  const from = Buffer.from([TAG.itemEvent])
  const rows = store.rows(from, prefixEnd(from))
  // The item itself has the last two.
  for (const [index, position] of positions.slice(0, -2).entries()) {
    const [row] = rows.filter(({ key }) => positionOf(key, key.length - POSITION_BYTES) === position)
    assert.ok(row)
    store.transaction(() => store.remove(row.key))
    const lastOf = (at: Position) => history.lastEventOf(journal, 'things', '0', at)
    if (index > 0) assert.equal((await lastOf(position - 1))?.position, positions[index - 1])
    for (const at of [position, (positions[index + 1] as Position) - 1]) {
      await assert.rejects(lastOf(at), { code: 'Unavailable' }, `SEED=${SEED}: at ${at}`)
    }
    await assert.rejects(
      async () => {
        for await (const _ of history.eventsOf(journal, 'things', '0', 0, head));
      },
      { code: 'Unavailable' },
    )
    store.transaction(() => store.set(row.key, row.value))
  }
  assert.deepEqual(damages.map(String), [
    `Corruption: The store lacks the event of things/0 at position ${positions[0]}.`,
  ])
})
