import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { lastPosition } from '../../src/events/journal.ts'
import { itemEventsAt } from '../../src/projections/history.ts'
import { Views } from '../../src/projections/views.ts'
import { POSITION_BYTES, positionOf, prefixEnd, TAG } from '../../src/store/keys.ts'
import { project, storedHistory } from '../support/collections.ts'
import { begun, created, deleted, replaced } from '../support/decider.ts'
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
  const counting: Pick<typeof journal, 'read'> = {
    read(from, to) {
      reads.push(from)
      return journal.read(from, to)
    },
  }
  return { history, journal: counting, views, items, head, reads }
}

test('the events of an item between any two positions are found, and the last one before any', async () => {
  const random = new Random(SEED)
  const { history, journal, items, head, reads } = await told(1000, random)
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
      const found: Position[] = []
      for await (const { position } of history.eventsOf(journal, 'things', String(id), from, to)) found.push(position)
      const expected = positions.filter((position) => position >= from && position <= to)
      assert.deepEqual(found, expected, `SEED=${SEED}: item ${id} from ${from} to ${to}`)
    }
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
  for (const [index, position] of positions.slice(0, -1).entries()) {
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

test('events at close positions are read together, each once, and those of long items in parts', async () => {
  const journal = memoryJournal('a journal', () => new Date(0))
  const reads: Position[] = []
  const counting: Pick<typeof journal, 'read'> = {
    read(from, to) {
      reads.push(from)
      return journal.read(from, to)
    },
  }
  const events = Array.from({ length: 300 }, (_, id) => created({ id, text: id < 290 ? '' : 'x'.repeat(400_000) }))
  for (const [index, event] of [begun, ...events].entries()) {
    await journal.append({ expected: index + 1, actor: 'a', requestId: 'r', events: [event] })
  }
  const found = async (positions: readonly Position[]) => {
    reads.length = 0
    const all: Position[] = []
    for await (const [position, event] of itemEventsAt(counting, positions)) {
      assert.equal(event.id, position - 2)
      all.push(position)
    }
    return all.sort((a, b) => a - b)
  }
  const short = [2, 3, 5, 60, 61]
  assert.deepEqual(await found(short), short)
  assert.deepEqual(reads, [2])
  const all = Array.from(events, (_, index) => index + 2)
  assert.deepEqual(await found(all), all)
  assert.ok(reads.length >= 4, `${reads.length} reads for 4 MB`)
  await assert.rejects(found([1, 2]), /The journal has no event of an item at position 1\./)
})
