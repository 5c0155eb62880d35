import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Malformed, parseText } from '../../src/json/parse-text.ts'
import { isArray, type JsonValue, put } from '../../src/json/value.ts'
import { forAll, type Random } from '../support/random.ts'

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
