/*
 * Items that have not changed for a while share rows: those of 32 neighbouring places are a block. A place's item is in its
 * row or in its block, never in both. An item that changes or is removed leaves its block, which is encoded again when
 * half of its items have left.
 *
 * | Bytes | The row of a block |
 * |---|---|
 * | 4 | CRC-32 of the rest |
 * | 4 | the places whose items it holds: a bit for each, the lowest for the first place |
 * | 4 | the places whose items are encoded in it, also of those that have left |
 * | 2 | flags: a bit for each column whose values have equal differences, and HAS_IDS |
 * | … | columns: for each encoded item its id, position, position - since, position - prior or 0, revision, time, base, and flags (1: its text is ASCII, 2: its delta is packed) |
 * | … | with HAS_IDS: for each id its bytes, times 2, plus 1 if it is a text; then the ids |
 * | … | columns: bytes of its text, bytes of its delta |
 * | … | the deltas of the texts (deltas.ts) |
 *
 * A column is its first value and the differences from each to the next, or only one if they are equal, as signed numbers
 * (var-numbers.ts). Ids are 0 in their column if one of them is no integer up to 2 ** 48.
 *
 * The base of an item is an earlier one, by its number among the encoded ones, or itself: then it has none. With HAS_IDS,
 * the id of the item stands behind the text of the base, as it is in the text, too.
 */

import { crc32 } from 'node:zlib'
import type { ItemId } from '../events/event.ts'
import { Corruption } from '../runtime/errors.ts'
import { MOST_NUMBER_BYTES, NumberReader, NumberWriter } from '../runtime/var-numbers.ts'
import { HIGHEST } from '../store/keys.ts'
import { Columns, putColumn } from './columns.ts'
import { type Delta, DeltaBase, DeltaWriter, decodeDelta, NO_BASE } from './deltas.ts'
import { encodeHead, encodeRecord, Item, type ItemHead, type ItemRecord, idBytesOf, idFrom } from './item.ts'

/** Places in a block. */
export const BLOCK_PLACES = 32
/** Highest number of bytes of the records in a block: all of its row is read and verified to read one. */
export const MOST_BLOCK_BYTES = 16 * 1024
/** Items that are no deltas, for collections with several kinds of items. Each text is compared with all of them. */
const MOST_BASES = 3
/** A text whose delta takes a larger part of it becomes a base. */
const GOOD_PART = 0.5
const AT = { crc: 0, held: 4, encoded: 8, flags: 12, columns: 14 } as const
const COLUMN = {
  id: 0,
  position: 1,
  since: 2,
  prior: 3,
  revision: 4,
  time: 5,
  base: 6,
  flags: 7,
  textBytes: 8,
  deltaBytes: 9,
} as const
const COLUMNS = Object.keys(COLUMN).length
/** The flag of ids behind the columns. */
const HAS_IDS = 1024
const FLAG = { ascii: 1, packed: 2 } as const
const NOTHING = Buffer.alloc(0)

/** The block of a place. */
export function itemBlockOf(place: number): number {
  return Math.floor(place / BLOCK_PLACES)
}

/** The items of a block, by their places in it. */
export type Records = readonly (ItemRecord | undefined)[]

/** The row of a block that holds these items. */
export function encodeBlock(records: Records): Buffer {
  const items: ItemRecord[] = []
  let held = 0
  for (const [offset, record] of records.entries()) {
    if (!record) continue
    items.push(record)
    held |= 1 << offset
  }
  const hasIds = !items.every(({ id }) => fitsColumn(id))
  const texts = new TextDeltas(items, hasIds)
  const ids = hasIds ? items.map(({ id }) => idBytesOf(id)) : []
  const idBytes = ids.reduce((sum, { length }) => sum + length, 0)
  const most = AT.columns + MOST_NUMBER_BYTES * (COLUMNS + 1) * items.length + idBytes + texts.bytes.length
  const writer = new NumberWriter(Buffer.allocUnsafe(most), AT.columns)
  let flags = hasIds ? HAS_IDS : 0
  const put = (column: number, values: readonly number[]): void => {
    if (putColumn(writer, values)) flags |= 1 << column
  }
  const putEach = (column: number, valueIn: (item: ItemRecord) => number): void => put(column, items.map(valueIn))
  putEach(COLUMN.id, ({ id }) => (hasIds ? 0 : (id as number)))
  putEach(COLUMN.position, ({ position }) => position)
  putEach(COLUMN.since, ({ position, since }) => position - since)
  putEach(COLUMN.prior, ({ position, prior }) => prior && position - prior)
  putEach(COLUMN.revision, ({ revision }) => revision)
  putEach(COLUMN.time, ({ timeMs }) => timeMs)
  put(COLUMN.base, texts.bases)
  put(COLUMN.flags, texts.flags)
  for (const [at, { length }] of ids.entries()) writer.put(2 * length + (typeof items[at]?.id === 'string' ? 1 : 0))
  for (const id of ids) writer.putBytes(id)
  putEach(COLUMN.textBytes, ({ text }) => text.length)
  put(COLUMN.deltaBytes, texts.lengths)
  writer.putBytes(texts.bytes)
  const row = writer.written
  row.writeUInt32BE(held >>> 0, AT.held)
  row.writeUInt32BE(held >>> 0, AT.encoded)
  row.writeUInt16BE(flags, AT.flags)
  return withChecksum(row)
}

/** The deltas of the texts of a block, one behind the other, and the columns about them. */
class TextDeltas {
  readonly bases: number[] = []
  readonly flags: number[] = []
  readonly lengths: number[] = []
  readonly #hasIds: boolean
  readonly #writer: DeltaWriter
  /** The texts that are bases, by their numbers. */
  readonly #texts = new Map<number, DeltaBase>()

  constructor(items: readonly ItemRecord[], hasIds: boolean) {
    this.#hasIds = hasIds
    this.#writer = new DeltaWriter(items.map(({ text }) => text.length))
    for (const item of items) this.#append(item)
  }

  get bytes(): Buffer {
    return this.#writer.written
  }

  #append({ id, text, isAscii }: ItemRecord): void {
    const writer = this.#writer
    let best: { readonly base: number; readonly delta: Delta } | undefined
    for (const [base, one] of this.#texts) {
      const delta = writer.append(text, this.#hasIds ? new DeltaBase(withId(one.bytes, id)) : one)
      if (best && best.delta.bytes <= delta.bytes) writer.remove(delta.bytes)
      else {
        if (best) writer.remove(best.delta.bytes, delta.bytes)
        best = { base, delta }
      }
    }
    if (!best || (best.delta.bytes > GOOD_PART * text.length && this.#texts.size < MOST_BASES)) {
      if (best) writer.remove(best.delta.bytes)
      const base = this.bases.length
      this.#texts.set(base, new DeltaBase(text))
      best = { base, delta: writer.append(text, this.#hasIds ? new DeltaBase(idBytesOf(id)) : NO_BASE) }
    }
    const { base, delta } = best
    this.bases.push(base)
    this.flags.push((isAscii ? FLAG.ascii : 0) | (delta.isPacked ? FLAG.packed : 0))
    this.lengths.push(delta.bytes)
  }
}

function withId(base: Buffer, id: ItemId): Buffer {
  return Buffer.concat([base, idBytesOf(id)])
}

function withChecksum(row: Buffer): Buffer {
  row.writeUInt32BE(crc32(row.subarray(AT.held)), AT.crc)
  return row
}

function fitsColumn(id: ItemId): boolean {
  return Number.isInteger(id) && Math.abs(id as number) <= HIGHEST && !Object.is(id, -0)
}

/** Where the ids are that are no column. */
interface Ids {
  /** Where each begins, and where the last one ends. */
  readonly borders: readonly number[]
  readonly areTexts: readonly boolean[]
}

function readIds(reader: NumberReader, count: number): Ids {
  const lengths: number[] = []
  while (lengths.length < count) lengths.push(reader.next())
  const borders = [reader.at]
  for (const length of lengths) borders.push((borders.at(-1) as number) + Math.floor(length / 2))
  reader.at = borders.at(-1) as number
  return { borders, areTexts: lengths.map((length) => length % 2 === 1) }
}

/** A block that was read. */
export class Block {
  readonly row: Buffer
  readonly #held: number
  readonly #encoded: number
  readonly #columns: Columns
  /** Undefined if they are a column. */
  readonly #ids: Ids | undefined
  /** Where the deltas of the texts begin. */
  readonly #deltasAt: number
  /** Where the delta of each text begins behind the first one, and where the last one ends. */
  #borders: readonly number[] | undefined
  /** Texts of bases that were read. */
  readonly #bases: Buffer[] = []

  /** @throws {Corruption} */
  constructor(row: Buffer) {
    this.row = row
    if (row.length <= AT.columns || row.readUInt32BE(AT.crc) !== crc32(row.subarray(AT.held))) {
      throw new Corruption('The store holds a damaged block of items.')
    }
    this.#held = row.readUInt32BE(AT.held)
    this.#encoded = row.readUInt32BE(AT.encoded)
    const flags = row.readUInt16BE(AT.flags)
    const count = countOf(this.#encoded)
    const reader = new NumberReader(row, AT.columns)
    this.#columns = new Columns(row, count, flags)
    this.#columns.pass(reader, COLUMN.textBytes)
    if (flags & HAS_IDS) this.#ids = readIds(reader, count)
    this.#columns.pass(reader, COLUMNS)
    this.#deltasAt = reader.at
  }

  /** Whether it holds the item of a place in it. */
  has(offset: number): boolean {
    return (this.#held & (1 << offset)) !== 0
  }

  /** The number of items that it holds. */
  get size(): number {
    return countOf(this.#held)
  }

  positionAt(offset: number): number {
    return this.#columns.value(COLUMN.position, this.#indexOf(offset))
  }

  /** The record of an item without its text and its CRC. */
  headAt(offset: number): Buffer {
    return encodeHead(this.#headAt(this.#indexOf(offset)))
  }

  recordAt(offset: number): Buffer {
    return encodeRecord(this.#recordAt(offset))
  }

  itemAt(offset: number): Item {
    const index = this.#indexOf(offset)
    const text = this.#textAt(index).toString(this.#isAscii(index) ? 'latin1' : 'utf8')
    const revision = this.#columns.value(COLUMN.revision, index)
    const position = this.#columns.value(COLUMN.position, index)
    return new Item(this.#idAt(index), { text }, revision, position, this.#columns.value(COLUMN.time, index))
  }

  records(): (ItemRecord | undefined)[] {
    return Array.from({ length: BLOCK_PLACES }, (_, offset) => (this.has(offset) ? this.#recordAt(offset) : undefined))
  }

  /** The row without the items of some places, a bit for each; undefined if no other is left. */
  without(left: number): Buffer | undefined {
    const held = this.#held & ~left
    if (held === 0) return undefined
    if (2 * countOf(held) <= countOf(this.#encoded))
      return encodeBlock(this.records().map((record, offset) => ((left & (1 << offset)) === 0 ? record : undefined)))
    const row = Buffer.from(this.row)
    row.writeUInt32BE(held >>> 0, AT.held)
    return withChecksum(row)
  }

  #indexOf(offset: number): number {
    return countOf(this.#encoded & ((1 << offset) - 1))
  }

  #recordAt(offset: number): ItemRecord {
    const index = this.#indexOf(offset)
    return { ...this.#headAt(index), text: this.#textAt(index), isAscii: this.#isAscii(index) }
  }

  #headAt(index: number): ItemHead {
    const columns = this.#columns
    const position = columns.value(COLUMN.position, index)
    const prior = columns.value(COLUMN.prior, index)
    return {
      id: this.#idAt(index),
      position,
      since: position - columns.value(COLUMN.since, index),
      prior: prior && position - prior,
      revision: columns.value(COLUMN.revision, index),
      timeMs: columns.value(COLUMN.time, index),
    }
  }

  #idAt(index: number): ItemId {
    if (!this.#ids) return this.#columns.value(COLUMN.id, index)
    const { borders, areTexts } = this.#ids
    return idFrom(this.row, borders[index] as number, borders[index + 1] as number, areTexts[index] as boolean)
  }

  #isAscii(index: number): boolean {
    return (this.#columns.value(COLUMN.flags, index) & FLAG.ascii) !== 0
  }

  #textAt(index: number): Buffer {
    const base = this.#columns.value(COLUMN.base, index)
    if (base === index) return this.#decoded(index, NOTHING)
    this.#bases[base] ??= this.#decoded(base, NOTHING)
    return this.#decoded(index, this.#bases[base])
  }

  #decoded(index: number, base: Buffer): Buffer {
    const columns = this.#columns
    this.#borders ??= columns.sums(COLUMN.deltaBytes)
    const delta = {
      from: this.#deltasAt + (this.#borders[index] as number),
      to: this.#deltasAt + (this.#borders[index + 1] as number),
      isPacked: (columns.value(COLUMN.flags, index) & FLAG.packed) !== 0,
    }
    const before = this.#ids ? withId(base, this.#idAt(index)) : base
    return decodeDelta(this.row, delta, before, columns.value(COLUMN.textBytes, index))
  }
}

/** The number of bits that are set. */
function countOf(places: number): number {
  const pairs = places - ((places >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
