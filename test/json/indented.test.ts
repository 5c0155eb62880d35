import assert from 'node:assert/strict'
import { test } from 'node:test'
import { indented } from '../../src/json/indented.ts'
import { anyValue } from '../support/json.ts'
import { Random, seedFor } from '../support/random.ts'

const TEXTS = ['', 'a', '"', '\\', '\\"', '\\\\', '{', '}', '[]', ',', ':', '\n', '\u2028', 'ä€😀', '{"a":[1,{}]}']

test('indented text is what JSON.stringify would write, behind a margin', () => {
  const seed = seedFor('indented')
  const random = new Random(seed)
  for (let round = 0; round < 5000; round++) {
    const value = anyValue(random, TEXTS, 5)
    const expected = JSON.stringify(value, null, 2).replaceAll('\n', '\n    ')
    assert.equal(indented(JSON.stringify(value), '    '), expected, `INDENTED_SEED=${seed}, round ${round}`)
  }
})
