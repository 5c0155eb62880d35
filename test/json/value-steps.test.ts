import assert from 'node:assert/strict'
import { test } from 'node:test'
import { equal, type JsonValue } from '../../src/json/value.ts'
import { equalSteps, stringifySteps } from '../../src/json/value-steps.ts'
import { atOnce } from '../../src/runtime/time-slices.ts'
import { anyObject, anyValue } from '../support/json.ts'
import { longObjects } from '../support/long-json.ts'
import { forAll, Random, SEED } from '../support/random.ts'

const TEXTS = ['', 'a', '1', '"', '\\', 'ü€😀', '\ud800', '\n', 'x'.repeat(600)]

test('the time-sliced stringify gives the text of JSON.stringify, for any value', () => {
  forAll(5000, (random) => {
    const value = anyValue(random, TEXTS, 5)
    assert.equal(atOnce(stringifySteps(value, 1 + random.integer(8))), JSON.stringify(value))
  })
})

test('the time-sliced stringify leaves out undefined members, as JSON.stringify does', () => {
  const value = { a: undefined, b: [1, 2, { c: undefined, d: 3 }], e: undefined } as unknown as JsonValue
  assert.equal(atOnce(stringifySteps(value, 1)), JSON.stringify(value))
})

test('the time-sliced comparison gives the result of equal, for any two values', () => {
  const counts = { equal: 0, different: 0 }
  forAll(5000, (random) => {
    const value = anyObject(random, TEXTS, 4)
    const other = random.chance(0.5) ? shuffled(value, random) : anyObject(random, TEXTS, 4)
    const changed = random.chance(0.3) ? { ...(other as object), m: 1 } : other
    const expected = equal(value, changed)
    assert.equal(atOnce(equalSteps(value, changed, 1 + random.integer(8))), expected)
    counts[expected ? 'equal' : 'different']++
  })
  assert.ok(counts.equal > 500 && counts.different > 500, JSON.stringify(counts))
})

/** The same with the members of its objects in another order. */
function shuffled(value: JsonValue, random: Random): JsonValue {
  if (Array.isArray(value)) return value.map((element) => shuffled(element, random))
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value as Record<string, JsonValue>).map(
    ([name, member]) => [name, shuffled(member, random), random.next()] as const,
  )
  return Object.fromEntries(members.sort((a, b) => a[2] - b[2]).map(([name, member]) => [name, member]))
}

test('long values of any structure take many steps, and short ones one', () => {
  for (const [shape, value] of Object.entries(longObjects(300_000))) {
    const text = stringifySteps(value)
    const same = equalSteps(value, JSON.parse(JSON.stringify(value)))
    for (let steps = 0; steps < 3; steps++) {
      assert.equal(text.next().done, false, shape)
      if (shape !== 'a text') assert.equal(same.next().done, false, shape)
    }
    assert.ok(atOnce(text) === JSON.stringify(value), shape)
    assert.equal(atOnce(same), true, shape)
  }
  assert.equal(stringifySteps({ a: [1, 2] }).next().done, true)
  assert.equal(equalSteps({ a: [1, 2] }, { a: [1, 2] }).next().done, true)
})

test('a text that is slow to write takes several steps', () => {
  const text = '\ud800'.repeat(100_000) + '😀'.repeat(100_000) + 'a\udc00'.repeat(50_000)
  for (const value of [{ a: text, b: text }, [text, 1], text, { a: `b${text}` }, text.slice(0, 100_000)]) {
    const writing = stringifySteps(value)
    for (let steps = 0; steps < 3; steps++) assert.equal(writing.next().done, false)
    assert.ok(atOnce(stringifySteps(value)) === JSON.stringify(value))
    assert.equal(atOnce(equalSteps(value, JSON.parse(JSON.stringify(value)))), true)
  }
  assert.equal(atOnce(equalSteps(text, `${text}a`)), false)
})

test('a long text of any surrogates is written like JSON.stringify', () => {
  const random = new Random(SEED)
  for (let times = 0; times < 20; times++) {
    const parts = Array.from({ length: 150_000 }, () => random.pick(['\ud83d', '\ude00', '😀', 'a']))
    const text = parts.join('')
    assert.ok(atOnce(stringifySteps(text)) === JSON.stringify(text))
  }
})
