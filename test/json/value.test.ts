import assert from 'node:assert/strict'
import { test } from 'node:test'
import { equal, isWellFormed } from '../../src/json/value.ts'

test('JSON values are equal with members in any order, and never across types', () => {
  assert.ok(equal({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }))
  assert.ok(!equal([1, 2], [2, 1]))
  assert.ok(!equal([], {}))
  assert.ok(!equal({}, []))
  assert.ok(!equal({ 0: 'a' }, ['a']))
  assert.ok(!equal(1, '1'))
  assert.ok(!equal(null, {}))
  assert.ok(!equal(null, false))
  assert.ok(!equal({ a: 1 }, { a: 1, b: 2 }))
  assert.ok(!equal({ toString: 1 }, { valueOf: 1 }))
  assert.ok(!equal({ a: undefined } as never, { b: undefined } as never))
})

test('a lone surrogate makes a text malformed, a pair does not', () => {
  assert.ok(isWellFormed('\u{1F600} €'))
  assert.ok(!isWellFormed('\ud83d'))
  assert.ok(!isWellFormed('a\ude00b'))
  assert.ok(!isWellFormed('\ude00\ud83d'))
})
