import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { END, endOfString, JsonTokens } from '../../src/json/tokens.ts'
import { forAll, SEED } from '../support/random.ts'

test('the tokens of JSON are its strings, words and punctuation, without the white space between them', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('', ' ', '\t'), (value, indent) => {
      assert.equal(tokensOf(JSON.stringify(value, null, indent)).join(''), JSON.stringify(value))
    }),
    { seed: SEED, numRuns: 1000 },
  )
  assert.deepEqual(tokensOf('{"a b":[-1.5e3, true]} x"'), [
    '{',
    '"a b"',
    ':',
    '[',
    '-1.5e3',
    ',',
    'true',
    ']',
    '}',
    'x',
  ])
})

test('a string ends at the first quote that is not escaped', () => {
  forAll(2000, (random) => {
    const text = Array.from({ length: random.integer(20) }, () => random.pick(['"', '\\', 'a', '\n'])).join('')
    const json = `["a",${JSON.stringify(text)},"b"]`
    assert.equal(endOfString(json, 5), 4 + JSON.stringify(text).length, json)
    assert.equal(endOfString(json.slice(0, 4 + JSON.stringify(text).length), 5), -1, json)
  })
})

function tokensOf(json: string): readonly string[] {
  const tokens = new JsonTokens(json)
  const found: string[] = []
  while (tokens.next() !== END) found.push(json.slice(tokens.begin, tokens.end))
  return found
}
