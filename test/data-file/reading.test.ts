import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Base, Difference } from '../../src/commands/difference.ts'
import type { CollectionEdit } from '../../src/commands/edit.ts'
import { bytesReader, type ReadBytes } from '../../src/data-file/file-content.ts'
import { FileParser } from '../../src/data-file/file-parser.ts'
import { readDataFile } from '../../src/data-file/file-reader.ts'
import { parseText } from '../../src/json/parse.ts'
import { isObject, type JsonObject, type JsonValue } from '../../src/json/value.ts'
import { whereMalformed } from '../../src/json/where-malformed.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'
import { baseOf } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const NOTHING: Base = new Map()
const FILE = '/db.json'

/** The edit that a file is. */
async function read(text: string | Buffer, base = NOTHING): Promise<ReadonlyMap<string, CollectionEdit>> {
  const disk = new SimulatedDisk()
  disk.put(FILE, Buffer.from(text))
  const newDifference = () => new Difference({ base, idField: 'id', kind: 'edit', keeps: 'ids' })
  const { visitor } = await readDataFile(disk.files(), FILE, { idField: 'id', turn: ENDLESS }, newDifference)
  return editsIn(visitor)
}

async function editsIn(difference: Difference): Promise<ReadonlyMap<string, CollectionEdit>> {
  const { collections } = await difference.end(ENDLESS)
  return new Map(collections.map((collection) => [collection.name, collection]))
}

/** The items of a file that was compared with nothing. */
function textsOf(edits: ReadonlyMap<string, CollectionEdit>): Map<string, string[]> {
  return new Map(Array.from(edits, ([name, { edited }]) => [name, Array.from(edited, ({ text }) => text)]))
}

async function valuesOf(text: string): Promise<Record<string, JsonValue>> {
  const edits = await read(text)
  const values = Array.from(textsOf(edits), ([name, items]) => {
    const all = items.map((item) => parseText(item))
    return [name, edits.get(name)?.isObject ? all[0] : all]
  })
  return Object.fromEntries(values)
}

async function refusalOf(text: string | Buffer): Promise<string> {
  try {
    await read(text)
  } catch (error) {
    assert.ok(error instanceof Refusal && error.code === 'Invalid', String(error))
    return error.message
  }
  assert.fail(`it is read: ${text.toString().slice(0, 200)}`)
}

const TEXTS = ['', 'a', 'ü€😀', '"', '\\', '\\"', 'a\nb', '{[,:]}', ' 1 2 ', '\u2028', 'tr ue']

function value(random: Random, depth = 0): JsonValue {
  switch (random.integer(depth > 2 ? 5 : 7)) {
    case 0:
      return random.pick(TEXTS)
    case 1:
      return random.pick([0, -1, 1.5, 1e-21, -2.5e-7, 123456789])
    case 2:
      return random.pick([true, false, null])
    case 3:
      return []
    case 4:
      return {}
    case 5:
      return Array.from({ length: random.integer(4) }, () => value(random, depth + 1))
    default:
      return object(random, depth + 1)
  }
}

function object(random: Random, depth: number): JsonObject {
  return Object.fromEntries(
    Array.from({ length: random.integer(4) }, () => [`m${random.pick(TEXTS)}`, value(random, depth)]),
  )
}

function file(random: Random): Record<string, JsonObject[] | JsonObject> {
  const names = ['b', 'a', '7', '10', 'ü', 'x y'].slice(random.integer(6))
  const items = () =>
    Array.from({ length: random.integer(5) }, (_, index) => ({
      ...(random.chance(0.8) && { id: random.chance(0.5) ? index : `i${index}` }),
      ...object(random, 0),
    }))
  return Object.fromEntries(names.map((name) => [name, random.chance(0.2) ? object(random, 0) : items()]))
}

/** Texts as files have them: most of them valid, some with a byte or two changed. */
function* files(random: Random, count: number): Generator<Buffer> {
  for (let round = 0; round < count; round++) {
    const bytes = Buffer.from(JSON.stringify(file(random), null, random.pick([0, 1, 2, '\t', ' \r\n'])))
    for (let edits = random.integer(3); edits > 0; edits--) {
      bytes[random.integer(bytes.length)] = random.chance(0.5)
        ? random.pick([...Buffer.from('{}[],:" \n\\19tnue.-')])
        : random.integer(256)
    }
    yield bytes
  }
}

function cutUp(bytes: Buffer, random: Random, most: number): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = random.integer(most + 1)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** The result of reading pieces one after the other. */
async function comingIn(pieces: readonly Buffer[], base = NOTHING): Promise<ReadonlyMap<string, CollectionEdit>> {
  const difference = new Difference({ base, idField: 'id', kind: 'edit', keeps: 'ids' })
  const readings = pieces.filter(({ length }) => length > 0).map(bytesReader)
  const readNext: ReadBytes = async (room) => {
    for (let reading = readings[0]; reading; reading = readings[0]) {
      const bytes = await reading(room)
      if (bytes > 0) return bytes
      readings.shift()
    }
    return 0
  }
  await new FileParser(readNext, { idField: 'id', visitor: difference }, ENDLESS).parse()
  return editsIn(difference)
}

function parsed(text: string): JsonValue | undefined {
  try {
    return parseText(text)
  } catch {
    return undefined
  }
}

/** Whether two members of the file have one name: with another name for one of them, there is one member more. */
function hasNameTwice(text: string, file: JsonObject): boolean {
  const names = Object.keys(file)
  return names.some((name) => {
    const quoted = JSON.stringify(name)
    for (let at = text.indexOf(quoted); at >= 0; at = text.indexOf(quoted, at + 1)) {
      const renamed = parsed(`${text.slice(0, at)}"another name"${text.slice(at + quoted.length)}`)
      if (renamed && Object.keys(renamed).length > names.length) return true
    }
    return false
  })
}

test('a file is parsed like JSON.parse, in any formatting', async () => {
  const random = new Random(SEED)
  let refused = 0
  for (const bytes of files(random, 1000)) {
    const text = bytes.toString()
    const expected = parsed(text)
    let found: Record<string, JsonValue> | undefined
    let why = ''
    try {
      found = await valuesOf(text)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      why = error.message
    }
    const context = `${text}\n${why}`
    if (expected === undefined) {
      refused++
      assert.equal(why, `The data file is not well-formed JSON: ${whereMalformed(text)}.`, context)
    } else if (found) {
      assert.ok(!hasNameTwice(text, expected as JsonObject), context)
      // JSON turns -0 into 0.
      assert.deepEqual(found, parseText(JSON.stringify(expected)), context)
    } else {
      assert.match(why, /^At /, context)
      const isRight =
        isObject(expected) &&
        Object.entries(expected).every(
          ([name, items]) =>
            name !== '' && (isObject(items) || (Array.isArray(items) && items.every((item) => isObject(item)))),
        )
      // The rest are names and ids of which there are two, and numbers that would be changed.
      if (isRight && !hasNameTwice(text, expected)) assert.match(why, /id|2\^53|too large/, context)
    }
  }
  assert.ok(refused > 100, `${refused} refused`)
})

test('a file gives the same result in pieces of any size', async () => {
  const random = new Random(SEED)
  let refused = 0
  for (const file of files(random, 500)) {
    const bytes = random.chance(0.3) ? Buffer.concat([Buffer.from('\uFEFF'), file]) : file
    const pieces = cutUp(bytes, random, random.pick([1, 3, 20]))
    const context = pieces.join('|')
    let whole: ReadonlyMap<string, CollectionEdit> | undefined
    try {
      whole = await read(bytes)
    } catch {
      refused++
      await assert.rejects(comingIn(pieces), context)
      continue
    }
    assert.deepEqual(textsOf(await comingIn(pieces)), textsOf(whole), context)
  }
  assert.ok(refused > 50 && refused < 450, `${refused} refused`)
})

test('an item may be longer than the read buffer', async () => {
  const random = new Random(SEED)
  const things = Array.from({ length: 20 }, (_, id) => ({ id, text: 'ü\n'.repeat(random.integer(400_000)) }))
  const base = baseOf([['things', things]])
  const pieces = cutUp(Buffer.from(JSON.stringify({ things }, null, 2)), random, 100_000)
  const found = (await comingIn(pieces, base)).get('things')
  assert.deepEqual([found?.removed.length, found?.edited.length], [0, 0])
})

test('unedited items are recognized, whatever was inserted, removed or moved around them', async () => {
  const items = Array.from({ length: 50 }, (_, id) => ({ id: id % 3 === 0 ? `k${id}` : id, n: id, t: 'ü' }))
  const base = baseOf([['things', items]])
  const edited = [
    ...items.slice(10, 20),
    { id: 'new' },
    ...items.slice(0, 10),
    ...items.slice(25).map((item) => (item.n === 30 ? { ...item, n: -1 } : item)),
    { t: 'ü', n: 20, id: 20 },
  ]
  const found = (await read(JSON.stringify({ things: edited }, null, 2), base)).get('things')
  assert.deepEqual(
    [...(found?.order ?? [])],
    edited.map(({ id }) => id),
  )
  const isEdited = (item: object): boolean => ('id' in item && item.id === 'new') || ('n' in item && item.n === -1)
  assert.deepEqual(
    Array.from(found?.edited ?? [], ({ index, text }) => [index, JSON.parse(text)]),
    [...edited.entries()].filter(([, item]) => isEdited(item)),
  )
})

test('an edit knows whether all base items are there, in order and before all others', async () => {
  const items = Array.from({ length: 5 }, (_, id) => ({ id }))
  const base = baseOf([['things', items]])
  const matchedIn = async (ids: readonly (number | undefined)[]) => {
    const things = ids.map((id) => (id === undefined ? { text: 'new' } : { id }))
    const edit = (await read(JSON.stringify({ things }), base)).get('things')
    return { isAll: edit?.removed.length === 0, isInOrder: !edit?.isReordered }
  }
  assert.deepEqual(await matchedIn([0, 1, 2, 3, 4]), { isAll: true, isInOrder: true })
  assert.deepEqual(await matchedIn([0, 1, 2, 3, 4, 9, undefined]), { isAll: true, isInOrder: true })
  assert.deepEqual(await matchedIn([0, 2, 4]), { isAll: false, isInOrder: true })
  assert.deepEqual(await matchedIn([0, 1, 3, 2, 4]), { isAll: true, isInOrder: false })
  assert.deepEqual(await matchedIn([9, 0, 1, 2, 3, 4]), { isAll: true, isInOrder: false })
  assert.deepEqual(await matchedIn([0, 1, 2, undefined, 3, 4]), { isAll: true, isInOrder: false })
  assert.deepEqual(await matchedIn([]), { isAll: false, isInOrder: true })
})

test('a single object is recognized from the base, and differs from a list', async () => {
  const base = baseOf([['things', [{ id: 1 }]]])
  const object = { n: 1, in: { x: [1] } }
  const objects = baseOf([['things', object]])
  const found = async (things: JsonValue, from: Base) => {
    const edit = (await read(JSON.stringify({ things }, null, 2), from)).get('things')
    return [edit?.isObject, edit?.edited.length, edit?.wasThere]
  }
  assert.deepEqual(await found({ in: { x: [1] }, n: 1 }, objects), [true, 0, true])
  assert.deepEqual(await found({ n: 2 }, objects), [true, 1, true])
  assert.deepEqual(await found([{ id: 1 }], objects), [false, 1, false])
  assert.deepEqual(await found([], objects), [false, 0, false])
  assert.deepEqual(await found({ n: 1 }, base), [true, 1, false])
  assert.deepEqual(await found({ n: 1 }, NOTHING), [true, 1, false])
})

test('all mistakes of a file are reported, each with its place and a correction', async () => {
  const long = { text: '\\"]}'.repeat(100_000), deep: [[{ a: 'ü' }]] }
  const text = JSON.stringify({
    profile: long,
    settings: { n: { ['__proto__']: 1 } },
    title: 'x\\"]',
    count: -1.5e7,
    nothing: null,
    isOn: true,
    tags: ['a', 'b', { id: 1 }, [[1], {}], 7],
    posts: [{ id: 1 }, { id: '1' }, { id: null, a: 1 }, { id: 3, n: { __proto: 1 } }, { id: true }],
    '': [],
    last: 1,
  }).replace(/}$/, ',"posts":[]}')
  await assert.rejects(read(text), (error) => {
    assert.ok(error instanceof Refusal && error.code === 'Invalid')
    const [settings = '', title, ...others] = error.faults.map(({ pointer, message }) => `${pointer} ${message}`)
    assert.match(settings, /^\/settings\/n/)
    assert.equal(
      title,
      '/title a member must be a list of objects or an object, not text: write "title": [{"value": …}] or {"value": …}',
    )
    const patterns = [
      /^\/count .*not a number/,
      /^\/nothing .*not null/,
      /^\/isOn .*not true or false/,
      /^\/tags\/0 an item must be an object, not text: write each value of the list as {"value": …}$/,
      /^\/posts\/1\/id another item has the id "1" too, \/posts\/0: change one/,
      /^\/posts\/2\/id an id must be text or a number: change it, or remove it/,
      /^\/posts\/4\/id /,
      /^\/ a collection's name must not be empty: give it another name/,
      /^\/last /,
      /^\/posts another member has this name too: give one of them another name, or put all items into one list$/,
    ]
    assert.equal(others.length, patterns.length)
    for (const [index, pattern] of patterns.entries()) assert.match(others[index] ?? '', pattern)
    assert.match(error.message, /^At \/settings\/n.*: .*\. At \/title: .*\. At \/posts: .*\.$/)
    return true
  })
  assert.equal(
    await refusalOf(' [1]'),
    'At the root: the file must be an object of collections, not a list: write {"items": [{"id": 1}]}.',
  )
})

test('items with the same id are reported with the places of both', async () => {
  const text = `\uFEFF{
    "others": [{"id": 1, "text": "}\\n]"}, {"id": 1.0}],
    "tags": { "a": [[{"id": 2}]] },
    "posts": [
      {"id": 2},
      {"id": true}, {"id": "3"},
      {
        "id": 4,
        "list": [{"id": 2}]
      },
      { "n": 1 },\r
      {"id":
        3
      },
      {"id": "2"}, {"id": 2}
    ]
  }`
  await assert.rejects(read(text), (error) => {
    assert.ok(error instanceof Refusal)
    const faults = error.faults.map(({ pointer, message }) => `${pointer} ${message.replace(/: change.*/, '')}`)
    assert.deepEqual(faults, [
      '/others/1/id another item has the id "1" too, /others/0',
      '/posts/1/id an id must be text or a number',
      '/posts/5/id another item has the id "3" too, /posts/2',
      '/posts/6/id another item has the id "2" too, /posts/0',
      '/posts/7/id another item has the id "2" too, /posts/0',
    ])
    assert.match(error.message, /^At \/others\/1\/id: another item has the id "1" too, \/others\/0: /)
    return true
  })
  const items = Array.from(
    { length: 20_000 },
    (_, id) => `  {"id": ${id === 19_000 ? 7 : id}, "text": "${'x'.repeat(id % 90)}"}`,
  )
  assert.match(
    await refusalOf(`{"things": [\n${items.join(',\n')}\n]}`),
    /^At \/things\/19000\/id: another item has the id "7" too, \/things\/7: change one/,
  )
})

test('at most twenty mistakes are reported', async () => {
  const text = JSON.stringify({ posts: Array.from({ length: 1000 }, () => ({ id: 7 })) })
  await assert.rejects(read(text), (error) => {
    assert.ok(error instanceof Refusal)
    assert.equal(error.faults.length, 20)
    return error.message.endsWith('Further mistakes are not listed.')
  })
})

test('a mistake does not hide a syntax error after it', async () => {
  for (const text of ['{"a": 1, "b": [{}}', '{"a": "x', '{"a": {"b": [}, "c": []}', '{"a": tru}', '{"a": , "b": []}']) {
    assert.equal(await refusalOf(text), `The data file is not well-formed JSON: ${whereMalformed(text)}.`)
  }
})

test('a syntax error is reported with the item it is in', async () => {
  const places = {
    '': '',
    '{"a": [] "b": []}': '',
    '{"a": [{"id": 1}, {"id": 2,}]}': '/a/1',
    '{"a": [{"id": 1}], "b~": [{} {}]}': '/b~0/1',
    '{"a": [{"id": 1}], "b": [{"id": tru}]}': '/b/0',
    '{"a": {"b": {"c": tru}}}': '/a',
  }
  for (const [text, place] of Object.entries(places)) {
    await assert.rejects(read(text), (error) => error instanceof Refusal && error.faults[0]?.pointer === place, text)
  }
})

test('a syntax error in a very long file is reported with its place', async () => {
  const items = Array.from({ length: 5000 }, (_, id) => ({ id, text: 'ü'.repeat(30) }))
  const whole = JSON.stringify({ first: [], things: items }, null, 2)
  const at = (id: number): number => whole.indexOf(`"id": ${id},`)
  const wrong = {
    'a comma too many': whole.replace('\n  ]\n}', ',\n  ]\n}'),
    'a comma too few': whole.replace(/\},(\s+\{\s+"id": 4321,)/, '}$1'),
    'no value': `${whole.slice(0, at(4321))}"id":,${whole.slice(at(4321) + 10)}`,
    'words side by side': whole.replace('"id": 4321,', '"id": 43 21,'),
    'an end too many': `${whole}}`,
    'no end': whole.trimEnd().slice(0, -1),
    'a name without quotes': whole.replace('"things"', 'things'),
    'a comma too many in a long item': whole.replace(
      '"id": 4321,',
      `"id": 4321, "long": [\n0${',0'.repeat(200_000)},],`,
    ),
    'no end of a long text': whole.replace('"id": 4321,', `"id": 4321, "long": "${'a'.repeat(400_000)},`),
    'a letter among blanks': `${whole.slice(0, at(4321) - 3)}x${whole.slice(at(4321) - 2)}`,
  }
  for (const [what, text] of Object.entries(wrong)) {
    assert.equal(await refusalOf(text), `The data file is not well-formed JSON: ${whereMalformed(text)}.`, what)
  }
  const bytes = Buffer.from(whole)
  bytes[bytes.lastIndexOf('ü') + 1] = 0x20
  assert.equal(await refusalOf(bytes), 'The data file is not valid UTF-8.')
  assert.match(
    await refusalOf(whole.replace('"id": 4321,', '"id": 4320,')),
    /^At \/things\/4321\/id: another item has the id/,
  )
})

test('a value of more than 64 MiB is rejected with its place', async () => {
  const chunk = Buffer.alloc(1024 * 1024, 'a')
  const begin = Buffer.from('{"things":[{"id":1},{"text":"')
  const readings = [begin, ...Array.from({ length: 65 }, () => chunk)].map(bytesReader)
  const readNext: ReadBytes = async (room) => {
    const bytes = (await readings[0]?.(room)) ?? 0
    if (bytes > 0) return bytes
    readings.shift()
    return readings.length > 0 ? readNext(room) : 0
  }
  const visitor = new Difference({ base: NOTHING, idField: 'id', kind: 'edit', keeps: 'ids' })
  await assert.rejects(new FileParser(readNext, { idField: 'id', visitor }, ENDLESS).parse(), {
    code: 'Invalid',
    message: /^At \/things\/1: .* at most 64 MiB/,
  })
})
