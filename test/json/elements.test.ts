import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { elementsOf } from '../../src/json/elements.ts'
import { Malformed } from '../../src/json/parse-text.ts'
import { SEED } from '../support/random.ts'

const blanks = fc.stringMatching(/^[ \t\r\n]{0,2}$/)

test('the elements of a list are the texts between its commas, without the white space around them', () => {
  const element = fc.json().chain((json) => fc.tuple(blanks, fc.constant(json), blanks))
  fc.assert(
    fc.property(fc.array(element), blanks, (elements, around) => {
      const text = `${around}[${around}${elements.map((parts) => parts.join('')).join(',')}]${around}`
      assert.deepEqual(
        elementsIn(text).map((one) => one.trimEnd()),
        elements.map(([, json]) => json.trimEnd()),
      )
    }),
    { seed: SEED, numRuns: 500 },
  )
})

test('a text is a well-formed list if it has elements alone and each of them is well-formed', () => {
  const text = fc.array(fc.constantFrom('[', ']', '{', '}', ',', ':', '"', '\\', '1', 'null', ' '), { maxLength: 12 })
  fc.assert(
    fc.property(text, (tokens) => {
      const json = tokens.join('')
      assert.equal(isWellFormed(json), Array.isArray(parsed(json)), json)
    }),
    { seed: SEED, numRuns: 50_000 },
  )
})

test('a text that is no list is malformed', () => {
  for (const text of ['', '1', '{"a":1}', '[', '[1', '[1,', '[1,]', '[,1]', '[1}', '["a,]', '[1] 2', '[[1]', '[]]']) {
    assert.throws(() => elementsIn(text), Malformed, text)
  }
})

test('a long element is read with pauses', () => {
  const long = `[${'1,'.repeat(500_000)}1]`
  const [last, ...pauses] = [...elementsOf(`[${long}]`)].reverse()
  assert.equal(last, long)
  assert.ok(pauses.length >= 10 && pauses.every((one) => one === undefined))
})

function elementsIn(text: string): readonly string[] {
  return [...elementsOf(text)].filter((one) => one !== undefined)
}

/** Whether a text is a list and all of its elements are well-formed. */
function isWellFormed(text: string): boolean {
  try {
    return elementsIn(text).every((one) => parsed(one) !== undefined)
  } catch (error) {
    if (error instanceof Malformed) return false
    throw error
  }
}

/** Undefined for text that is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

test('a list of elements that are nested too deeply is refused where that begins', () => {
  const refused = { code: 'Invalid', message: /^Nesting deeper than 100 is not accepted/ }
  assert.throws(() => [...elementsOf('['.repeat(10_000_000))], refused)
  assert.throws(() => [...elementsOf(`[${'{"a":'.repeat(1_000_000)}`)], refused)
  // Deeper elements than items may be are left to the check of each item.
  const deep = '['.repeat(105) + ']'.repeat(105)
  assert.deepEqual([...elementsOf(`[${deep},1]`)], [deep, '1'])
})
