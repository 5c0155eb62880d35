import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  arrayIndex,
  firstAt,
  formatPath,
  parsePath,
  pathTo,
  pointer,
  select,
  selectionOf,
  splitList,
  valuesAt,
} from '../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'

function values(item: JsonValue, path: string): readonly JsonValue[] {
  return Array.from(valuesAt(item, parsePath(path))).filter((value) => value !== undefined)
}

function selected(item: JsonObject, ...paths: string[]): JsonObject {
  return select(item, selectionOf(paths.map(parsePath)))
}

test('a path leads into objects, and gives undefined when a name is missing', () => {
  const item = { data: { x: 1, nothing: null } }
  assert.deepEqual(values(item, 'data.x'), [1])
  assert.deepEqual(values(item, 'data.nothing'), [null])
  assert.deepEqual(values(item, 'data'), [item.data])
  for (const path of ['data.y', 'data.x.y', 'data.nothing.y', 'x', '', 'data.', '.data']) {
    assert.deepEqual(values(item, path), [], path)
  }
})

test('a backslash escapes a following dot, comma or backslash, and is literal elsewhere', () => {
  for (const [text, path] of [
    ['a\\.b', ['a.b']],
    ['a\\.b.c\\,d', ['a.b', 'c,d']],
    ['a\\\\.b', ['a\\', 'b']],
    ['a\\b.c\\', ['a\\b', 'c\\']],
    ['\\.', ['.']],
    ['.', ['', '']],
    ['a\\\\\\\\', ['a\\\\']],
    ['\\\\\\b', ['\\\\b']],
    ['a\\\\\\.b', ['a\\.b']],
  ] as const) {
    assert.deepEqual(parsePath(text), path, text)
    assert.deepEqual(parsePath(formatPath(path)), path, text)
  }
  assert.equal(formatPath(['a.b', 'c']), 'a\\.b.c')
  assert.equal(formatPath(['a\\b']), 'a\\b')
  assert.notEqual(formatPath(['a.b']), formatPath(['a', 'b']))
  assert.deepEqual(splitList('a,b\\,c,,d\\\\,e\\'), ['a', 'b\\,c', 'd\\\\', 'e\\'])
})

test('a path through arrays leads to every element, also of nested arrays', () => {
  const item = { rows: [{ n: 1 }, [{ n: 2 }, { m: 0 }], 'text', { n: [3, [4]] }] }
  assert.deepEqual(values(item, 'rows.n'), [1, 2, [3, [4]], 3, [4], 4])
  assert.deepEqual(values({ tags: [] }, 'tags'), [[]])
})

test('inherited members are not found', () => {
  const item = { data: {}, list: [1], name: 'x' }
  for (const path of ['constructor', '__proto__', 'toString', 'data.constructor.name', 'list.length', 'name.length']) {
    assert.deepEqual(values(item, path), [], path)
  }
  assert.deepEqual(values({ constructor: 1 }, 'constructor'), [1])
})

test('an array sorts by itself, and a path through an array by the first element that has the field', () => {
  assert.deepEqual(firstAt({ tags: [2, 1] }, ['tags']), [2, 1])
  assert.equal(firstAt({ rows: [{}, { n: 2 }, { n: 1 }] }, ['rows', 'n']), 2)
  assert.equal(firstAt({}, ['rows']), undefined)
})

test('selected fields keep their nesting and the order of the item', () => {
  const item = { id: 1, data: { x: 1, y: { z: 2, w: 3 } }, mac: 'a', empty: {} }
  assert.equal(
    JSON.stringify(selected(item, 'mac', 'data.y.z', 'id')),
    '{"id":1,"data":{"y":{"z":2}},"mac":"a"}',
    'in the order of the item',
  )
  assert.deepEqual(selected(item, 'data.x', 'data.y.w'), { data: { x: 1, y: { w: 3 } } })
  assert.deepEqual(selected(item, 'empty'), { empty: {} })
})

test('selecting a whole field includes its parts, in either order', () => {
  const item = { data: { x: 1, y: 2 } }
  assert.deepEqual(selected(item, 'data', 'data.x'), item)
  assert.deepEqual(selected(item, 'data.x', 'data'), item)
  assert.deepEqual(selected(item, 'data.x', 'data.x.deeper'), { data: { x: 1 } })
})

test('missing fields, and paths into other values than objects, are omitted', () => {
  const item = { name: 'x', none: null, data: { x: 1 } }
  assert.deepEqual(selected(item, 'nope', 'name.first', 'none.x', 'data.y', 'data.x.y'), {})
  assert.deepEqual(selected(item, '__proto__', 'constructor', 'toString.name'), {})
})

test('fields are selected from each element of an array', () => {
  const item = { rows: [{ n: 1, m: 1 }, { m: 2 }, 'text', [{ n: 3, m: 3 }]] }
  assert.deepEqual(selected(item, 'rows.n'), { rows: [{ n: 1 }, {}, [{ n: 3 }]] })
  assert.deepEqual(selected(item, 'rows'), item)
})

test('a path of any length is parsed and applied without recursion', () => {
  const long = 'a.'.repeat(100_000)
  assert.deepEqual(values({ a: { a: 1 } }, long), [])
  assert.deepEqual(selected({ a: { a: 1 } }, long), {})
})

test('a pointer escapes only tilde and slash', () => {
  assert.equal(pointer([]), '')
  assert.equal(pointer(['']), '/')
  assert.equal(pointer(['a/b', 'm~n', 0, ' ', '%']), '/a~1b/m~0n/0/ /%')
})

test('an array index has one canonical spelling', () => {
  assert.equal(arrayIndex('0'), 0)
  assert.equal(arrayIndex('10'), 10)
  for (const other of ['', '-', '01', '00', '1.0', '1e1', '+1', '-1', ' 1', '99999999999', 'length']) {
    assert.equal(arrayIndex(other), undefined, other)
  }
})

test('a path inside an item finds an element by its id, and by its index only where no element has an id', () => {
  const item = { list: [{ id: 1, name: 'b' }, { id: '0', name: 'a' }, 'third', { id: '01' }, { id: -1 }, { id: 1.5 }] }
  assert.deepEqual(pathTo(item, ['list', '0', 'name'], 'id')?.value, 'a')
  assert.deepEqual(pathTo(item, ['list', '1', 'name'], 'id')?.value, 'b')
  for (const id of ['01', '-1', '1.5']) assert.deepEqual(String(pathTo(item, ['list', id, 'id'], 'id')?.value), id)
  for (const index of ['2', '3', '4', '5', '00', '-0', '1.0', '']) {
    assert.equal(pathTo(item, ['list', index], 'id')?.value, undefined, index)
  }
  assert.deepEqual(pathTo(item, [], 'id')?.value, item)
  // Another field is the id, so that these elements have none.
  assert.deepEqual(pathTo(item, ['list', '1', 'name'], 'key')?.value, 'a')
  const without = { list: [{ id: null }, { id: true }, { n: 1 }, [{ id: 7 }, 'last']] }
  assert.deepEqual(pathTo(without, ['list', '2', 'n'], 'id')?.value, 1)
  assert.deepEqual(pathTo(without, ['list', '3', '7', 'id'], 'id')?.value, 7)
  assert.equal(pathTo(without, ['list', '3', '1'], 'id')?.value, undefined)
})

test('a path inside an item does not find inherited members', () => {
  for (const path of ['toString', '__proto__', 'constructor', 'hasOwnProperty']) {
    assert.equal(pathTo({ a: { b: 1 } }, [path], 'id')?.value, undefined, path)
    assert.equal(pathTo({ a: { b: 1 } }, ['a', path], 'id')?.value, undefined, path)
  }
  assert.equal(pathTo({ list: [1], text: 'abc' }, ['list', 'length'], 'id')?.value, undefined)
  assert.equal(pathTo({ list: [1], text: 'abc' }, ['text', '0'], 'id')?.value, undefined)
})
