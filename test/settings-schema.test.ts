import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { CLUSTER } from '../src/cluster/cluster.ts'
import type { JsonValue } from '../src/json/value.ts'
import { KEYS, SCHEMA } from '../src/settings/keys.ts'
import { mistakesIn, type Schema } from '../src/settings/schema.ts'
import { SEED } from './support/random.ts'

/** Nothing but JSON Schema: without the predicates that it cannot express. */
function standardOf(schema: Schema): Schema {
  return JSON.parse(JSON.stringify(schema)) as Schema
}

/** Values of the schema, and values that differ from one in a place. */
function valuesFor(schema: Schema): fc.Arbitrary<unknown> {
  const { enum: choices, minimum = 0, maximum = 10, pattern, items, properties, additionalProperties } = schema
  const near = [
    fc.constantFrom<unknown>(null, true, '', 'a', 'off', '1d', '03:00-05:00', '$received', 'a,b', [], {}, [''], 0.5),
    fc.constantFrom(minimum, maximum, minimum - 1, maximum + 1, minimum + 0.5),
  ]
  if (choices) near.push(fc.constantFrom(...choices))
  // fast-check knows no lookahead.
  const simplified = pattern?.replace(/\(\?!(?:[^()]|\([^()]*\))*\)/g, '')
  if (simplified !== undefined) near.push(fc.stringMatching(new RegExp(simplified)))
  if (items) near.push(fc.array(valuesFor(items), { maxLength: 18 }))
  if (properties) {
    const members = Object.entries(properties).map(([name, one]) => [name, valuesFor(one)] as const)
    near.push(fc.record(Object.fromEntries([...members, ['other', fc.constant(1)]]), { requiredKeys: [] }))
    near.push(fc.record(Object.fromEntries(members), { requiredKeys: [] }))
  }
  if (additionalProperties) near.push(fc.dictionary(fc.string(), valuesFor(additionalProperties), { maxKeys: 3 }))
  return fc.oneof(...near)
}

test('each setting accepts the same values as ajv does by its schema', () => {
  const ajv = new Ajv2020({ strict: false })
  for (const [name, key] of [
    ...Object.entries<Schema>({ ...KEYS, ...CLUSTER.keys }),
    ['Api.Schemas.a', SCHEMA] as const,
  ]) {
    const schema = standardOf(key)
    const isValid = ajv.compile(schema)
    let accepted = 0
    fc.assert(
      fc.property(valuesFor(schema), (value) => {
        const isAccepted = mistakesIn(schema, value as JsonValue, name).length === 0
        if (isAccepted) accepted++
        assert.equal(isAccepted, isValid(value), JSON.stringify(value))
      }),
      { seed: SEED, numRuns: 500 },
    )
    assert.ok(accepted > 5, `${name} accepted ${accepted} of 500 values`)
  }
})
