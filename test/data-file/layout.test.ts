import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { DEFAULT_LAYOUT, fileText, layoutOf } from '../../src/data-file/layout.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { baseOf } from '../support/engine.ts'
import { Random } from '../support/random.ts'
import { json, ofOneServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

type State = Readonly<Record<string, readonly JsonObject[] | JsonObject>>

/** The text of a file with this state, in place of one with this text. */
function rewritten(text: string, state: State, isWhole = true): string {
  return [...fileText(baseOf(Object.entries(state)), layoutOf(text, isWhole), 'id')].join('')
}

/** The lines of which only one text has them, without a comma at the end. */
function changedLines(before: string, after: string): readonly string[] {
  const [old, now] = [before.split('\n'), after.split('\n')].map((lines) =>
    lines.map((line) => line.replace(/,$/, '')),
  ) as [string[], string[]]
  return now.filter((line) => !old.includes(line))
}

const BY_HAND = `{
    "$schema": "./db.schema.json",
    "posts": [
        { "id": 1, "title": "a", "tags": ["x", "y"] },
        { "id": 2, "title": "b", "author": { "name": "ada" } }
    ],

    "profile": {
        "name": "typicode",
        "colors": [ 1, 2 ]
    },
    "empty": []
}
`

const FIRST = { id: 1, title: 'a', tags: ['x', 'y'] }
const SECOND = { id: 2, title: 'b', author: { name: 'ada' } }
const AS_STATE = {
  posts: [FIRST, SECOND],
  profile: { name: 'typicode', colors: [1, 2] },
  empty: [],
}

const COMMA_FIRST = `{ "posts":
    [ { "id": 1, "title": "a", "tags": ["x", "y"] }
    , { "id": 2
      , "title": "b"
      , "author": { "name": "ada" }
      }
    ]
}`

test('a file whose state did not change is the same', () => {
  for (const text of [BY_HAND, BY_HAND.replaceAll('\n', '\r\n'), BY_HAND.trim(), `\uFEFF${BY_HAND}`]) {
    assert.equal(rewritten(text, AS_STATE), text)
  }
  assert.equal(rewritten(COMMA_FIRST, { posts: [FIRST, SECOND] }), COMMA_FIRST)
  const blanks = '{"a": [ ], "o": { },\n "b": [\n\n]}'
  assert.equal(rewritten(blanks, { a: [], o: {}, b: [] }), blanks)
})

test('a changed field changes its line', () => {
  const edited = rewritten(BY_HAND, { ...AS_STATE, posts: [{ ...FIRST, title: 'new' }, SECOND] })
  assert.equal(edited, BY_HAND.replace('"title": "a"', '"title": "new"'))
  const deep = rewritten(BY_HAND, { ...AS_STATE, posts: [FIRST, { ...SECOND, author: { name: 'bob' } }] })
  assert.equal(deep, BY_HAND.replace('"ada"', '"bob"'))
  const inObject = rewritten(BY_HAND, { ...AS_STATE, profile: { name: 'new', colors: [1, 2, 3] } })
  assert.deepEqual(changedLines(BY_HAND, inObject), ['        "name": "new"', '        "colors": [ 1, 2, 3 ]'])
})

test('a comma at the beginning of a line stays there', () => {
  const edited = rewritten(COMMA_FIRST, { posts: [FIRST, { ...SECOND, title: 'new', more: 1 }, { id: 3, title: 'c' }] })
  assert.deepEqual(changedLines(COMMA_FIRST, edited), [
    '      , "title": "new"',
    '      , "more": 1',
    '    , { "id": 3, "title": "c" }',
  ])
})

test('blank lines are kept, and not repeated for new items', () => {
  const text = '{\n  "a": [\n    { "id": 1 },\n\n\n    { "id": 2 }\n  ]\n}\n'
  assert.equal(
    rewritten(text, { a: [{ id: 1 }, { id: 2 }, { id: 3 }] }),
    text.replace('{ "id": 2 }', '{ "id": 2 },\n    { "id": 3 }'),
  )
})

test('new items and members are written as those beside them', () => {
  const added = rewritten(BY_HAND, {
    posts: [{ ...FIRST, n: 1 }, SECOND, { id: 3, in: { a: [1] } }],
    profile: { ...AS_STATE.profile, more: { a: 1 } },
    empty: [{ id: 1 }],
    fresh: [],
  })
  assert.deepEqual(changedLines(BY_HAND, added), [
    '        { "id": 1, "title": "a", "tags": ["x", "y"], "n": 1 }',
    '        { "id": 3, "in": { "a": [1] } }',
    '        "more": {',
    '            "a": 1',
    '        }',
    '    "empty": [',
    '        {',
    '            "id": 1',
    '        }',
    '    "fresh": []',
  ])
  assert.equal(
    rewritten('{\n"a":[{"id":1}]}', { a: [{ id: 1 }, { id: 2, b: [1] }], c: {} }),
    '{\n"a":[{"id":1},{"id":2,"b":[1]}],\n"c":{}}',
  )
  assert.equal(rewritten('{"a": [{"id": 1}\n]}', { a: [{ id: 2, b: 1 }] }), '{"a": [{"id": 2, "b": 1}\n]}')
  const tabs = rewritten('{\r\n\t"a": []\r\n}\r\n', { a: [{ id: 1 }] })
  assert.equal(tabs, '{\r\n\t"a": [\r\n\t\t{\r\n\t\t\t"id": 1\r\n\t\t}\r\n\t]\r\n}\r\n')
})

test('a removed item or collection leaves the rest as it was', () => {
  assert.deepEqual(changedLines(BY_HAND, rewritten(BY_HAND, { ...AS_STATE, posts: [SECOND] })), [])
  assert.equal(
    rewritten('{ "a": [{ "id": 1 }, { "id": 2 }],\n "b": {} }\n', { a: [{ id: 2 }] }),
    '{ "a": [{ "id": 2 }] }\n',
  )
  assert.equal(rewritten(BY_HAND, {}), '{\n    "$schema": "./db.schema.json"\n}\n')
  assert.equal(rewritten('{"a":[\n{"id":1}]}', {}), '{}')
})

test('a file of one line is indented, and keeps its $schema', () => {
  assert.equal(
    rewritten('{"a":[{"id":1}],"$schema":"./x.json"}', { a: [{ id: 2 }] }),
    '{\n  "$schema":"./x.json",\n  "a": [\n    {\n      "id": 2\n    }\n  ]\n}\n',
  )
})

test('a file without members, or a new one, is indented by two spaces, with a line for each item of a large collection', () => {
  const state = { a: [{ id: 1, b: { c: [] } }], o: {} }
  for (const text of ['{}', '{ }', '']) assert.equal(rewritten(text, state).trim(), JSON.stringify(state, null, 2))
  const many = Array.from({ length: 1000 }, (_, id) => ({ id }))
  const lines = [...fileText(baseOf([['a', many]]), DEFAULT_LAYOUT, 'id')].join('').split('\n')
  assert.equal(lines.length, 1005)
  assert.equal(lines[2], '    {"id":0},')
})

test('a file that is too long to be kept keeps its line ends, its indentation and its $schema', () => {
  const begin = '{\r\n\t"$schema": "./x.json",\r\n\t"a": [{"id": 1}'
  assert.equal(
    rewritten(begin, { a: [{ id: 1 }] }, false),
    '{\r\n\t"$schema": "./x.json",\r\n\t"a": [\r\n\t\t{\r\n\t\t\t"id": 1\r\n\t\t}\r\n\t]\r\n}\r\n',
  )
})

const WORDS = ['a', 'b"', 'ä\\', '{', ']', 'id', '', ' ']

function anyValue(random: Random, depth: number): JsonObject[string] {
  const kind = random.integer(depth > 2 ? 3 : 5)
  if (kind === 0) return random.integer(100) / 4
  if (kind === 1) return random.pick(WORDS)
  if (kind === 2) return random.pick([true, false, null])
  if (kind === 3) return Array.from({ length: random.integer(4) }, () => anyValue(random, depth + 1))
  return anyObject(random, depth + 1)
}

function anyObject(random: Random, depth = 0): JsonObject {
  return Object.fromEntries(
    Array.from({ length: random.integer(4) }, () => [
      `${random.pick(WORDS)}${random.integer(9)}`,
      anyValue(random, depth),
    ]),
  )
}

function anyState(random: Random): State {
  const names = ['one', 'two', 'three'].filter(() => random.chance(0.8))
  return Object.fromEntries(
    names.map((name) => {
      if (random.chance(0.2)) return [name, anyObject(random)]
      const ids = [1, 2, 3, 4, 'x'].filter(() => random.chance(0.6))
      return [name, ids.map((id) => ({ id, ...anyObject(random) }))]
    }),
  )
}

/** A text of the state in a layout of its own. */
function anyText(random: Random, state: State): string {
  const unit = random.pick(['', ' ', '\t', '    '])
  const text = JSON.stringify(state, null, unit)
  return random.chance(0.3) ? text.replaceAll('\n', '\r\n') : `${text}\n`
}

test('a rewritten file shows exactly the new state, whatever its layout and the old state were', () => {
  const random = new Random(7)
  for (let round = 0; round < 3000; round++) {
    const [before, after] = [anyState(random), anyState(random)]
    const mixed = Object.fromEntries(
      Object.entries(after).map(([name, value]) => [name, random.chance(0.4) ? (before[name] ?? value) : value]),
    )
    const text = anyText(random, before)
    const result = rewritten(text, mixed)
    const found = JSON.parse(result) as State
    for (const [name, value] of Object.entries(mixed)) {
      assert.equal(JSON.stringify(found[name]), JSON.stringify(value), `${round}: ${text}\n${result}`)
    }
    assert.deepEqual(Object.keys(found).sort(), Object.keys(mixed).sort())
    // A file of one line is indented at the first occasion.
    const again = rewritten(result, mixed)
    if (result.trim().includes('\n')) assert.equal(again, result)
    assert.equal(rewritten(again, mixed), again)
  }
})

test('a server keeps the layout of the file that it serves', {
  skip: ofOneServer('the file of one server is looked at'),
}, async (t) => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'db.json')
  const text = BY_HAND.replaceAll('\n', '\r\n')
  await writeFile(file, text)
  const server = await startServer(t, { directory })
  assert.equal((await server.fetch('/api/posts/1', json('PATCH', { title: 'new' }))).status, 204)
  const wanted = text.replace('"title": "a"', '"title": "new"')
  await until('the file', () => readFileSync(file, 'utf8') !== text)
  assert.equal(readFileSync(file, 'utf8'), wanted)
  assert.equal((await server.fetch('/api/posts/1', json('PATCH', { title: 'a' }))).status, 204)
  assert.equal(await server.stop(), 0)
  assert.equal(readFileSync(file, 'utf8'), text)
})
