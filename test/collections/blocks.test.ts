import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BLOCK_PLACES, Block, encodeBlock, itemBlockOf } from '../../src/collections/blocks.ts'
import {
  decodeItem,
  encodeRecord,
  Item,
  type ItemRecord,
  idInRecord,
  isTombstone,
  metadataOf,
  recordBytes,
  recordIn,
  recordOf,
} from '../../src/collections/item.ts'
import type { ItemId } from '../../src/events/event.ts'
import { HIGHEST } from '../../src/store/keys.ts'
import { Random, SEED } from '../support/random.ts'

const IDS: readonly ItemId[] = [0, -0, -7, 7.5, 1e21, HIGHEST, -HIGHEST, 2 ** 53 - 1, '', '7', 'ä', 'x'.repeat(300)]
const POSITIONS = [0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1, 2 ** 40, HIGHEST]
const TEXTS = ['{}', '{"a":"ä😀"}', `{"t":"${'x'.repeat(300)}"}`, '{"line":\n1}']

/** The records of some places of a block. */
function randomRecords(random: Random): (ItemRecord | undefined)[] {
  const first = random.pick([0, 1000, HIGHEST - 100])
  const isRegular = random.chance(0.5)
  return Array.from({ length: BLOCK_PLACES }, (_, offset) => {
    if (random.chance(0.2)) return undefined
    const id = random.chance(isRegular ? 0 : 0.5) ? random.pick(IDS) : first + offset
    const any = (regular: number): number => (isRegular ? regular : random.pick(POSITIONS))
    const position = any(first + offset)
    const item = new Item(id, { text: random.pick(TEXTS) }, any(1) % 2 ** 32, position)
    const prior = any(0)
    return recordOf(item, { since: any(position), prior: prior < position ? prior : 0, timeMs: any(1.7e12) })
  })
}

function newBlock(records: readonly (ItemRecord | undefined)[]): Block {
  return new Block(encodeBlock(records))
}

function checkBlock(block: Block, records: readonly (ItemRecord | undefined)[], context: string): void {
  for (const [offset, record] of records.entries()) {
    assert.equal(block.has(offset), record !== undefined, context)
    if (!record) continue
    const encoded = encodeRecord(record)
    assert.equal(encoded.length, recordBytes(record), context)
    assert.deepEqual(recordIn(encoded), record, context)
    assert.ok(block.recordAt(offset).equals(encoded), context)
    assert.deepEqual(block.itemAt(offset), decodeItem(encoded), context)
    assert.equal(block.positionAt(offset), record.position, context)
    const head = block.headAt(offset)
    assert.deepEqual(metadataOf(head), metadataOf(encoded), context)
    assert.ok(Object.is(idInRecord(head), record.id), context)
    assert.equal(isTombstone(head), false, context)
    assert.throws(() => decodeItem(head), { name: 'Corruption' }, context)
  }
  assert.equal(block.size, records.filter(Boolean).length, context)
}

test('a block has the records that it was made of, byte by byte, until they leave it', () => {
  for (let run = 0; run < 300; run++) {
    const context = `SEED=${SEED + run}`
    const random = new Random(SEED + run)
    const records = randomRecords(random)
    let block = newBlock(records)
    checkBlock(block, records, context)
    while (block.size > 0) {
      let left = 0
      for (let offset = 0; offset < BLOCK_PLACES; offset++) {
        if (!random.chance(0.2)) continue
        left |= 1 << offset
        records[offset] = undefined
      }
      const row = block.without(left)
      assert.equal(row === undefined, !records.some(Boolean), context)
      if (!row) break
      block = new Block(row)
      checkBlock(block, records, context)
    }
  }
})

test('a block is encoded again when half of its items have left', () => {
  const random = new Random(SEED)
  const records = Array.from({ length: BLOCK_PLACES }, (_, id) => {
    const text = JSON.stringify({ id, values: Array.from({ length: 20 }, () => random.next()) })
    return recordOf(new Item(id, { text }, 1, id + 1), { since: id + 1, prior: 0, timeMs: 0 })
  })
  const block = newBlock(records)
  assert.equal(block.without(0x7fff)?.length, block.row.length)
  const half = block.without(0xffff)?.length as number
  assert.ok(half < 0.7 * block.row.length, `${half} of ${block.row.length}`)
})

test('a block of which a bit has changed is not read, nor a part of one', () => {
  const block = newBlock(randomRecords(new Random(SEED)))
  for (let bit = 0; bit < 8 * block.row.length; bit++) {
    const damaged = Buffer.from(block.row)
    damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7))
    assert.throws(() => new Block(damaged), { name: 'Corruption' }, `bit ${bit}`)
  }
  for (let length = 0; length < block.row.length; length++) {
    const damaged = block.row.subarray(0, length)
    assert.throws(() => new Block(damaged), { name: 'Corruption' }, `${length} bytes`)
  }
})

test('a block has 32 places', () => {
  assert.deepEqual([0, 31, 32, 2 ** 40].map(itemBlockOf), [0, 0, 1, 2 ** 35])
})
