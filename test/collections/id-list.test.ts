import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdList } from '../../src/collections/id-list.ts'
import type { ItemId } from '../../src/events/event.ts'
import { Random, SEED } from '../support/random.ts'

test('an id list equals an array of ids of any kind, even when ids are replaced', () => {
  const random = new Random(SEED)
  const anyId = (): ItemId | undefined =>
    random.pick<() => ItemId | undefined>([
      () => random.integer(10),
      () => random.integer(2 ** 31),
      () => 2 ** 31 + random.integer(10),
      () => Number.MAX_SAFE_INTEGER,
      () => `k${random.integer(10)}`,
      () => '007',
      () => undefined,
    ])()
  for (const length of [0, 1, 4095, 4096, 4097, 20_000]) {
    const list = new IdList()
    const expected: (ItemId | undefined)[] = []
    for (let index = 0; index < length; index++) {
      // Whole chunks have integers alone.
      const id = Math.floor(index / 4096) % 2 === 0 ? index : anyId()
      list.push(id)
      expected.push(id)
    }
    for (let change = 0; length > 0 && change < 500; change++) {
      const [index, id] = [random.integer(length), anyId()]
      list.set(index, id)
      expected[index] = id
    }
    assert.deepEqual([...list], expected, `SEED=${SEED}, ${length} ids`)
    assert.equal(list.length, length)
    for (const index of [-1, length, length + 5000]) assert.equal(list.at(index), undefined)
  }
})
