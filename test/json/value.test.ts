import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareText, equal, isWellFormed } from '../../src/json/value.ts'
import { forAll } from '../support/random.ts'

test('text is compared by code point, not by UTF-16 unit', () => {
  assert.ok(compareText('\u{1F600}', '\uFF5E') > 0)
  assert.ok(compareText('\uFF5E', '\u{1F600}') < 0)
  assert.ok('\u{1F600}' < '\uFF5E', 'UTF-16 units would say the opposite')
  assert.ok(compareText('Z', 'a') < 0)
  assert.ok(compareText('a', 'ä') < 0)
  assert.ok(compareText('a', 'ab') < 0)
  assert.ok(compareText('', 'a') < 0)
  assert.equal(compareText('ab\u{1F600}', 'ab\u{1F600}'), 0)
})

test('random texts are ordered by their code points', () => {
  const alphabet = ['a', 'b', '\u{7f}', 'ß', '\u{d7ff}', '\u{e000}', '\u{ff5e}', '\u{ffff}', '\u{10000}', '\u{10ffff}']
  forAll(5000, (random) => {
    const text = (): string => Array.from({ length: random.integer(5) }, () => random.pick(alphabet)).join('')
    const [a, b] = [text(), text()]
    const [left, right] = [a, b].map((each) => Array.from(each, (point) => point.codePointAt(0) ?? 0)) as [
      number[],
      number[],
    ]
    const differing = left.findIndex((point, index) => point !== right[index])
    const expected =
      differing < 0
        ? left.length - right.length
        : right[differing] === undefined
          ? 1
          : (left[differing] ?? 0) - right[differing]
    assert.equal(Math.sign(compareText(a, b)), Math.sign(expected), `${JSON.stringify(a)} and ${JSON.stringify(b)}`)
  })
})

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
