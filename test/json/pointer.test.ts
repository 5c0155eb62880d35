import assert from 'node:assert/strict'
import { test } from 'node:test'
import { arrayIndex, pointer, valueAt } from '../../src/json/paths.ts'

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
  assert.deepEqual(valueAt(item, ['list', '0', 'name'], 'id'), 'a')
  assert.deepEqual(valueAt(item, ['list', '1', 'name'], 'id'), 'b')
  for (const id of ['01', '-1', '1.5']) assert.deepEqual(String(valueAt(item, ['list', id, 'id'], 'id')), id)
  for (const index of ['2', '3', '4', '5', '00', '-0', '1.0', '']) {
    assert.equal(valueAt(item, ['list', index], 'id'), undefined, index)
  }
  assert.deepEqual(valueAt(item, [], 'id'), item)
  // Another field is the id, so that these elements have none.
  assert.deepEqual(valueAt(item, ['list', '1', 'name'], 'key'), 'a')
  const without = { list: [{ id: null }, { id: true }, { n: 1 }, [{ id: 7 }, 'last']] }
  assert.deepEqual(valueAt(without, ['list', '2', 'n'], 'id'), 1)
  assert.deepEqual(valueAt(without, ['list', '3', '7', 'id'], 'id'), 7)
  assert.equal(valueAt(without, ['list', '3', '1'], 'id'), undefined)
})

test('a path inside an item does not find inherited members', () => {
  for (const path of ['toString', '__proto__', 'constructor', 'hasOwnProperty']) {
    assert.equal(valueAt({ a: { b: 1 } }, [path], 'id'), undefined, path)
    assert.equal(valueAt({ a: { b: 1 } }, ['a', path], 'id'), undefined, path)
  }
  assert.equal(valueAt({ list: [1], text: 'abc' }, ['list', 'length'], 'id'), undefined)
  assert.equal(valueAt({ list: [1], text: 'abc' }, ['text', '0'], 'id'), undefined)
})
