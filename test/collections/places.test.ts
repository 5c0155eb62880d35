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
  for (let step = 0; step < 60_000; step++) {
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
    if (random.chance(0.0005)) taken.push({ snapshot: places.snapshot(), things: there.map(({ thing }) => thing) })
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

test('a copy and what it was made of go their own ways', () => {
  const seed = seedFor('places_copy')
  const random = new Random(seed)
  let known: (number | undefined)[] = []
  let places = new Places<number>()
  const change = (one: Places<number>, there: (number | undefined)[]): void => {
    for (let step = 0; step < 3000; step++) {
      const place = random.integer(there.length)
      if (random.chance(0.5) || there[place] === undefined) there[one.add(step)] = step
      else if (random.integer(2) === 0) {
        one.replace(place, -step)
        there[place] = -step
      } else {
        one.remove(place)
        there[place] = undefined
      }
    }
  }
  const check = (one: Places<number>, there: readonly (number | undefined)[]): void => {
    const things = there.filter((thing) => thing !== undefined)
    assert.deepEqual([...one.values()], things, `PLACES_COPY_SEED=${seed}`)
    assert.deepEqual(one.slice(things.length >> 1, 5), things.slice(things.length >> 1, (things.length >> 1) + 5))
    assert.equal(one.size, things.length)
  }
  for (let round = 0; round < 20; round++) {
    change(places, known)
    const copy = places.copy()
    const copied = [...known]
    change(places, known)
    change(copy, copied)
    check(places, known)
    check(copy, copied)
    if (random.chance(0.5)) [places, known] = [copy, copied]
  }
})
