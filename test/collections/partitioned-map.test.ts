import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PartitionedMap } from '../../src/collections/partitioned-map.ts'
import { Random, SEED } from '../support/random.ts'

/** Some differ at their end, some at their beginning alone, some in one character. */
function key(random: Random): string {
  const n = random.integer(9000)
  return random.pick([`${n}`, `sensor-${n}`, `${n}-temperature`, `${'x'.repeat(n % 50)}`, `ü${n}€`, ''])
}

test('a key map equals a Map, with few and with many keys', () => {
  const random = new Random(SEED)
  const map = new PartitionedMap<number>()
  const model = new Map<string, number>()
  for (let step = 0; step < 100_000; step++) {
    const one = key(random)
    const context = `SEED=${SEED}, step ${step}: ${one}`
    assert.equal(map.get(one), model.get(one), context)
    map.set(one, step)
    model.set(one, step)
    assert.equal(map.size, model.size, context)
  }
  assert.ok(map.size > 10_000, `${map.size} in the end`)
})
