import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endOfString, quoted } from '../../src/json/scan.ts'
import { forAll } from '../support/random.ts'

test('text is quoted as JSON, whatever characters it has', () => {
  const texts = ['', 'readings', 'a "quote"', 'back\\slash', 'zo\u00eb', '\ud83d', '\u2028', "it's [plain] ~{}"]
  for (let code = 0; code < 0x180; code++) texts.push(`a${String.fromCharCode(code)}b`)
  for (const text of texts) assert.equal(quoted(text), JSON.stringify(text))
})

test('a string ends at the first quote that is not escaped', () => {
  forAll(2000, (random) => {
    const text = Array.from({ length: random.integer(20) }, () => random.pick(['"', '\\', 'a', '\n'])).join('')
    const json = `["a",${JSON.stringify(text)},"b"]`
    assert.equal(endOfString(json, 5), 4 + JSON.stringify(text).length, json)
    assert.equal(endOfString(json.slice(0, 4 + JSON.stringify(text).length), 5), -1, json)
  })
})
