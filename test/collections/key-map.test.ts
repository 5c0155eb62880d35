import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyMap } from '../../src/collections/key-map.ts'
import { Random, seedFor } from '../support/random.ts'

/** Some differ at their end, some at their beginning alone, some in one character. */
function key(random: Random): string {
  const n = random.integer(9000)
  return random.pick([`${n}`, `sensor-${n}`, `${n}-temperature`, `${'x'.repeat(n % 50)}`, `ü${n}€`, ''])
}

test('it is a Map to whoever asks, with few keys and with very many', () => {
  const seed = seedFor('key_map')
  const random = new Random(seed)
  const map = new KeyMap<number>()
  const model = new Map<string, number>()
  let most = 0
  for (let step = 0; step < 200_000; step++) {
    const one = key(random)
    const context = `KEY_MAP_SEED=${seed}, step ${step}: ${one}`
    assert.equal(map.get(one), model.get(one), context)
    if (random.chance(step < 100_000 ? 0.8 : 0.3)) {
      map.set(one, step)
      model.set(one, step)
    } else assert.equal(map.delete(one), model.delete(one), context)
    assert.equal(map.size, model.size, context)
    most = Math.max(most, map.size)
  }
  assert.ok(most > 10_000 && map.size < most, `${most} at most`)
  assert.deepEqual([...map].sort(), [...model].sort())
})

test('what changes in a copy is not seen in the other, nor the other way round', () => {
  const seed = seedFor('key_map_copy')
  const random = new Random(seed)
  let map = new KeyMap<number>()
  let model = new Map<string, number>()
  const change = (one: KeyMap<number>, known: Map<string, number>): void => {
    for (let step = random.integer(3000); step > 0; step--) {
      const at = key(random)
      if (random.chance(0.7)) {
        one.set(at, step)
        known.set(at, step)
      } else assert.equal(one.delete(at), known.delete(at))
    }
  }
  const check = (one: KeyMap<number>, known: Map<string, number>): void => {
    assert.deepEqual(new Map(one), known, `KEY_MAP_COPY_SEED=${seed}`)
    assert.equal(one.size, known.size)
    for (const [at, value] of known) assert.equal(one.get(at), value)
  }
  for (let round = 0; round < 30; round++) {
    const copy = map.copy()
    const copied = new Map(model)
    change(map, model)
    change(copy, copied)
    check(map, model)
    check(copy, copied)
    if (random.chance(0.5)) [map, model] = [copy, copied]
  }
  assert.ok(map.size > 4096, `${map.size} in the end`)
})
