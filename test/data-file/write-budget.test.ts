import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SMALL_BYTES, WriteBudget } from '../../src/data-file/write-budget.ts'
import { Random, SEED } from '../support/random.ts'

test('a small file is always due, and a large one when the journal has grown', () => {
  const budget = new WriteBudget()
  assert.equal(budget.journalBytesFor(0), 0)
  assert.equal(budget.journalBytesFor(SMALL_BYTES - 1), 0)
  assert.ok(budget.journalBytesFor(SMALL_BYTES) >= SMALL_BYTES / 2)
})

test('a file of constant size is written once per half of its size in the journal', () => {
  const budget = new WriteBudget()
  const size = 4 * SMALL_BYTES
  budget.spend(size, size, budget.journalBytesFor(size))
  assert.equal(budget.journalBytesFor(size), size / 2)
})

test('at most two bytes are written for each appended byte, however the file grows and shrinks', () => {
  const random = new Random(SEED)
  for (let run = 0; run < 200; run++) {
    const budget = new WriteBudget()
    let size = SMALL_BYTES * (1 + random.integer(20))
    let [appended, written] = [0, 0]
    for (let round = 0; round < 50; round++) {
      const bytes = budget.journalBytesFor(size) + random.integer(10_000)
      const before = size
      size += Math.floor(bytes * random.pick([0, 0.5, 1, -0.5]))
      size = Math.max(SMALL_BYTES, size)
      budget.spend(before, size, bytes)
      appended += bytes
      written += size
      // Bytes written beyond the budget are paid for before the file is written again.
      const due = appended + budget.journalBytesFor(size)
      assert.ok(written <= 2 * due, `SEED=${SEED}, run ${run}: ${written} for ${due}`)
    }
  }
})
