import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  DEFAULT_ITEM_VALUES,
  elementsOf,
  MAX_NESTING,
  Malformed,
  parseJson,
  parseText,
  sizeOf,
} from '../../src/json/parse.ts'
import { isArray, type JsonValue, put } from '../../src/json/value.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'
import { longObjects } from '../support/long-json.ts'
import { forAll, type Random, SEED } from '../support/random.ts'

function parse(text: string): unknown {
  return parseJson(new TextEncoder().encode(text), DEFAULT_ITEM_VALUES)
}

function refused(text: string | Uint8Array, code: RefusalCode, pointer?: string): void {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text
  assert.throws(
    () => parseJson(bytes, DEFAULT_ITEM_VALUES),
    (error) => {
      assert.ok(error instanceof Refusal)
      assert.equal(error.code, code)
      if (pointer !== undefined) assert.equal(error.faults[0]?.pointer, pointer)
      return true
    },
    String(text).slice(0, 100),
  )
}

test('valid JSON is parsed', () => {
  const text = '{"a":[1,-0.5,1e-300,"\\u20ac",true,null,{}],"":"empty name"}'
  assert.equal(JSON.stringify(parse(text)), JSON.stringify(JSON.parse(text)))
})

test('invalid JSON is rejected', () => {
  const malformed = [
    '',
    ' \n',
    '{',
    '{"a":}',
    "{'a':1}",
    '{"a":1,}',
    '[01]',
    '[1.]',
    'NaN',
    '{} {}',
    '"\u0000"',
    '// {}',
  ]
  for (const text of malformed) refused(text, 'Invalid')
})

test('a syntax error has its line and column, however much white space there is', () => {
  const blanks = ['', ' ', '\n', ' \n'.repeat(10), '\n'.repeat(10), ' '.repeat(100), '\t\r\n '.repeat(50_000)]
  for (const one of blanks) {
    for (const other of blanks) {
      const before = `${one}{"a":${other}[1,"b${' '.repeat(20)}"${one},`
      const lines = before.split('\n')
      const place = `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
      assert.throws(
        () => parse(`${before}x${other}]}`),
        { message: new RegExp(`: ${place}: a value was expected`) },
        place,
      )
    }
  }
})

test('invalid UTF-8 is rejected', () => {
  for (const hex of ['22ff22', '22c328 22', '22eda08022', '22c0af22', '22f490808022', '22e282']) {
    refused(Buffer.from(hex.replaceAll(' ', ''), 'hex'), 'Invalid')
  }
})

test('arrays and objects may be nested a hundred deep, and no deeper', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal(MAX_NESTING, 100)
  assert.ok(parse(nested(100)))
  refused(nested(101), 'Invalid')
  refused(`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`, 'Invalid')
  refused(nested(100_000), 'Invalid')
  for (const [name, opening] of [
    ['0', '['],
    ['a', '{"a":'],
  ] as const)
    assert.throws(
      () => parseJson(Buffer.from(opening.repeat(2000)), 1000),
      (error) => error instanceof Refusal && error.faults[0]?.pointer === `/${name}`.repeat(100),
    )
})

test('a member named __proto__ is rejected everywhere, in every spelling', () => {
  refused('{"__proto__":{}}', 'Invalid', '/__proto__')
  refused('{"a":[{"__proto__":1}]}', 'Invalid', '/a/0/__proto__')
  refused('{"\\u005f_proto__":1}', 'Invalid', '/__proto__')
  assert.ok(parse('{"constructor":1,"proto":"__proto__"}'))
})

test('a number that is not finite is rejected', () => {
  refused('1e999', 'Invalid')
  refused('{"a":[-1e999]}', 'Invalid', '/a/0')
  refused(`1${'0'.repeat(400)}`, 'Invalid')
  assert.equal(parse('1e15'), 1e15)
})

test('integers of at most 2^53 are accepted, in any notation', () => {
  assert.equal(parse('9007199254740992'), 2 ** 53)
  assert.equal(parse('-9007199254740992'), -(2 ** 53))
  assert.equal(parse('9007199254740992.0'), 2 ** 53)
  refused('9007199254740993', 'Unprocessable')
  refused('9007199254740993.0', 'Unprocessable')
  refused('-9007199254740993', 'Unprocessable')
  refused('[1,9007199254740994]', 'Unprocessable', '/1')
  refused('10000000000000000', 'Unprocessable')
  refused('1e16', 'Unprocessable')
  for (const beyond of ['1e21', '1e300', '-1E+21', '1.5e300', '9007199254740992.5', '90071992547409930e-1']) {
    refused(`{"v":${beyond}}`, 'Unprocessable', '/v')
  }
  for (const same of ['9007199254740992e0', '90071992547409920e-1', '9.007199254740992e15', '-9007199254740992.00']) {
    assert.equal(Math.abs(parse(same) as number), 2 ** 53)
  }
  refused(`1${'0'.repeat(30)}`, 'Unprocessable')
  assert.deepEqual(parse('{"n":9007199254740992,"s":"9007199254740993","t":"\\"9007199254740993"}'), {
    n: 2 ** 53,
    s: '9007199254740993',
    t: '"9007199254740993',
  })
})

test('a number that would lose digits is rejected with its place', () => {
  refused('{"v":9007199254740993}', 'Unprocessable', '/v')
  refused('{"a":[1,{"b~/c":[9007199254740992,9007199254740993]}]}', 'Unprocessable', '/a/1/b~0~1c/1')
  refused('{"\\u0061":{"b":1},"c":[[],-9007199254740993]}', 'Unprocessable', '/c/1')
  refused('{"n":[0,0.0,1e-400]}', 'Invalid', '/n/2')
  refused(`{"n":[0,-0.${'0'.repeat(400)}1]}`, 'Invalid', '/n/1')
})

test('a fraction becomes the nearest double, and every notation of zero is zero', () => {
  const kept = [0.1, 21.567890123456788, 1, 5e-324, 0, 0, 0, 0]
  const text = `[0.1,21.5678901234567891,1.000000000000000005,5e-324,-0,0e-400,-0.0e999,0.${'0'.repeat(400)}]`
  assert.deepEqual(JSON.stringify(parse(text)), JSON.stringify(kept))
})

test('an error deep within long text is rejected with its place', () => {
  for (const [shape, object] of Object.entries(longObjects())) {
    const before = JSON.stringify(object).slice(0, -1)
    refused(`${before},"x":{"y":[0,9007199254740993]}}`, 'Unprocessable', '/x/y/1')
    refused(`${before},"x":[{"y":1e-400}]}`, 'Invalid', '/x/0/y')
    refused(`${before},"x":[1,{"__proto__":1}]}`, 'Invalid', '/x/1/__proto__')
    refused(`${before},"x":[1,1e999]}`, 'Invalid', '/x/1')
    assert.throws(() => parse(`${before},\n"x":[1 2]}`), /line 2, column 8: a comma or \] was expected/, shape)
  }
  refused(`[${'0,'.repeat(10_000)}1e999]`, 'Invalid', '/10000')
  refused(`[${'0,'.repeat(10_000)}[1e-999]]`, 'Invalid', '/10000/0')
})

test('a text full of quotes and digits is parsed in linear time', () => {
  const text = `[9007199254740992,"${'\\\\9'.repeat(300_000)}"]`
  assert.equal((parse(text) as unknown[]).length, 2)
})

test('the values of a text are counted before it is parsed: elements as one, members as four', () => {
  const counted: readonly (readonly [string, number])[] = [
    ['[]', 0],
    ['{ }', 0],
    ['[ [ ] , {} ]', 2],
    ['{"a":1}', 4],
    ['[1, "2,3", {"a": [0, 0], "b": "{[,"}]', 3 + 8 + 2],
    ['"a text"', 0],
  ]
  for (const [text, values] of counted) assert.equal(sizeOf(text).values, values, text)
  const parsed = (values: number) => parseJson(Buffer.from(`[${'0,'.repeat(values - 1)}0]`), 1000)
  assert.equal((parsed(1004) as unknown[]).length, 1004, 'the id of an item is not counted')
  assert.throws(() => parsed(1005), { code: 'Unprocessable', message: /has 1005 values.*1000 are accepted/ })
})

test('a text with too many values is refused with the place of most of them', () => {
  const numbers = `[${'0,'.repeat(3000)}0]`
  const refusedAt = (text: string, pointer: string) =>
    assert.throws(
      () => parseJson(Buffer.from(text), 1000),
      (error) => error instanceof Refusal && error.code === 'Unprocessable' && error.faults[0]?.pointer === pointer,
      text.slice(0, 50),
    )
  refusedAt(numbers, '')
  refusedAt(`{"a":[1,2],"b":{"c/d":[{},${numbers}]}}`, '/b/c~1d/1')
  refusedAt(`{"text":"${'['.repeat(2000)}","b":${numbers}}`, '/b')
  refusedAt(`{${Array.from({ length: 300 }, (_, at) => `"m${at}":{"a":[0,0]}`)}}`, '')
  // It is not parsed: whether it is JSON remains unknown.
  refusedAt(`[${'0,'.repeat(3000)}`, '')
})

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

/** Few, so that objects are alike. */
const NAMES = ['', 'a', 'b', '\\', '"', '\n', '1', '0', 'a\\', 'a"', 'é', '\u2028', '__proto__', '\ud800', ':', '\\":']
const SCALARS: readonly JsonValue[] = [0, -1.5e-7, 1e21, true, false, null, ...NAMES]

/** A value, and a text of it in which names and texts are written in any way. */
function written(random: Random, depth: number): { readonly value: JsonValue; readonly text: string } {
  const blank = () => random.pick(['', '', '', ' ', '\r\n\t'])
  const kind = depth === 0 ? 0 : random.integer(4)
  if (kind === 0) {
    const value = random.pick(SCALARS)
    return { value, text: typeof value === 'string' ? textOf(random, value) : JSON.stringify(value) }
  }
  const children = Array.from({ length: random.integer(5) }, () => written(random, depth - 1))
  const separated = (texts: readonly string[]) => texts.map((text) => blank() + text + blank()).join(',') || blank()
  if (kind === 1) {
    return { value: children.map(({ value }) => value), text: `[${separated(children.map(({ text }) => text))}]` }
  }
  const object = {}
  const texts = children.map(({ value, text }) => {
    const name = random.pick(NAMES)
    put(object, name, value)
    return `${textOf(random, name)}${blank()}:${blank()}${text}`
  })
  return { value: object, text: `{${separated(texts)}}` }
}

function textOf(random: Random, value: string): string {
  return `"${value.replaceAll(/[\s\S]/g, (unit) => {
    const isPlain = unit !== '"' && unit !== '\\' && unit >= ' '
    if (isPlain && random.chance(0.7)) return unit
    if (random.chance(0.5)) return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    return JSON.stringify(unit).slice(1, -1)
  })}"`
}

test('a name with an escape is never confused with another name', () => {
  const names = (text: string) => Object.keys(parseText(text) as object)
  assert.deepEqual(names('{"h":[],"\\\\":0}'), ['h', '\\'])
  assert.deepEqual(names('{"h":1,"\\"":2}'), ['h', '"'])
  assert.deepEqual(names('{"h":1,"\\u0061":2}'), ['h', 'a'])
  assert.deepEqual(names('{"ha\\\\":1}'), ['ha\\'])
  assert.deepEqual(names('{"ha\\n":1}'), ['ha\n'])
})

test('any JSON text is parsed to its value, with the members in order', () => {
  forAll(5000, (random) => {
    const { value, text } = written(random, 4)
    const found = parseText(text)
    assert.deepEqual(found, value, text)
    assert.equal(JSON.stringify(found), JSON.stringify(value), text)
  })
})

test('deep nesting and long strings are parsed, whatever names surround them', () => {
  const depth = 50_000
  let value = parseText(`{"\\n":${'['.repeat(depth)}${']'.repeat(depth)}}`)
  let found = 0
  for (value = (value as { '\n': JsonValue })['\n']; isArray(value); value = value[0] as JsonValue) found++
  assert.equal(found, depth)
  const long = '\\n'.repeat(1_000_000)
  assert.deepEqual(parseText(`{"\\n":"${long}"}`), { '\n': '\n'.repeat(1_000_000) })
})

test('invalid JSON is refused', () => {
  for (const text of ['', '{', '{"\\n":}', '{"\\n":1', '"\\', '"\\"', '\\', '{"\\x":1}', '{"a\\n"}']) {
    assert.throws(() => parseText(text), Malformed, text)
  }
})
