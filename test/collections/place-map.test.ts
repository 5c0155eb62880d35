import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PlaceMap } from '../../src/collections/place-map.ts'
import type { ItemId } from '../../src/events/event.ts'
import { Random, SEED } from '../support/random.ts'

const ODD: readonly ItemId[] = [
  '',
  '0',
  '00',
  '007',
  '-1',
  '1.5',
  '1e3',
  ' 1',
  '999999999',
  '1000000000',
  '2147483648',
  'ä',
  '__proto__',
]

test('a key has the place it was given last', () => {
  const random = new Random(SEED)
  const keys = new PlaceMap()
  const places = new Map<string, number>()
  const numbers = [0, -0, -1, 1.5, 1e3, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53, 1e21]
  const anyId = (): ItemId => {
    if (random.chance(0.1)) return random.pick(ODD)
    if (random.chance(0.1)) return random.pick(numbers)
    const integer = random.integer(random.chance(0.8) ? 20_000 : 2_000_000_000)
    return random.chance(0.5) ? integer : String(integer)
  }
  // Some of the pages hold places that follow each other as their integers do, until one is replaced.
  for (let id = 3; id < 17_000; id++) {
    keys.set(id, id + 4)
    places.set(String(id), id + 4)
  }
  for (let step = 0; step < 100_000; step++) {
    const id = anyId()
    assert.equal(keys.of(id), places.get(String(id)), `SEED=${SEED}, step ${step}: ${id}`)
    assert.equal(keys.get(String(id)), places.get(String(id)), `SEED=${SEED}, step ${step}: ${id}`)
    if (random.chance(0.4)) continue
    keys.set(id, step)
    places.set(String(id), step)
  }
  for (const [key, place] of places) assert.equal(keys.get(key), place, `SEED=${SEED}: ${key}`)
  assert.ok(places.size > 1000)
})

test('integers far apart need no pages, and the highest place is found', () => {
  const keys = new PlaceMap()
  keys.set(5, 2 ** 32 - 2)
  assert.equal(keys.get('5'), 2 ** 32 - 2)
  for (let id = 0; id < 2_000_000_000; id += 10_000_000) keys.set(id, id)
  for (let id = 0; id < 2_000_000_000; id += 10_000_000) assert.equal(keys.of(id), id)
})
