import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import type { Journal } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { parseInstant } from '../../src/json/instant.ts'
import { type EventFilter, newestFirst, search, timeRange } from '../../src/projections/event-search.ts'
import { Views } from '../../src/projections/views.ts'
import type { Memory } from '../../src/runtime/memory.ts'
import { Semaphore } from '../../src/runtime/turns.ts'
import { project, storedHistory } from '../support/collections.ts'
import { memoryJournal } from '../support/journal.ts'
import { Random, SEED } from '../support/random.ts'

const ASKER = { isGone: () => false }

/** A journal in which every read is counted, by the events that it gave. */
class Counted {
  readonly journal: Journal
  readonly views = Views.temporary()
  readonly #history = storedHistory(this.views)
  readonly history = () => this.#history
  readonly searches = new Semaphore(2)
  readonly times: string[] = []
  read = 0
  ms = Date.parse('2026-11-20T12:00:00.000Z')
  readonly #prior = new Map<string, { revision: number; position: Position }>()

  constructor() {
    const journal = memoryJournal('00000000-0000-4000-8000-000000000000', () => new Date(this.ms))
    const counted = this
    journal.follow((recorded) => {
      project(this.views, recorded)
      for (const _ of recorded.events) this.times.push(recorded.time)
    })
    this.journal = {
      ...journal,
      get head() {
        return journal.head
      },
      async *read(from, to) {
        for await (const recorded of journal.read(from, to)) {
          counted.read += recorded.events.length
          yield recorded
        }
      },
    }
  }

  append(...events: readonly DomainEvent[]): Promise<unknown> {
    const expected = this.journal.head + 1
    return this.journal.append({ expected, actor: 'ada', requestId: 'r', events })
  }

  create(collection: string): Promise<unknown> {
    return this.append({ type: 'CollectionCreated', collection })
  }

  put(collection: string, id: number): Promise<unknown> {
    const key = `${collection} ${id}`
    const before = this.#prior.get(key)
    this.#prior.set(key, { revision: (before?.revision ?? 0) + 1, position: this.journal.head + 1 })
    const stamp = { revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
    return this.append({
      type: before ? 'ItemReplaced' : 'ItemCreated',
      collection,
      id,
      ...stamp,
      item: Document.of({ id }),
    })
  }

  /** The events found, and the number of events that were read. */
  async find(
    wanted: Partial<EventFilter>,
  ): Promise<{ readonly positions: readonly Position[]; readonly read: number }> {
    this.read = 0
    const { first, last = this.journal.head } = await timeRange(this, { from: 1, ...wanted })
    const positions: Position[] = []
    for await (const { position } of search(this, { ...wanted, from: first }, last, ASKER)) positions.push(position)
    return { positions, read: this.read }
  }
}

async function filled(): Promise<Counted> {
  const counted = new Counted()
  await counted.create('a')
  for (let n = 0; n < 1000; n++) {
    if (n === 500) await counted.create('rare')
    if (n > 500 && n < 510) await counted.put('rare', n)
    await counted.put('a', n % 300)
    if (n % 3 === 0) counted.ms += 1
  }
  return counted
}

test('events of an item are found without a scan, even by its id alone', async () => {
  const counted = await filled()
  for (const collection of ['a', undefined]) {
    const { positions, read } = await counted.find({ ...(collection && { collection }), id: '7' })
    assert.equal(positions.length, 4)
    assert.ok(read < 10, `read ${read}`)
  }
  assert.deepEqual(await counted.find({ id: '999999' }), { positions: [], read: 0 })
})

test('a collection is searched only between its first and last event', async () => {
  const counted = await filled()
  const { positions, read } = await counted.find({ collection: 'rare' })
  assert.equal(positions.length, 10)
  assert.ok(read < 30, `read ${read}`)
  assert.deepEqual(await counted.find({ collection: 'none' }), { positions: [], read: 0 })
})

test('a time range is found without a scan and inclusive at both ends', async () => {
  const counted = await filled()
  const random = new Random(SEED)
  const { times } = counted
  for (let round = 0; round < 200; round++) {
    const at = (): number => Date.parse(random.pick(times)) + random.integer(3) - 1
    const [since, until] = [at(), at()].sort((a, b) => a - b) as [number, number]
    const text = (ms: number, micros: string): string => new Date(ms).toISOString().replace('Z', `${micros}Z`)
    const micros = random.chance(0.5)
    const wanted = { since: parseInstant(text(since, micros ? '500' : '')), until: parseInstant(text(until, '')) }
    const { positions, read } = await counted.find(wanted as EventFilter)
    const expected = times.flatMap((time, index) => {
      const ms = Date.parse(time)
      return (micros ? ms > since : ms >= since) && ms <= until ? [index + 1] : []
    })
    assert.deepEqual(positions, expected, `SEED=${SEED}, round ${round}`)
    // Each end is found among 16 events, which are read in one step.
    assert.ok(read <= expected.length + 2 * 16, `read ${read} for ${expected.length}`)
  }
})

test('a time in the future may still match later events', async () => {
  const counted = await filled()
  const range = await timeRange(counted, { from: 1, until: { ms: counted.ms + 10, micros: 0 } })
  assert.equal(range.last, undefined)
})

test('newest first gives the same events in reverse order, in any chunk size and number', async () => {
  const counted = await filled()
  const { journal } = counted
  // An item with more events than are looked up together, and one of the same id in another collection.
  for (let n = 0; n < 250; n++) {
    await counted.put('a', 1000)
    if (n % 5 === 0) await counted.put('a', n % 300)
    if (n % 100 === 0) await counted.put('rare', 1000)
  }
  for (const wanted of [
    {},
    { collection: 'rare' },
    { collection: 'none' },
    { type: 'CollectionCreated' },
    { id: '7' },
    { id: '1000' },
    { collection: 'a', id: '1000' },
    { collection: 'a', id: '1000', type: 'ItemCreated' },
    { collection: 'rare', id: '1000', from: 1300 },
    { id: 'none' },
  ] as const) {
    const { positions } = await counted.find(wanted)
    for (const most of [1, 3, 64, 65, Number.POSITIVE_INFINITY]) {
      for (const held of [0, 2000, 20_000, 10_000_000]) {
        const found: Position[] = []
        const newest = newestFirst(counted, { from: 1, ...wanted }, journal.head, { ...ASKER, most }, held)
        for await (const { position } of newest) found.push(position)
        const expected = [...positions].reverse().slice(0, most)
        assert.deepEqual(found, expected, `${JSON.stringify(wanted)}, at most ${most} events and ${held} bytes`)
      }
    }
  }
})

test('newest first holds no more events than are wanted', async () => {
  const counted = await filled()
  const bytes: number[] = []
  const memory = { hold: (more: number) => bytes.push(more), count: () => {} } as unknown as Memory
  const wanted = { from: 1, collection: 'a' }
  for await (const _ of newestFirst(counted, wanted, counted.journal.head, { ...ASKER, memory, most: 2 }));
  const held = bytes.reduce((sum, more) => sum + more)
  assert.ok(held < 1000, `${held} bytes for two events`)
})
