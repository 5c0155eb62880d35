import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser'
import { chunksOf, whereMalformed } from '../../src/json/where-malformed.ts'
import { atOnce } from '../../src/slices.ts'
import { Random, seedFor } from '../support/random.ts'

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

/** What jsonc-parser finds first. */
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
  const place = `in line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`
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

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test('the first syntax error is found where jsonc-parser finds it, in whatever parts the text comes', () => {
  const random = new Random(seedFor('where_malformed'))
  let refused = 0
  for (let times = 0; times < 20_000; times++) {
    const text = damaged(random)
    const parts = text.match(/.{1,2}/gs) ?? []
    const context = JSON.stringify(text)
    const found = atOnce(whereMalformed([text]))
    assert.equal(atOnce(whereMalformed(parts)), found, context)
    assert.equal(found === undefined, isJson(text), context)
    const expected = expectedOf(text)
    if (found === undefined || !expected) continue
    refused++
    const [, error, place] = /^(\w+) (.*)$/.exec(found) ?? []
    assert.equal(place, expected.place, context)
    // Of several errors at one string, and of a comma that stands for the first member, jsonc-parser tells another one.
    const isAnother = text.charAt(expected.at) === '"' || text.charAt(expected.at) === ','
    if (!isAnother) assert.equal(error, expected.error, context)
  }
  assert.ok(refused > 5000, `${refused} refused`)
})

test('what is wrong is told in words, with its line and column', () => {
  const errors = {
    '': 'ValueExpected in line 1, column 1',
    '{"a":1}\n]': 'EndOfFileExpected in line 2, column 1',
    '[1,\n 2 3]': 'CommaExpected in line 2, column 4',
    '[1,]': 'ValueExpected in line 1, column 4',
    '[1': 'CloseBracketExpected in line 1, column 3',
    '{"a":1,}': 'PropertyNameExpected in line 1, column 8',
    '{"a" 1}': 'ColonExpected in line 1, column 6',
    '{"a":{}': 'CloseBraceExpected in line 1, column 8',
    '["\\x"]': 'InvalidEscapeCharacter in line 1, column 2',
    '["\\u00g0"]': 'InvalidUnicode in line 1, column 2',
    '["\u0001"]': 'InvalidCharacter in line 1, column 2',
    '["a\n"]': 'UnexpectedEndOfString in line 1, column 2',
    '[-1.]': 'UnexpectedEndOfNumber in line 1, column 2',
    '[01]': 'CommaExpected in line 1, column 3',
    '["😀",True]': 'InvalidSymbol in line 1, column 7',
    '[1, // one\n2]': 'InvalidCommentToken in line 1, column 5',
  }
  for (const [text, error] of Object.entries(errors)) assert.equal(atOnce(whereMalformed([text])), error)
})

test('however deep text is nested and long its tokens are, the error at its end is found in many steps', () => {
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
    let steps = 0
    const finding = whereMalformed(chunksOf(text))
    let step = finding.next()
    for (; !step.done; step = finding.next()) steps++
    const place = `in line ${lines.length}, column ${(lines.at(-1) as string).length + 1}`
    assert.match(step.value ?? '', new RegExp(`^(ValueExpected|CloseBracketExpected) ${place}$`))
    assert.ok(steps >= text.length / 32_768, `${steps} steps`)
  }
})
