import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal, type RefusalCode } from '../../src/errors.ts'
import { MAX_NESTING, parseJson } from '../../src/json/parse.ts'

function parse(text: string): unknown {
  return parseJson(new TextEncoder().encode(text))
}

function refused(text: string | Uint8Array, code: RefusalCode, pointer?: string): void {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text
  assert.throws(
    () => parseJson(bytes),
    (error) => {
      assert.ok(error instanceof Refusal)
      assert.equal(error.code, code)
      if (pointer !== undefined) assert.equal(error.faults[0]?.pointer, pointer)
      return true
    },
    String(text).slice(0, 100),
  )
}

test('JSON is read as it is', () => {
  const text = '{"a":[1,-0.5,1e300,"\\u20ac",true,null,{}],"":"empty name"}'
  assert.equal(JSON.stringify(parse(text)), JSON.stringify(JSON.parse(text)))
})

test('what is not well-formed JSON is refused', () => {
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

test('bytes that are not UTF-8 are refused', () => {
  for (const hex of ['22ff22', '22c328 22', '22eda08022', '22c0af22', '22f490808022', '22e282']) {
    refused(Buffer.from(hex.replaceAll(' ', ''), 'hex'), 'Invalid')
  }
})

test('containers may nest a hundred deep, and no deeper', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal(MAX_NESTING, 100)
  assert.ok(parse(nested(100)))
  refused(nested(101), 'Invalid')
  refused(`${'{"a":'.repeat(101)}1${'}'.repeat(101)}`, 'Invalid')
  refused(nested(100_000), 'Invalid')
})

test('a member named __proto__ is refused wherever it is, however it is spelled', () => {
  refused('{"__proto__":{}}', 'Invalid', '/__proto__')
  refused('{"a":[{"__proto__":1}]}', 'Invalid', '/a/0/__proto__')
  refused('{"\\u005f_proto__":1}', 'Invalid', '/__proto__')
  assert.ok(parse('{"constructor":1,"proto":"__proto__"}'))
})

test('a number that is not finite is refused', () => {
  refused('1e999', 'Invalid')
  refused('{"a":[-1e999]}', 'Invalid', '/a/0')
  refused(`1${'0'.repeat(400)}`, 'Invalid')
  assert.equal(parse('1e300'), 1e300)
})

test('an integer that would be rounded is refused, one of at most 2^53 is not', () => {
  assert.equal(parse('9007199254740992'), 2 ** 53)
  assert.equal(parse('-9007199254740992'), -(2 ** 53))
  assert.equal(parse('9007199254740992.0'), 2 ** 53)
  refused('9007199254740993', 'Unprocessable')
  refused('9007199254740993.0', 'Unprocessable')
  refused('-9007199254740993', 'Unprocessable')
  refused('[1,9007199254740994]', 'Unprocessable', '/1')
  refused('10000000000000000', 'Unprocessable')
  refused('1e16', 'Unprocessable')
  refused(`1${'0'.repeat(30)}`, 'Unprocessable')
  assert.deepEqual(parse('{"n":9007199254740992,"s":"9007199254740993","t":"\\"9007199254740993"}'), {
    n: 2 ** 53,
    s: '9007199254740993',
    t: '"9007199254740993',
  })
})

test('a text full of quotes and digits is read in linear time', () => {
  const text = `[9007199254740992,"${'\\\\9'.repeat(300_000)}"]`
  assert.equal((parse(text) as unknown[]).length, 2)
})
