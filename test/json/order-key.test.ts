import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type KeyPart, orderKey, rankOfKey, readPart } from '../../src/json/order-key.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { ORDER } from '../query/order.ts'
import { compareRanked, RANK, ranked } from '../support/queries.ts'
import { forAll, type Random } from '../support/random.ts'

const SCALARS: readonly JsonValue[] = [
  ...ORDER.flat().filter((value) => typeof value !== 'object' || value === null),
  ...[-0, 0.1, -0.1, 1, -1, 2, -2, 255, 256, 1e308, -1e308, 5e-324, -5e-324, 2 ** 53, -(2 ** 53), 1.5, 65_536],
  ...['\u0000', '\u0001', '\u0000\u0000', '\ud83d', '\ud83dx', '\ude00', '\ud83d\ud83d\ude00', '\ud7ff', '\ue000'],
  ...[
    '0001-01-01T00:00:00.000001Z',
    '9999-12-31T23:59:59.999999Z',
    '1969-12-31T23:59:59.999999Z',
    '\uffff',
    '\u{10ffff}',
  ],
]

const NAMES = [
  '',
  'a',
  'b',
  'ab',
  '\u0000',
  'é',
  '2026-01-01',
  '7',
  '\uff5e',
  '\u{1f600}',
  'a\u{1f600}',
  '\ud83d',
  '\ude00',
]

function value(random: Random, depth = 0): JsonValue {
  const kind = random.integer(depth > 3 ? 1 : 4)
  if (kind < 2) return random.chance(0.2) ? (random.integer(2000) - 1000) / 8 : random.pick(SCALARS)
  const length = random.integer(4)
  if (kind === 2) return Array.from({ length }, () => value(random, depth + 1))
  const names = Array.from({ length }, () => random.pick(NAMES))
  return Object.fromEntries(names.map((name) => [name, value(random, depth + 1)]))
}

const keyOf = (one: JsonValue, most?: number) => orderKey(one, most)

test('order keys compare like the values', () => {
  forAll(20_000, (random) => {
    const [a, b] = [value(random), value(random)]
    const [left, right] = [keyOf(a), keyOf(b)]
    const order = Math.sign(compareRanked(ranked(a), ranked(b))) + 0
    const what = `${JSON.stringify(a)} and ${JSON.stringify(b)}`
    assert.equal(left === right ? 0 : left < right ? -1 : 1, order, what)
    assert.equal(left.startsWith(right), left === right, `no key begins another: ${what}`)
    assert.equal(rankOfKey(left), ranked(a).rank)
    // Cut behind the length of another key it still compares with that one.
    const cut = keyOf(a, right.length)
    assert.equal(cut === right ? 0 : cut < right ? -1 : 1, order, `cut: ${what}`)
  })
})

test('objects with the same members in another order have the same key', () => {
  const names = Array.from({ length: 5000 }, (_, index) => `${(index * 7919) % 5000}x`)
  const one = Object.fromEntries(names.map((name) => [name, name.length]))
  const other = Object.fromEntries(names.toReversed().map((name) => [name, name.length]))
  assert.equal(keyOf(one), keyOf(other))
})

test('an order key takes at most three times as many bytes as the JSON', () => {
  forAll(2000, (random) => {
    const one = [value(random), value(random)]
    const bytes = Buffer.byteLength(JSON.stringify(one))
    assert.ok(keyOf(one).length <= bytes * 3, JSON.stringify(one))
  })
})

test('the key of a scalar can be decoded, an instant as milliseconds with a fraction', () => {
  const check = (scalar: JsonValue) => {
    const bytes = Buffer.from(`x${orderKey(scalar)}\x03\xc1`, 'latin1')
    const part: KeyPart = { end: 0, rank: 0, value: null }
    const isRead = readPart(bytes, 1, part)
    assert.equal(isRead, typeof scalar !== 'object' || scalar === null, JSON.stringify(scalar))
    if (!isRead) return
    const expected = ranked(scalar)
    assert.equal(part.end, bytes.length - 2)
    assert.equal(part.rank, expected.rank)
    const { rank } = expected
    const wanted = rank === RANK.instant ? expected.value.ms + expected.value.micros / 1000 : scalar === 0 ? 0 : scalar
    assert.ok(Object.is(part.value, wanted), String(scalar))
  }
  SCALARS.forEach(check)
  forAll(2000, (random) => check(value(random, 4)))
})
