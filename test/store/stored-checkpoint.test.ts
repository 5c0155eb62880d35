import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Checkpoint } from '../../src/events/checkpoint.ts'
import type { SegmentSpan } from '../../src/events/segment.ts'
import { StoredCheckpoint } from '../../src/projections/store-fold.ts'
import { Store } from '../../src/store/store.ts'

function segment(first: number, records: number): SegmentSpan {
  const positions = Array.from({ length: records }, (_, at) => first + at * 10)
  return { first, size: 1000 + records, index: { positions, offsets: positions.map((position) => position * 100) } }
}

function checkpoint(...segments: readonly SegmentSpan[]): Checkpoint {
  const position = (segments.at(-1)?.index.positions.at(-1) ?? 0) + 1
  const next = { position, previous: '0123abcd', flush: position }
  return { journal: 'j', next, time: '2026-01-01T00:00:00.000Z', lastOffset: position * 100, segments }
}

test('a checkpoint is loaded as it was saved, after any aborted saves', () => {
  const store = Store.temporary()
  const save = (one: Checkpoint): void => store.transaction(() => new StoredCheckpoint(store).save(one))
  const kept = new StoredCheckpoint(store)
  const giveUp = (one: Checkpoint): void => {
    const failing = () =>
      store.transaction(() => {
        kept.save(one)
        throw new Error('given up')
      })
    assert.throws(failing, /given up/)
  }
  assert.equal(kept.load(), undefined)
  save(checkpoint(segment(1, 3)))
  store.transaction(() => kept.save(checkpoint(segment(1, 5))))
  giveUp(checkpoint(segment(1, 8)))
  giveUp(checkpoint(segment(1, 8), segment(500, 2)))
  store.transaction(() => kept.save(checkpoint(segment(1, 8), segment(500, 3))))
  assert.deepEqual(new StoredCheckpoint(store).load(), checkpoint(segment(1, 8), segment(500, 3)))
  giveUp(checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 1)))
  store.transaction(() => kept.save(checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 2))))
  assert.deepEqual(kept.load(), checkpoint(segment(1, 8), segment(500, 4), segment(900, 1), segment(950, 2)))
})
