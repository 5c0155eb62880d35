import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchemas } from '../../src/commands/schemas.ts'

test("an item's members are its own: what every object inherits is neither there nor of a wrong type", () => {
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

test('a collection without a schema takes any item', () => {
  const faultsOf = compileSchemas({ c: false })
  assert.deepEqual(faultsOf('d', { id: 1 }), [])
  assert.deepEqual(faultsOf('toString', { id: 1 }), [])
  assert.equal(faultsOf('c', { id: 1 }).length, 1)
})
