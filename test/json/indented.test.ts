import assert from 'node:assert/strict'
import { test } from 'node:test'
import { indented } from '../../src/json/indented.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { anyValue } from '../support/json.ts'
import { longObjects } from '../support/long-json.ts'
import { forAll } from '../support/random.ts'

const TEXTS = ['', 'a', '"', '\\', '\\"', '\\\\', '{', '}', '[]', ',', ':', '\n', '\u2028', 'ä€😀', '{"a":[1,{}]}']

const whole = (value: JsonValue): string => [...indented(JSON.stringify(value), '    ')].join('')

test('indented text equals that of JSON.stringify behind a margin', () => {
  forAll(5000, (random) => {
    const value = anyValue(random, TEXTS, 5)
    const expected = JSON.stringify(value, null, 2).replaceAll('\n', '\n    ')
    assert.equal(whole(value), expected)
  })
})

test('indented text is generated in short pieces, whatever its length', () => {
  for (const [shape, value] of Object.entries(longObjects(100_000))) {
    if (shape === 'a text') continue
    const pieces = [...indented(JSON.stringify(value), '')]
    assert.ok(pieces.length > 1 && pieces.every(({ length }) => length < 150_000), shape)
    assert.ok(pieces.join('') === JSON.stringify(value, null, 2), shape)
  }
})
