import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_NESTING, Malformed, type Parsed, parseSteps, TooDeep } from '../../src/json/parse-steps.ts'
import { parseText } from '../../src/json/parse-text.ts'
import type { JsonValue } from '../../src/json/value.ts'
import { atOnce, type Steps } from '../../src/runtime/time-slices.ts'
import { longObjects } from '../support/long-json.ts'
import { forAll, type Random } from '../support/random.ts'

const inSteps = (text: string, stepCharacters?: number): JsonValue =>
  atOnce(parseSteps(text, undefined, stepCharacters))

const STRINGS = ['""', '"a"', '"1"', '"0"', '"__proto__"', '"\\u0061"', '"\\\\"', '"\\""', '"[{,:]}"', '"ü€😀"', '" "']
const SCALARS = ['0', '-0', '1', '-2.5e-7', '12345678901234567890', 'true', 'false', 'null', ...STRINGS]

/** JSON text with blanks, with names that occur twice and ones that are indexes. */
function anyText(random: Random, depth: number): string {
  const blank = (): string => (random.chance(0.2) ? random.pick([' ', '\n', '\t ', '\r\n']) : '')
  const children = (one: () => string): string =>
    Array.from({ length: random.integer(6) }, () => `${blank()}${one()}${blank()}`).join(',') || blank()
  const kind = depth === 0 ? 0 : random.integer(5)
  if (kind < 1) return random.pick(SCALARS)
  if (kind < 3) return `[${children(() => anyText(random, depth - 1))}]`
  return `{${children(() => `${random.pick(STRINGS)}${blank()}:${blank()}${anyText(random, depth - 1)}`)}}`
}

/** With a character or a few put in, taken out or replaced. */
function damaged(random: Random, text: string): string {
  const at = random.integer(text.length + 1)
  const taken = random.integer(3)
  const put = random.pick([
    '',
    '',
    ',',
    ':',
    '[',
    ']',
    '{',
    '}',
    '"',
    '0',
    ' ',
    '[]',
    '\\',
    '\u00a0',
    '\ufeff',
    'e',
    '/',
  ])
  return text.slice(0, at) + put + text.slice(at + taken)
}

test('the time-sliced parser accepts and returns the same as JSON.parse, for any text', () => {
  const counts = { parsed: 0, refused: 0 }
  forAll(2000, (random) => {
    const whole = anyText(random, 5)
    const text = random.chance(0.5) ? whole : damaged(random, whole)
    const stepCharacters = random.integer(random.pick([2, 10, 50]))
    let expected: unknown
    try {
      expected = parseText(text)
    } catch {
      assert.ok(isMalformed(text, stepCharacters), `${stepCharacters}: ${text}`)
      counts.refused++
      return
    }
    const parsed = inSteps(text, stepCharacters)
    // Compared as text, as members have an order.
    assert.equal(JSON.stringify(parsed), JSON.stringify(expected), `${stepCharacters}: ${text}`)
    counts.parsed++
  })
  assert.ok(counts.parsed > 400 && counts.refused > 400, JSON.stringify(counts))
})

function isMalformed(text: string, stepCharacters: number): boolean {
  try {
    inSteps(text, stepCharacters)
  } catch (error) {
    return error instanceof Malformed
  }
  return false
}

test('every scalar is passed to the inspector, with its place', () => {
  forAll(1000, (random) => {
    const text = anyText(random, 5).replaceAll('"__proto__"', '"p"')
    const expected = new Set<string>()
    const found = new Set<string>()
    note(parseText(text), [], 1, expected)
    const inspect = ({ value, text: source, depth, path, skipped }: Parsed): void => {
      assert.deepEqual(parseText(source), value)
      const before = path()
      assert.equal(depth, before.length + 1)
      if (!Array.isArray(value)) note(value, before, depth, found)
      else for (const [index, element] of value.entries()) note(element, [...before, index + skipped], depth + 1, found)
    }
    atOnce(parseSteps(text, inspect, random.integer(20)))
    const missing = [...expected].filter((one) => !found.has(one))
    assert.deepEqual(missing, [], text)
  })
})

function note(value: JsonValue, path: readonly (string | number)[], depth: number, into: Set<string>): void {
  if (typeof value !== 'object' || value === null) into.add(JSON.stringify([path, depth, value]))
  else
    for (const [name, inner] of Object.entries(value)) {
      note(inner as JsonValue, [...path, Array.isArray(value) ? Number(name) : name], depth + 1, into)
    }
}

test('nesting beyond the limit is rejected as soon as it is reached, with its place', () => {
  const nested = (depth: number): string => `{"a":[1,${'['.repeat(depth - 2)}${']'.repeat(depth - 2)}]}`
  assert.deepEqual(inSteps(nested(MAX_NESTING), 10), JSON.parse(nested(MAX_NESTING)))
  const place = ['a', 1, ...Array<number>(MAX_NESTING - 2).fill(0)]
  for (const text of [nested(MAX_NESTING + 1), `{"a":[1,${'['.repeat(1_000_000)}`]) {
    assert.throws(
      () => inSteps(text, 10),
      (error) => {
        assert.ok(error instanceof TooDeep)
        assert.deepEqual(error.path, place)
        return true
      },
    )
  }
})

test('long text of any structure is parsed like JSON.parse, in many steps', () => {
  for (const [shape, value] of Object.entries(longObjects(300_000))) {
    const text = JSON.stringify(value)
    const { result, steps } = counted(parseSteps(text))
    assert.ok(steps >= 3 || shape === 'a text', `${shape} takes ${steps} steps`)
    assert.ok(JSON.stringify(result) === text, shape)
  }
})

test('short text is parsed in one step', () => {
  assert.equal(counted(parseSteps('{"a":[1,2,{"b":"c"}]}')).steps, 0)
})

function counted<Result>(work: Steps<Result>): { readonly result: Result; readonly steps: number } {
  for (let steps = 0; ; steps++) {
    const step = work.next()
    if (step.done) return { result: step.value, steps }
  }
}
