import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BLOCK, Gaps } from '../../src/collections/gaps.ts'

test('a copy and its original change independently', () => {
  const original = new Gaps()
  original.set(0, 5)
  original.set(3, 2)
  assert.equal(original.itemsBefore(4), 4 * BLOCK - 7)
  const copy = original.copy()
  original.set(1, 100)
  assert.deepEqual([copy.emptyIn(1), copy.itemsBefore(4), original.itemsBefore(4)], [0, 4 * BLOCK - 7, 4 * BLOCK - 107])
  copy.set(0, 6)
  assert.deepEqual(
    [original.emptyIn(0), copy.itemsBefore(4), original.itemsBefore(4)],
    [5, 4 * BLOCK - 8, 4 * BLOCK - 107],
  )
  assert.deepEqual(copy.blockWith(BLOCK - 6, 4 * BLOCK), { block: 1, before: BLOCK - 6 })
})
