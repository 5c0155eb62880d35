import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchemas } from '../../src/commands/schemas.ts'
import type { JsonValue } from '../../src/json/value.ts'

test('inherited members of an item are neither present nor of a wrong type', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const schema = { $schema, properties: { valueOf: { type: 'number' } }, required: ['toString'] }
    const faultsOf = compileSchemas({ c: schema })
    assert.deepEqual(faultsOf('c', { toString: 1 }), [])
    assert.deepEqual(
      faultsOf('c', {}).map(({ message }) => message),
      ["must have required property 'toString'"],
    )
    assert.deepEqual(
      faultsOf('c', { toString: 1, valueOf: 'x' }).map(({ pointer }) => pointer),
      ['/valueOf'],
    )
  }
})

test('a collection without a schema accepts any item', () => {
  const faultsOf = compileSchemas({ c: false })
  assert.deepEqual(faultsOf('d', { id: 1 }), [])
  assert.deepEqual(faultsOf('toString', { id: 1 }), [])
  assert.equal(faultsOf('c', { id: 1 }).length, 1)
})

test('at most a hundred schema errors are reported, and for a very large item the first ones', () => {
  const faultsOf = compileSchemas({ c: { properties: { a: { items: { type: 'string' } } } } })
  assert.equal(faultsOf('c', { a: Array(500).fill(0) }).length, 100)
  assert.deepEqual(faultsOf('c', { a: Array(20_000).fill(0) }), [{ pointer: '/a/0', message: 'must be string' }])
})

test('uniqueItems compares values as JSON', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const faultsOf = compileSchemas({ c: { $schema, properties: { a: { uniqueItems: true } } } })
    const duplicates: JsonValue[][] = [
      [1, 1],
      [0, -0],
      ['a', 'a'],
      [null, null],
      [[1], [1]],
      [{}, {}],
    ]
    for (const a of [...duplicates, [{ a: 1, b: [2] }, 1, { b: [2], a: 1 }]]) {
      assert.deepEqual(faultsOf('c', { a }), [{ pointer: '/a', message: 'must NOT have duplicate items' }])
    }
    for (const a of [
      [],
      [1, '1'],
      ['null', null],
      [
        [1, 2],
        [2, 1],
      ],
      [{ a: 1 }, { b: 1 }],
      [[], {}],
      [true, 'true', 1],
    ]) {
      assert.deepEqual(faultsOf('c', { a }), [])
    }
  }
})

test('uniqueItems checks up to 50,000 values of an item, in all its arrays together', () => {
  const integers = Array.from({ length: 50_000 }, (_, index) => index)
  const faultsOf = compileSchemas({ c: { additionalProperties: { uniqueItems: true } } })
  const tooMany = { message: 'has too many values for uniqueItems, more than 50000' }
  assert.deepEqual(faultsOf('c', { a: integers }), [])
  assert.deepEqual(faultsOf('c', { a: integers }), [])
  assert.deepEqual(faultsOf('c', { a: [...integers, -1] }), [{ pointer: '/a', ...tooMany }])
  assert.deepEqual(faultsOf('c', { a: [integers] }), [{ pointer: '/a', ...tooMany }])
  assert.deepEqual(faultsOf('c', { a: integers, b: [1] }), [{ pointer: '/b', ...tooMany }])
  const bounded = compileSchemas({ c: { properties: { a: { uniqueItems: true, maxItems: 10 } } } })
  assert.match(bounded('c', { a: integers })[0]?.message ?? '', /more than 10 items/)
})

test('enum compares values as JSON', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const allowed = [1, 'a', null, [1], { a: 1, b: [2] }, {}]
    const faultsOf = compileSchemas({ c: { $schema, properties: { a: { enum: allowed } } } })
    for (const a of [...allowed, { b: [2], a: 1 }]) assert.deepEqual(faultsOf('c', { a }), [])
    for (const a of ['1', true, [], [2], { a: 1 }, 'toString', { valueOf: 1 }]) {
      assert.deepEqual(faultsOf('c', { a }), [{ pointer: '/a', message: 'must be equal to one of the allowed values' }])
    }
  }
})
