import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ItemSchemas } from '../../src/commands/item-schemas.ts'
import { compileSchema } from '../../src/commands/schema-compiler.ts'
import type { JsonValue } from '../../src/json/value.ts'

test('inherited members of an item are neither present nor of a wrong type', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const schema = { $schema, properties: { valueOf: { type: 'number' } }, required: ['toString'] }
    const faultsOf = compileSchema(schema)
    assert.deepEqual(faultsOf({ toString: 1 }), [])
    assert.deepEqual(
      faultsOf({}).map(({ message }) => message),
      ["must have required property 'toString'"],
    )
    assert.deepEqual(
      faultsOf({ toString: 1, valueOf: 'x' }).map(({ pointer }) => pointer),
      ['/valueOf'],
    )
  }
})

test('a collection without a schema accepts any item', async () => {
  const schemas = await ItemSchemas.open({ c: false })
  assert.deepEqual(schemas.faultsOf('d', { id: 1 }), [])
  assert.deepEqual(schemas.faultsOf('toString', { id: 1 }), [])
  assert.equal(schemas.faultsOf('c', { id: 1 }).length, 1)
  assert.deepEqual([schemas.has('c'), schemas.has('d'), schemas.has('toString')], [true, false, false])
})

test('schemas are replaced all at once, or not at all if one of them is invalid', async () => {
  const schemas = await ItemSchemas.open({ a: { required: ['x'] }, b: false })
  const faults = () => ['a', 'b', 'c'].map((name) => schemas.faultsOf(name, {}).length)
  const put = await schemas.prepare({ a: true, c: { required: ['y'] } })
  assert.deepEqual(faults(), [1, 1, 0])
  put()
  assert.deepEqual(faults(), [0, 0, 1])
  await assert.rejects(
    schemas.prepare({ a: false, b: { type: 'nothing' }, c: { $ref: '#/nowhere' } }),
    (error: Error) => {
      assert.match(error.message, /^The schema of "b" is not a usable JSON Schema: .*\nThe schema of "c" is not/)
      return true
    },
  )
  assert.deepEqual(faults(), [0, 0, 1])
})

test('at most a hundred schema errors are reported, and for a very large item the first ones', () => {
  const faultsOf = compileSchema({ properties: { a: { items: { type: 'string' } } } })
  assert.equal(faultsOf({ a: Array(500).fill(0) }).length, 100)
  assert.deepEqual(faultsOf({ a: Array(20_000).fill(0) }), [{ pointer: '/a/0', message: 'must be string' }])
})

test('uniqueItems compares values as JSON', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const faultsOf = compileSchema({ $schema, properties: { a: { uniqueItems: true } } })
    const duplicates: JsonValue[][] = [
      [1, 1],
      [0, -0],
      ['a', 'a'],
      [null, null],
      [[1], [1]],
      [{}, {}],
    ]
    for (const a of [...duplicates, [{ a: 1, b: [2] }, 1, { b: [2], a: 1 }]]) {
      assert.deepEqual(faultsOf({ a }), [{ pointer: '/a', message: 'must NOT have duplicate items' }])
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
      assert.deepEqual(faultsOf({ a }), [])
    }
  }
})

test('uniqueItems checks up to 50,000 values of an item, in all its arrays together', () => {
  const integers = Array.from({ length: 50_000 }, (_, index) => index)
  const faultsOf = compileSchema({ additionalProperties: { uniqueItems: true } })
  const tooMany = { message: 'has too many values for uniqueItems, more than 50000' }
  assert.deepEqual(faultsOf({ a: integers }), [])
  assert.deepEqual(faultsOf({ a: integers }), [])
  assert.deepEqual(faultsOf({ a: [...integers, -1] }), [{ pointer: '/a', ...tooMany }])
  assert.deepEqual(faultsOf({ a: [integers] }), [{ pointer: '/a', ...tooMany }])
  assert.deepEqual(faultsOf({ a: integers, b: [1] }), [{ pointer: '/b', ...tooMany }])
  const bounded = compileSchema({ properties: { a: { uniqueItems: true, maxItems: 10 } } })
  assert.match(bounded({ a: integers })[0]?.message ?? '', /more than 10 items/)
})

test('enum compares values as JSON', () => {
  for (const $schema of ['https://json-schema.org/draft/2020-12/schema', 'http://json-schema.org/draft-07/schema#']) {
    const allowed = [1, 'a', null, [1], { a: 1, b: [2] }, {}]
    const faultsOf = compileSchema({ $schema, properties: { a: { enum: allowed } } })
    for (const a of [...allowed, { b: [2], a: 1 }]) assert.deepEqual(faultsOf({ a }), [])
    for (const a of ['1', true, [], [2], { a: 1 }, 'toString', { valueOf: 1 }]) {
      assert.deepEqual(faultsOf({ a }), [{ pointer: '/a', message: 'must be equal to one of the allowed values' }])
    }
  }
})
