import assert from 'node:assert/strict'
import { test } from 'node:test'
import { applyPatch } from '../../src/commands/inner-value.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'

const LIMITS = { operations: 1, resultBytes: 1000, values: 1000 }
const merged = (target: JsonValue, patch: JsonValue): JsonValue =>
  applyPatch({ type: 'merge', document: patch as JsonObject }, JSON.stringify(target), LIMITS)

/** RFC 7396, appendix A, every row: original, patch, result. */
const APPENDIX_A: readonly (readonly [JsonValue, JsonValue, JsonValue])[] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
]

for (const [original, patch, result] of APPENDIX_A) {
  test(`RFC 7396 A: ${JSON.stringify(original)} merged with ${JSON.stringify(patch)}`, () => {
    const before = structuredClone(patch)
    assert.deepEqual(merged(structuredClone(original), patch), result)
    assert.deepEqual(patch, before)
  })
}

test('a merge adds a member with the name of an inherited one', () => {
  const result = merged({}, { constructor: { prototype: { x: 1 } }, toString: { call: 2 } })
  assert.equal(JSON.stringify(result), '{"constructor":{"prototype":{"x":1}},"toString":{"call":2}}')
  assert.equal(Object.hasOwn(Object.prototype, 'x'), false)
  assert.equal(typeof Object.prototype.toString.call, 'function')
})

test('a merge keeps the place of replaced members', () => {
  assert.equal(JSON.stringify(merged({ a: 1, b: 2, c: 3 }, { b: 4, d: 5 })), '{"a":1,"b":4,"c":3,"d":5}')
})
