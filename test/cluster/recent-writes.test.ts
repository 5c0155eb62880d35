import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecentWrites } from '../../src/cluster/recent-writes.ts'
import type { Position } from '../../src/events/event.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'

function write(position: Position, text: string): Recorded {
  const item = Document.of({ id: position, text })
  const event = { type: 'ItemCreated', collection: 'a', id: position, revision: 1, prior: 0, item } as const
  return { position, time: '2026-11-20T12:00:00.000Z', actor: 'ann', requestId: 'r', events: [event] }
}

test('recent writes are held in memory if they are small, and read from the journal otherwise', async () => {
  const read: Position[] = []
  const recent = new RecentWrites({
    head: 2,
    read: async function* (from) {
      read.push(from)
      yield write(from, '')
    },
  })
  recent.apply(write(1, 'x'.repeat(1000)))
  recent.apply(write(2, 'x'.repeat(1024 * 1024)))
  assert.equal((await recent.endingAt(1)).position, 1)
  assert.deepEqual(read, [])
  assert.equal((await recent.endingAt(2)).position, 2)
  assert.deepEqual(read, [2])
})

test('a position within a write is reached with that write', async () => {
  const recent = new RecentWrites({ head: 3, read: () => assert.fail('nothing is read') })
  const reached = recent.reached(5)
  const ending = recent.endingAt(6)
  const events = [4, 5, 6].flatMap((position) => [...write(position, '').events])
  recent.apply({ ...write(4, ''), events })
  await reached
  assert.equal((await ending).position, 4)
})
