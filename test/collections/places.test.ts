import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Places } from '../../src/collections/places.ts'
import { Random, seedFor } from '../support/random.ts'

test('a snapshot stays as it was taken, whatever is added, replaced and removed later', () => {
  const seed = seedFor('places')
  const random = new Random(seed)
  const places = new Places<number>()
  const there: { readonly place: number; thing: number }[] = []
  const taken: { readonly snapshot: Iterable<number>; readonly things: readonly number[] }[] = []
  for (let step = 0; step < 20_000; step++) {
    const index = random.integer(there.length)
    const one = there[index]
    if (!one || random.chance(0.6)) there.push({ place: places.add(step), thing: step })
    else if (random.chance(0.5)) {
      places.replace(one.place, step)
      one.thing = step
    } else {
      places.remove(one.place)
      there.splice(index, 1)
    }
    if (random.chance(0.001)) taken.push({ snapshot: places.snapshot(), things: there.map(({ thing }) => thing) })
  }
  assert.ok(taken.length > 5)
  for (const { snapshot, things } of taken) {
    assert.deepEqual([...snapshot], things, `PLACES_SEED=${seed}`)
    assert.deepEqual([...snapshot], things, 'it can be gone through again')
  }
  assert.deepEqual(
    [...places.values()],
    there.map(({ thing }) => thing),
  )
})
