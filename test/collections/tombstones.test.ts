import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TombstoneAt } from '../../src/collections/item.ts'
import { sharesRow, tombstoneBlockOf, tombstonesIn, withTombstones } from '../../src/collections/tombstones.ts'
import type { ItemId } from '../../src/events/event.ts'
import { HIGHEST } from '../../src/store/keys.ts'
import { Random, SEED } from '../support/random.ts'

const IDS: readonly ItemId[] = [0, -0, -7, 7.5, 1e21, 2 ** 53 - 1, '', '7', 'ä', '😀'.repeat(10), 'x'.repeat(40)]
const NUMBERS = [0, 1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 32 - 1]
const POSITIONS = [...NUMBERS, 2 ** 40, HIGHEST]

test('tombstones are read as they were added, with any ids and the highest numbers', () => {
  for (let run = 0; run < 300; run++) {
    const random = new Random(SEED + run)
    const block = random.integer(2 ** 30)
    const first = random.integer(1000)
    const expected = new Map<number, TombstoneAt>()
    let row: Buffer | undefined
    for (const offset of Array.from({ length: 32 }, (_, at) => (at * 13) % 32)) {
      const [position, prior] = [random.pick(POSITIONS), random.pick(POSITIONS)]
      const since = random.chance(0.5) ? prior : random.pick(POSITIONS)
      const id = random.chance(0.7) ? first + offset : random.pick(IDS)
      const tombstone = { id, position, prior, revision: random.pick(NUMBERS), since }
      expected.set(32 * block + offset, tombstone)
      row = withTombstones(row, new Map([[32 * block + offset, tombstone]]), position)
      assert.deepEqual([...tombstonesIn(row, block)], [...expected], `SEED=${SEED + run}`)
    }
    assert.ok(
      row?.equals(withTombstones(undefined, expected, [...expected.values()].at(-1)?.position ?? 0)),
      `SEED=${SEED + run}: added at once`,
    )
  }
})

test('a row of tombstones of which a bit has changed is not read, and not added to', () => {
  const tombstone: TombstoneAt = { id: 3, position: 9, prior: 4, revision: 2, since: 4 }
  const row = withTombstones(undefined, new Map([[3, tombstone]]), 9)
  for (let bit = 0; bit < 8 * row.length; bit++) {
    const damaged = Buffer.from(row)
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7))
    // The upper bytes of the position are in no CRC.
    if (bit < 16) continue
    assert.throws(() => tombstonesIn(damaged, 0), { name: 'Corruption' }, `bit ${bit}`)
    assert.throws(() => withTombstones(damaged, new Map([[4, tombstone]]), 10), { name: 'Corruption' }, `bit ${bit}`)
  }
})

test('only a short id shares a row, and 32 places do', () => {
  assert.deepEqual(['x'.repeat(40), 'ä'.repeat(20), 1e21].map(sharesRow), [true, true, true])
  assert.deepEqual(['x'.repeat(41), 'ä'.repeat(21)].map(sharesRow), [false, false])
  assert.deepEqual([0, 31, 32, 2 ** 40].map(tombstoneBlockOf), [0, 0, 1, 2 ** 35])
})
