import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { type Draft, type Journal, lastPosition, positioned, type Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import type { Refusal } from '../../src/runtime/errors.ts'

export interface JournalUnderTest {
  readonly journal: Journal
  /** The clock that the journal reads. */
  setTime(iso: string): void
}

export interface DurableJournalUnderTest extends JournalUnderTest {
  /** Closes it and opens what it wrote. */
  readonly reopen: () => Promise<Journal>
}

export type JournalFactory<Made = JournalUnderTest> = (t: TestContext) => Promise<Made>

export function created(id: number, item: Record<string, string | number> = {}): DomainEvent {
  return { type: 'ItemCreated', collection: 'things', id, revision: 1, prior: 0, item: Document.of({ id, ...item }) }
}

export function draft(expected: number, ...events: DomainEvent[]): Draft {
  return { expected, actor: 'miranda', requestId: `request-${expected}`, events }
}

export async function all(journal: Journal, from = 1, to?: number): Promise<Recorded[]> {
  const found: Recorded[] = []
  for await (const recorded of journal.read(from, to)) found.push(recorded)
  return found
}

function positionsAndIds(recorded: readonly Recorded[]): [number, unknown][] {
  return recorded.flatMap(({ position, events }) =>
    Array.from(events, (event, index): [number, unknown] => [position + index, 'id' in event ? event.id : event.type]),
  )
}

/** The contract of Journal; each implementation runs it unchanged. */
export function journalContract(name: string, factory: JournalFactory): void {
  describe(`${name}, as a Journal`, () => {
    test('an empty journal begins before position 1 and has nothing to read', async (t) => {
      const { journal } = await factory(t)
      assert.equal(journal.head, 0)
      assert.equal(journal.writable, true)
      assert.deepEqual(await all(journal), [])
      assert.match(journal.id, /^[0-9a-f-]{36}$/)
    })

    test('positions are 1, 2, 3…, and every field of a write is read back', async (t) => {
      const { journal, setTime } = await factory(t)
      setTime('2026-11-20T12:00:00.123Z')
      const first = await journal.append({ ...draft(1, created(0, { name: 'Bob' })), key: 'k', request: 'abc' })
      const second = await journal.append(draft(2, created(1), created(2)))
      assert.equal(first.position, 1)
      assert.equal(lastPosition(second), 3)
      assert.equal(journal.head, 3)
      const [read] = await all(journal)
      assert.deepEqual(read, {
        position: 1,
        time: '2026-11-20T12:00:00.123Z',
        actor: 'miranda',
        requestId: 'request-1',
        key: 'k',
        request: 'abc',
        events: [created(0, { name: 'Bob' })],
      })
      assert.deepEqual(positionsAndIds(await all(journal)), [
        [1, 0],
        [2, 1],
        [3, 2],
      ])
    })

    test('any range can be read, even one that begins or ends within a write', async (t) => {
      const { journal } = await factory(t)
      await journal.append(draft(1, created(0), created(1), created(2)))
      await journal.append(draft(4, created(3), created(4)))
      assert.deepEqual(positionsAndIds(await all(journal, 2, 4)), [
        [2, 1],
        [3, 2],
        [4, 3],
      ])
      assert.deepEqual(positionsAndIds(await all(journal, 5, 5)), [[5, 4]])
      assert.deepEqual(await all(journal, 6), [])
      assert.deepEqual(positionsAndIds(await all(journal, 4, 99)), [
        [4, 3],
        [5, 4],
      ])
    })

    test('events at any ascending positions are read, with the time of their write', async (t) => {
      const { journal, setTime } = await factory(t)
      setTime('2026-11-20T12:00:00.000Z')
      await journal.append(draft(1, created(0), created(1), created(2)))
      setTime('2026-11-20T12:00:01.000Z')
      await journal.append(draft(4, created(3)))
      await journal.append({ ...draft(5, created(4), created(5)), key: 'k' })
      const found: unknown[] = []
      for await (const recorded of journal.at([2, 3, 4, 6])) {
        const { time, requestId, key } = recorded
        for (const [position, event] of positioned(recorded)) found.push([position, time, requestId, key, event])
      }
      assert.deepEqual(found, [
        [2, '2026-11-20T12:00:00.000Z', 'request-1', undefined, created(1)],
        [3, '2026-11-20T12:00:00.000Z', 'request-1', undefined, created(2)],
        [4, '2026-11-20T12:00:01.000Z', 'request-4', undefined, created(3)],
        [6, '2026-11-20T12:00:01.000Z', 'request-5', 'k', created(5)],
      ])
      for await (const _ of journal.at([])) assert.fail('an event was read')
    })

    test('concurrent appends keep their order', async (t) => {
      const { journal } = await factory(t)
      const appended = await Promise.all(
        Array.from({ length: 500 }, (_, id) => journal.append(draft(id + 1, created(id)))),
      )
      assert.deepEqual(
        appended.map(({ position }) => position),
        Array.from({ length: 500 }, (_, id) => id + 1),
      )
      assert.deepEqual(
        positionsAndIds(await all(journal)),
        Array.from({ length: 500 }, (_, id) => [id + 1, id]),
      )
    })

    test('a follower gets a complete write before its append resolves', async (t) => {
      const { journal } = await factory(t)
      const seen: Recorded[] = []
      journal.follow((recorded) => {
        assert.equal(journal.head, lastPosition(recorded), 'it is durable')
        seen.push(recorded)
      })
      for (let id = 0; id < 20; id += 2) {
        const recorded = await journal.append(draft(id + 1, created(id), created(id + 1)))
        assert.equal(seen.at(-1)?.position, recorded.position)
        assert.equal(seen.at(-1)?.events.length, 2)
      }
      assert.deepEqual(
        seen.map(({ position }) => position),
        [1, 3, 5, 7, 9, 11, 13, 15, 17, 19],
      )
    })

    test('an append that does not follow the accepted ones is rejected, and the journal stays usable', async (t) => {
      const { journal } = await factory(t)
      await journal.append(draft(1, created(0)))
      await assert.rejects(journal.append(draft(1, created(1))), { code: 'Unavailable' } satisfies Partial<Refusal>)
      await assert.rejects(journal.append(draft(3, created(1))), { code: 'Unavailable' })
      assert.equal((await journal.append(draft(2, created(1)))).position, 2)
    })

    test('event times never decrease, even when the clock does', async (t) => {
      const { journal, setTime } = await factory(t)
      setTime('2026-11-20T12:00:00.000Z')
      await journal.append(draft(1, created(0)))
      setTime('2016-11-20T12:00:00.000Z')
      await journal.append(draft(2, created(1)))
      setTime('2036-11-20T12:00:00.000Z')
      await journal.append(draft(3, created(2)))
      assert.deepEqual(
        (await all(journal)).map(({ time }) => time),
        ['2026-11-20T12:00:00.000Z', '2026-11-20T12:00:00.000Z', '2036-11-20T12:00:00.000Z'],
      )
    })

    test('a reader that started before an append may finish after it', async (t) => {
      const { journal } = await factory(t)
      await journal.append(draft(1, created(0)))
      await journal.append(draft(2, created(1)))
      const found: number[] = []
      for await (const recorded of journal.read(1)) {
        found.push(recorded.position)
        if (found.length === 1) await journal.append(draft(3, created(2)))
      }
      assert.deepEqual(found, [1, 2])
    })

    test('any text that JSON can contain is stored', async (t) => {
      const { journal } = await factory(t)
      const name = 'a\nb\r\u0000\u2028"\\{"frame":"€😀'
      await journal.append({ ...draft(1, created(0, { name })), actor: 'mi"ran\nda' })
      const [read] = await all(journal)
      assert.equal(read?.actor, 'mi"ran\nda')
      assert.deepEqual(read?.events, [created(0, { name })])
    })

    test('a closed journal has stored all accepted writes and accepts no more', async (t) => {
      const { journal } = await factory(t)
      const accepted = [1, 2, 3].map((position) => journal.append(draft(position, created(position))))
      await journal.close()
      assert.equal((await Promise.all(accepted)).length, 3)
      await assert.rejects(journal.append(draft(4, created(4))), { code: 'Unavailable' })
    })
  })
}

/** The contract of a Journal that outlives its process. */
export function durableJournalContract(name: string, factory: JournalFactory<DurableJournalUnderTest>): void {
  journalContract(name, factory)
  describe(`${name}, as a Journal that outlives its process`, () => {
    test('a reopened journal continues where it ended', async (t) => {
      const { journal, reopen } = await factory(t)
      await journal.append({ ...draft(1, created(0)), key: 'k' })
      await journal.append(draft(2, created(1), created(2)))
      const before = await all(journal)
      const again = await reopen()
      assert.equal(again.id, journal.id)
      assert.equal(again.head, 3)
      assert.deepEqual(await all(again), before)
      await again.append(draft(4, created(3)))
      assert.deepEqual(positionsAndIds(await all(again, 3)), [
        [3, 2],
        [4, 3],
      ])
    })
  })
}
