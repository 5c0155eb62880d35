import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changesBetween } from '../../src/json/changes.ts'
import { applyJsonPatch, parsePatch } from '../../src/json/json-patch.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { anyObject, forAll } from '../support/random.ts'

test('changes name members and elements by their pointers', () => {
  const before = { a: 1, 'x/y': { '~': [1, { b: 2 }] }, gone: null, same: { c: [1] } }
  const after = { a: '1', 'x/y': { '~': [1, { b: 3 }] }, same: { c: [1] }, added: false }
  assert.deepEqual(changesBetween(before, after), [
    { path: '/a', before: 1, after: '1' },
    { path: '/x~1y/~0/1/b', before: 2, after: 3 },
    { path: '/gone', before: null },
    { path: '/added', after: false },
  ])
})

test('changes of arrays of other lengths, and of values of other types, have the whole values', () => {
  const before = { list: [1, 2, 3], kind: { a: 1 }, rows: [[1], [2]] }
  const after = { list: [2, 3], kind: [1], rows: [[1], [2, 3]] }
  assert.deepEqual(changesBetween(before, after), [
    { path: '/list', before: [1, 2, 3], after: [2, 3] },
    { path: '/kind', before: { a: 1 }, after: [1] },
    { path: '/rows/1', before: [2], after: [2, 3] },
  ])
})

test('changes ignore the order of members, and know own members only', () => {
  assert.deepEqual(changesBetween({ a: 1, b: { c: 1, d: 2 } }, { b: { d: 2, c: 1 }, a: 1 }), [])
  const [before, after] = ['{"toString":1}', '{"__proto__":{"a":1}}'].map((text) => JSON.parse(text) as JsonObject)
  assert.deepEqual(changesBetween(before as JsonObject, after as JsonObject), [
    { path: '/toString', before: 1 },
    { path: '/__proto__', after: { a: 1 } },
  ])
})

test('more than 1,000 changes, or 65,536 characters of paths, are one change of the whole item', () => {
  const listOf = (length: number, value: number): JsonObject => ({ list: Array(length).fill(value) })
  assert.equal(changesBetween(listOf(1000, 0), listOf(1000, 1)).length, 1000)
  const [before, after] = [listOf(1001, 0), listOf(1001, 1)]
  assert.deepEqual(changesBetween(before, after), [{ path: '', before, after }])
  const named = (value: number): JsonObject => ({ ['k'.repeat(40_000)]: { a: value, b: value } })
  assert.deepEqual(changesBetween(named(0), named(1)), [{ path: '', before: named(0), after: named(1) }])
})

test('changes applied to the version before, as a JSON Patch, make the one after', () => {
  const limits = { operations: 1000, resultBytes: 1e6, values: 1e6 }
  forAll(300, (random) => {
    const texts = ['a', 'b', '0', '~', '/', '']
    const before = anyObject(random, texts, 3)
    const after = random.chance(0.5) ? anyObject(random, texts, 3) : { ...before, a: anyObject(random, texts, 2) }
    const changes = changesBetween(before, after)
    const patch = changes.flatMap(({ path, before: earlier, after: later }): JsonObject[] => {
      const test = earlier === undefined ? [] : [{ op: 'test', path, value: earlier }]
      return [...test, later === undefined ? { op: 'remove', path } : { op: 'add', path, value: later }]
    })
    const result = patch.length === 0 ? before : applyJsonPatch(JSON.stringify(before), parsePatch(patch), limits)
    assert.deepEqual(result, after)
  })
})
