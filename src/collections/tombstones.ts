/*
 * Deleted items leave tombstones: their revisions continue, and earlier states are found by them. Those of neighbouring
 * places share a row, as a row takes more room than a tombstone. Those with long ids are records at their places.
 *
 * | Bytes | The row of a block of places |
 * |---|---|
 * | 6 | since which position the row has this content |
 * | 4 | CRC-32 of the rest, begun with the position |
 * | 6 | the base: an integer id that is the sum of the base and its place in the block takes no bytes |
 * | … | a tombstone for each deleted place, in the order of their deletion |
 *
 * | Bytes | A tombstone; its numbers are those of var-numbers.ts |
 * |---|---|
 * | 1 | its place in the block, and flags |
 * | 1 to 7 | the position of the deletion |
 * | 1 to 7 | the position of the event before |
 * | 1 to 5 | the revision |
 * | 0 to 7 | since which position it stands at this place, if not since the event before |
 * | … | another id: a number has 8 bytes, a text its length (1 byte) and its bytes |
 */

import { crc32 } from 'node:zlib'
import type { ItemId, Position } from '../events/event.ts'
import { Corruption } from '../runtime/errors.ts'
import { MOST_NUMBER_BYTES, NumberReader, NumberWriter } from '../runtime/var-numbers.ts'
import { HIGHEST, positionOf, putPosition, type ScratchBytes } from '../store/keys.ts'
import { idBytesOf, idFrom, type TombstoneAt } from './item.ts'

/** Places in a block: with more, a deletion changes a longer row. */
const BLOCK = 32
/** Longer ids have a record of their own. UUIDs take 36 bytes. */
const MOST_ID_BYTES = 40
const AT = { crc: 6, base: 10, tombstones: 16 } as const
/** The lower bits are the place in the block. */
const FLAG = { since: 32, numberId: 64, textId: 128 } as const
const NUMBER_BYTES = 8
const NOTHING = Buffer.alloc(0)

export const NO_TOMBSTONES: ReadonlyMap<number, TombstoneAt> = new Map()

/** The block of a place. */
export function tombstoneBlockOf(place: number): number {
  return Math.floor(place / BLOCK)
}

/** Whether the tombstone of this id shares a row with others. */
export function sharesRow(id: ItemId): boolean {
  return typeof id === 'number' || Buffer.byteLength(id) <= MOST_ID_BYTES
}

/** The row with more tombstones, by their places; `at` is the position of the event that adds the last. @throws {Corruption} */
export function withTombstones(
  row: ScratchBytes | undefined,
  tombstones: ReadonlyMap<number, TombstoneAt>,
  at: Position,
): Buffer {
  const parts: Buffer[] = [row ? Buffer.from(verified(row) as Buffer) : Buffer.alloc(AT.tombstones)]
  let base = row && positionOf(row, AT.base)
  for (const [place, { id, position, prior, revision, since }] of tombstones) {
    const offset = place % BLOCK
    base ??= baseFor(id, offset)
    const idBytes = Object.is(id, base + offset) ? NOTHING : bytesOf(id)
    const idFlag = idBytes === NOTHING ? 0 : typeof id === 'number' ? FLAG.numberId : FLAG.textId
    const numbers = new NumberWriter(Buffer.allocUnsafe(1 + 4 * MOST_NUMBER_BYTES), 1)
    numbers.bytes[0] = offset | idFlag | (since === prior ? 0 : FLAG.since)
    for (const number of [position, prior, revision]) numbers.put(number)
    if (since !== prior) numbers.put(since)
    parts.push(numbers.written, idBytes)
  }
  const bytes = Buffer.concat(parts)
  putPosition(bytes, 0, at)
  putPosition(bytes, AT.base, base ?? 0)
  bytes.writeUInt32BE(checksum(bytes), AT.crc)
  return bytes
}

/** The tombstones of a block by their places. @throws {Corruption} */
export function tombstonesIn(row: ScratchBytes, block: number): ReadonlyMap<number, TombstoneAt> {
  const bytes = Buffer.from(verified(row) as Buffer)
  const base = positionOf(bytes, AT.base)
  const found = new Map<number, TombstoneAt>()
  const numbers = new NumberReader(bytes, AT.tombstones)
  while (!numbers.isAtEnd) {
    const first = bytes[numbers.at++] as number
    const offset = first % BLOCK
    const [position, prior, revision] = [numbers.next(), numbers.next(), numbers.next()]
    const since = first & FLAG.since ? numbers.next() : prior
    let id: ItemId = base + offset
    if (first & (FLAG.numberId | FLAG.textId)) {
      const isText = (first & FLAG.textId) !== 0
      const length = isText ? (bytes[numbers.at++] as number) : NUMBER_BYTES
      id = idFrom(bytes, numbers.at, numbers.at + length, isText)
      numbers.at += length
    }
    found.set(block * BLOCK + offset, { id, position, prior, revision, since })
  }
  return found
}

/** The ids of POST are consecutive, like the places. */
function baseFor(id: ItemId, offset: number): number {
  const base = typeof id === 'number' ? id - offset : 0
  return Number.isSafeInteger(base) && base >= 0 && base <= HIGHEST ? base : 0
}

function bytesOf(id: ItemId): Buffer {
  const bytes = idBytesOf(id)
  return typeof id === 'string' ? Buffer.concat([Buffer.from([bytes.length]), bytes]) : bytes
}

function verified(row: ScratchBytes): ScratchBytes {
  if (row.length < AT.tombstones || row.readUInt32BE(AT.crc) !== checksum(row)) {
    throw new Corruption(`The store has damaged tombstones, as of position ${positionOf(row)}.`)
  }
  return row
}

function checksum(row: ScratchBytes): number {
  return crc32((row as Buffer).subarray(AT.base, row.length), positionOf(row) >>> 0)
}
