import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEFAULT_ITEM_VALUES, MAX_NESTING, sizeOf } from '../../src/json/item-size.ts'
import { parseJson } from '../../src/json/parse.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'
import { longObjects } from '../support/long-json.ts'

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
