import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChunkedList } from '../../src/runtime/chunked-list.ts'
import { Random, SEED } from '../support/random.ts'

test('a chunked list equals an array', () => {
  const random = new Random(SEED)
  for (const length of [0, 1, 4095, 4096, 4097, 20_000]) {
    const list = new ChunkedList<number>()
    const array: number[] = []
    for (let n = 0; n < length; n++) {
      const thing = random.integer(1000)
      list.push(thing)
      array.push(thing)
    }
    assert.equal(list.length, array.length)
    assert.deepEqual([...list], array)
    for (const at of [0, -1, length - 1, length, -length, -length - 1, 4095, 4096, random.integer(length + 1)]) {
      assert.equal(list.at(at), array.at(at), `${at} of ${length}`)
      assert.deepEqual(list.slice(Math.max(0, at)), array.slice(Math.max(0, at)), `from ${at} of ${length}`)
    }
    assert.deepEqual(list.slice(4000, 4200), array.slice(4000, 4200))
  }
})
