import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser'
import { Syntax, whereMalformed } from '../../src/json/where-malformed.ts'
import { forAll, type Random } from '../support/random.ts'

const TEXTS = [
  '{"a":[1,{"b":"c"}],"":-1.5e+7}',
  '[true,false,null]',
  '["\\u00e9\\n",0.1,1E5]',
  ' { } ',
  '[[],{}]\n',
  '""',
  '-0',
]
const PUT = [
  ...'{}[],:"\\/*-+.eE01atfun \n\r\t\u0001\u00a0\ud800',
  '//',
  '/*',
  'true',
  'null',
  '1.',
  '-',
  '"a"',
  '\\u00',
  '\\x',
  '',
]

/** How what jsonc-parser finds is said. */
const WORDS: Readonly<Record<string, RegExp>> = {
  ValueExpected: /a value (or \] )?was expected/,
  EndOfFileExpected: /nothing more was expected/,
  CommaExpected: /a comma or [\]}] was expected/,
  CloseBracketExpected: /\] was expected/,
  PropertyNameExpected: /a member name in double quotes (or } )?was expected/,
  ColonExpected: /a colon was expected/,
  CloseBraceExpected: /} was expected/,
  InvalidEscapeCharacter: /begins no escape/,
  InvalidUnicode: /four hexadecimal digits/,
  InvalidCharacter: /control character/,
  UnexpectedEndOfString: /no closing double quote/,
  UnexpectedEndOfNumber: /no digits/,
  InvalidSymbol: /expected/,
  InvalidCommentToken: /no comments/,
}

/** The first error that jsonc-parser finds. */
function expectedOf(text: string): { readonly error: string; readonly place: string; readonly at: number } | undefined {
  let found: { readonly code: ParseErrorCode; readonly at: number } | undefined
  visit(
    text,
    {
      onError: (code, at) => {
        found ??= { code, at }
      },
    },
    { disallowComments: true, allowTrailingComma: false },
  )
  if (!found) return undefined
  const lines = text.slice(0, found.at).split('\n')
  const place = `line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`
  return { error: printParseErrorCode(found.code), place, at: found.at }
}

function damaged(random: Random): string {
  let text = random.pick(TEXTS)
  for (let times = random.integer(4); times > 0; times--) {
    const at = random.integer(text.length + 1)
    text = text.slice(0, at) + random.pick(PUT) + text.slice(at + random.integer(3))
  }
  return text
}

function whereMalformedIn(parts: readonly string[]): string | undefined {
  const syntax = new Syntax()
  for (const part of parts) {
    const error = syntax.errorIn(part)
    if (error !== undefined) return error
  }
  return syntax.errorAtEnd()
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test('the first syntax error is found at the place of jsonc-parser, for any split of the text', () => {
  let refused = 0
  forAll(20_000, (random) => {
    const text = damaged(random)
    const parts = text.match(/.{1,2}/gs) ?? []
    const context = JSON.stringify(text)
    const found = whereMalformed(text)
    assert.equal(whereMalformedIn(parts), found, context)
    assert.equal(found === undefined, isJson(text), context)
    const expected = expectedOf(text)
    if (found === undefined || !expected) return
    refused++
    const [, place, error = ''] = /^(line \d+, column \d+): (.*)$/.exec(found) ?? []
    assert.equal(place, expected.place, context)
    // At several errors in one string, and a comma in place of the first member, jsonc-parser reports another one.
    const isAnother = text.charAt(expected.at) === '"' || text.charAt(expected.at) === ','
    if (!isAnother) assert.match(error, WORDS[expected.error] ?? /^$/, `${context} ${expected.error}`)
  })
  assert.ok(refused > 5000, `${refused} refused`)
})

test('a syntax error is described in words, with its line and column', () => {
  const errors = {
    '': 'line 1, column 1: the text ends where a value was expected',
    '{"a":1}\n]': 'line 2, column 1: nothing more was expected after the value',
    '[1,\n 2 3]': 'line 2, column 4: a comma or ] was expected',
    '[1,]': 'line 1, column 4: a value was expected after the comma',
    '[1': 'line 1, column 3: the text ends where a comma or ] was expected',
    '{"a":1,}': 'line 1, column 8: a member name in double quotes was expected after the comma',
    '{a:1}': 'line 1, column 2: a member name in double quotes or } was expected',
    '{"a" 1}': 'line 1, column 6: a colon was expected after the member name',
    '{"a":{}': 'line 1, column 8: the text ends where a comma or } was expected',
    '["\\x"]': 'line 1, column 2: the string has a backslash that begins no escape; a backslash itself is written \\\\',
    '["\\u00g0"]': 'line 1, column 2: \\u in the string must be followed by four hexadecimal digits',
    '["\u0001"]':
      'line 1, column 2: the string has a control character, which must be written as an escape such as \\n or \\u0009',
    '["a\n"]': 'line 1, column 2: the string has no closing double quote in its line',
    '[-1.]': 'line 1, column 2: the number has no digits after its point or exponent',
    '[01]': 'line 1, column 3: a comma or ] was expected',
    '["😀",True]':
      'line 1, column 7: a value was expected after the comma; a value is text in double quotes, a number, true, false, null, a list or an object',
    '[1, // one\n2]': 'line 1, column 5: JSON has no comments',
  }
  for (const [text, error] of Object.entries(errors)) assert.equal(whereMalformed(text), error)
})

test('a syntax error behind deep nesting and long tokens is found', () => {
  const count = 500_000
  const texts = [
    '['.repeat(count),
    `[${'0,'.repeat(count)}`,
    `["${'a'.repeat(count)}",`,
    `[${'1'.repeat(count)},`,
    `[${'\n'.repeat(count)}`,
  ]
  for (const text of texts) {
    const lines = text.split('\n')
    const place = `line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`
    assert.match(
      whereMalformed(text) ?? '',
      new RegExp(`^${place}: the text ends where a (value|comma) .*was expected`),
    )
  }
})
