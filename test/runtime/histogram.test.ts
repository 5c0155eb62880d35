import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Histogram } from '../../src/runtime/histogram.ts'
import { SEED } from '../support/random.ts'

test('a histogram counts values up to each bound, their number and their sum', () => {
  const bounds = fc.uniqueArray(fc.integer({ min: -20, max: 20 }), { minLength: 1, maxLength: 8 })
  const values = fc.array(fc.integer({ min: -25, max: 25 }))
  fc.assert(
    fc.property(bounds, values, (unsorted, all) => {
      const ascending = unsorted.toSorted((a, b) => a - b)
      const spread = new Histogram(ascending)
      for (const value of all) spread.note(value)
      const counted = ascending.map((bound) => all.filter((value) => value <= bound).length)
      assert.deepEqual(spread.cumulative(), [...counted, all.length])
      assert.equal(
        spread.sum,
        all.reduce((sum, value) => sum + value, 0),
      )
    }),
    { seed: SEED, numRuns: 100 },
  )
})
