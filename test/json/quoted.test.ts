import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quoted } from '../../src/json/quoted.ts'

test('a text is quoted as JSON quotes it, whatever characters it has', () => {
  const texts = ['', 'readings', 'a "quote"', 'back\\slash', 'zo\u00eb', '\ud83d', '\u2028', "it's [plain] ~{}"]
  for (let code = 0; code < 0x180; code++) texts.push(`a${String.fromCharCode(code)}b`)
  for (const text of texts) assert.equal(quoted(text), JSON.stringify(text))
})
