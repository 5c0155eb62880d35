import assert from 'node:assert/strict'
import { test } from 'node:test'
import { orderKey, RANK, rankOfKey } from '../../src/json/order-key.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { operandOf } from '../../src/query/filter.ts'
import { compareRanked, ranked } from '../support/queries.ts'
import { ORDER } from './order.ts'

/** Compares the order keys, and checks that the reference does as well. */
function compare(a: JsonValue, b: JsonValue): number {
  const [left, right] = [orderKey(a), orderKey(b)]
  const order = left === right ? 0 : left < right ? -1 : 1
  assert.equal(Math.sign(compareRanked(ranked(a), ranked(b))) + 0, order, `${JSON.stringify([a, b])}`)
  return order
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
  const containers = (text: string) => operandOf(text, false).keys.filter((key) => rankOfKey(key) >= RANK.array)
  assert.deepEqual(containers(nested(100)), [orderKey(JSON.parse(nested(100)))])
  for (const text of [nested(101), nested(4000), '[1e999]', '{"__proto__":1}', '[1', '{a:1}']) {
    assert.deepEqual(containers(text), [], text.slice(0, 20))
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
