import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareRanked, RANK, ranked } from '../../src/json/order.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { operandOf } from '../../src/query/literal.ts'
import { ORDER } from './order.ts'

function compare(a: JsonValue, b: JsonValue): number {
  return Math.sign(compareRanked(ranked(a), ranked(b)))
}

test('any two values compare by the one total order', () => {
  for (const [left, as] of ORDER.entries()) {
    for (const [right, bs] of ORDER.entries()) {
      for (const a of as) {
        for (const b of bs) {
          assert.equal(compare(a, b), Math.sign(left - right), `${JSON.stringify(a)} and ${JSON.stringify(b)}`)
        }
      }
    }
  }
})

test('a text is read as an array or object only if it is valid JSON', () => {
  const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
  assert.equal(operandOf(nested(100), false).interpretations[RANK.array]?.rank, RANK.array)
  for (const text of [nested(101), nested(4000), '[1e999]', '{"__proto__":1}', '[1', '{a:1}']) {
    assert.deepEqual(
      [operandOf(text, false).interpretations[RANK.array], operandOf(text, false).interpretations[RANK.object]],
      [undefined, undefined],
      text.slice(0, 20),
    )
  }
})

test('text is ordered by code point: U+FF5E comes before U+1F600, though its UTF-16 unit is greater', () => {
  assert.ok('\u{1f600}' < '\uff5e', 'JavaScript has it the other way round')
  assert.equal(compare('\uff5e', '\u{1f600}'), -1)
  assert.equal(compare('a\u{1f600}', 'a\u{1f601}'), -1)
  assert.equal(compare('a', 'a\u{1f600}'), -1)
})

test('numbers are ordered by value, in any notation', () => {
  assert.equal(compare(1e300, -1e300), 1)
  assert.equal(compare(0, -0), 0)
  assert.equal(compare(0.1 + 0.2, 0.3), 1)
})

test('objects are equal with members in any order', () => {
  assert.equal(compare({ a: 1, b: [{ c: 1, d: 2 }] }, { b: [{ d: 2, c: 1 }], a: 1 }), 0)
})
