import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { isObject, type JsonObject, type JsonValue } from '../../src/json/value.ts'
import { Random, SEED } from '../support/random.ts'
import { send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const { url, failures } = await startHere({ after }, { data: {} })
const CSV = 'text/csv'
const NDJSON = 'application/x-ndjson'
const JSON_TYPE = 'application/json'

/** Texts that CSV keeps. */
const TEXTS = [
  '007',
  '+1',
  '-',
  '.5',
  '1e999',
  '9007199254740993',
  'True',
  'null',
  '{}',
  '{ }',
  '{"a":1}',
  '[]',
  '[1]',
  '[1',
  '[1,{"a":"]"}]',
  '["\ud800"]',
  '"',
  '"text"',
  '"{}"',
  '"[1]"',
  '"\\"{}\\""',
  '"\\ud800"',
  '=1+1',
  '@SUM(A1)',
  ' leading',
  'trailing ',
  ' ',
  '\t',
  '\r\n',
  'two\r\nlines',
  'CR\r',
  '\n',
  '\ufeffBOM',
  '\ud800',
  'a\udc00b',
  '\ud83d',
  '😀',
  '\u0000',
  'a,b;c',
  '\u2028',
  '__proto__',
]
/** Texts that CSV reads as something else. NDJSON and JSON keep them. */
const CHANGED = ['', 'true', 'false', '0', '-1', '1e5', '1.50']
const NAMES = ['a', 'b', 'a.b', 'a\\', ' a', '1', 'a,b', '"', '\n', '\ufeff', '\ud800', '{}', '[1]', '=x', 'length']

function anyItem(random: Random, texts: readonly string[], isCsv: boolean): JsonObject {
  const scalar = (): JsonValue => {
    const choices = [
      () => random.pick(texts),
      () => random.chance(0.5),
      () => random.integer(1000) / 8 - 60,
      () => 1e-7,
    ]
    return random.pick(isCsv ? choices : [...choices, () => null])()
  }
  /** Anything within a list, which is JSON in CSV. */
  const any = (depth: number): JsonValue => {
    const kind = random.integer(depth > 0 ? 4 : 2)
    if (kind < 2) return random.chance(0.2) ? null : random.pick([...texts, ...CHANGED])
    return kind === 2 ? Array.from({ length: random.integer(3) }, () => any(depth - 1)) : object(depth - 1, any)
  }
  const object = (depth: number, value: (depth: number) => JsonValue): JsonObject =>
    Object.fromEntries(Array.from({ length: random.integer(4) }, () => [random.pick(NAMES), value(depth)]))
  const value = (depth: number): JsonValue => {
    const kind = random.integer(depth > 0 ? 5 : 3)
    if (kind < 2) return scalar()
    return kind === 2 ? Array.from({ length: random.integer(3) }, () => any(2)) : object(depth - 1, value)
  }
  return { ...object(2, value), last: scalar() }
}

/** Members in any order: CSV has them in the order of the columns. */
function sorted(value: JsonValue): JsonValue {
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const)
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function itemsOf(name: string): Promise<readonly JsonObject[]> {
  const { status, text } = await send(url, 'GET', `/api/${name}?all=true&sort=id`)
  assert.equal(status, 200, text)
  return JSON.parse(text)
}

async function post(name: string, type: string, body: string): Promise<void> {
  const { status, text } = await send(url, 'POST', `/api/${name}`, { headers: { 'Content-Type': type }, body })
  assert.equal(status, 201, text)
}

for (const [type, texts] of [
  [CSV, TEXTS],
  [NDJSON, [...TEXTS, ...CHANGED]],
  [JSON_TYPE, [...TEXTS, ...CHANGED]],
] as const) {
  test(`items exported as ${type} and posted again are the same`, async () => {
    const random = new Random(SEED)
    for (let round = 0; round < 30; round++) {
      const [from, to] = [`from-${type.replace('/', '-')}-${round}`, `to-${type.replace('/', '-')}-${round}`]
      const items = Array.from({ length: 20 }, () => anyItem(random, texts, type === CSV))
      await post(from, JSON_TYPE, JSON.stringify(items))
      const path = `/api/${from}?all=true&sort=id`
      const exported = await send(url, 'GET', path, { headers: { Accept: type } })
      await post(to, type, exported.text)
      const [before, then] = [await itemsOf(from), await itemsOf(to)]
      assert.equal(then.length, items.length)
      for (const [index, item] of before.entries()) {
        assert.deepEqual(sorted(then[index] as JsonObject), sorted(item), `SEED=${SEED}, round ${round}, item ${index}`)
      }
    }
  })
}

test('an empty object and a lone surrogate survive as CSV, beside text that looks like them', async () => {
  const items = [
    { a: {}, b: '\ud800', c: [] },
    { a: '{}', b: '"\\ud800"', c: '[]' },
    { a: { inner: {} }, b: '[1]', c: [[], {}, '{}'] },
  ]
  await post('odd', JSON_TYPE, JSON.stringify(items))
  const { text } = await send(url, 'GET', '/api/odd?fields=a,b,c', { headers: { Accept: CSV } })
  assert.equal(
    text,
    [
      'a,a.inner,b,c',
      '{},,"""\\ud800""",[]',
      '"""{}""",,"""\\""\\\\ud800\\""""","""[]"""',
      ',{},"""[1]""","[[],{},""{}""]"',
      '',
    ].join('\r\n'),
  )
  await post('again', CSV, text)
  assert.deepEqual(
    await itemsOf('again'),
    items.map((item, id) => ({ id, ...item })),
  )
})

test('CSV reads empty text and null as missing, and text that looks like a number or true as that', async () => {
  await post('lossy', JSON_TYPE, JSON.stringify([{ a: '', b: null, c: '1e5', d: 'true', e: '007' }]))
  const { text } = await send(url, 'GET', '/api/lossy?fields=a,b,c,d,e', { headers: { Accept: CSV } })
  await post('lossy-again', CSV, text)
  assert.deepEqual(await itemsOf('lossy-again'), [{ id: 0, c: 100000, d: true, e: '007' }])
})

test('the server logged no unexpected error', () => {
  assert.deepEqual(failures, [])
})

test('a list with members named as methods of objects is exported as CSV', async (t) => {
  const a = [
    { id: 1, x: [{ toString: 'ok', valueOf: 1 }] },
    { id: 2, x: { toString: {} } },
  ]
  const { url } = await startHere(t, { data: { a } })
  const csv = await send(url, 'GET', '/api/a', { headers: { Accept: 'text/csv' } })
  assert.equal(csv.status, 200)
  assert.match(csv.text, /""toString"":""ok""/)
})
