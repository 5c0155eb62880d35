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
import { NumberReader, putNumber, putSigned } from '../runtime/var-numbers.ts'
import { HIGHEST, positionOf } from '../store/keys.ts'
import { type Delta, DeltaEncoder, decodeDelta } from './deltas.ts'
import {
  encodeHead,
  encodeRecord,
  Item,
  type ItemHead,
  idBytesOf,
  idFrom,
  idInRecord,
  isAsciiIn,
  metadataOf,
  revisionOf,
  textAt,
} from './item.ts'

/** Places in a block. */
export const BLOCK_PLACES = 32
/** Highest number of bytes of the records in a block: all of its row is read and verified to read one. */
export const MOST_BLOCK_BYTES = 16 * 1024
/** Items that are no deltas, for collections with several kinds of items. Each text is compared with all of them. */
const MOST_BASES = 3
/** A text whose delta takes a larger part of it becomes a base. */
const GOOD_PART = 0.5
const AT = { crc: 0, held: 4, encoded: 8, flags: 12, columns: 14 } as const
const COLUMN = { id: 0, position: 1, since: 2, prior: 3, revision: 4, time: 5, base: 6, flags: 7 } as const
const TEXT_COLUMN = { textBytes: 8, deltaBytes: 9 } as const
/** The flag of ids behind the columns. */
const HAS_IDS = 1024
const FLAG = { ascii: 1, packed: 2 } as const
const NOTHING = Buffer.alloc(0)

/** The block of a place. */
export function itemBlockOf(place: number): number {
  return Math.floor(place / BLOCK_PLACES)
}

/** The records of the items of a block, by their places in it. */
export type Records = readonly (Buffer | undefined)[]

/** The row of a block that holds the items of these records, which were verified. */
export function encodeBlock(records: Records): Buffer {
  const ids = records.flatMap((record) => (record ? [idInRecord(record)] : []))
  const hasIds = !ids.every(fitsColumn)
  const integers = hasIds ? ids.map(() => 0) : (ids as number[])
  const [positions, sinces, priors, revisions, times] = newColumns()
  const [bases, flags, textBytes, deltaBytes] = newColumns()
  const texts = new TextDeltas(hasIds)
  let held = 0
  for (const [offset, record] of records.entries()) {
    if (!record) continue
    held |= 1 << offset
    const position = positionOf(record)
    const { since, prior, timeMs } = metadataOf(record)
    positions.push(position)
    sinces.push(position - since)
    priors.push(prior && position - prior)
    revisions.push(revisionOf(record))
    times.push(timeMs)
    const text = record.subarray(textAt(record))
    const { base, delta } = texts.encode(text, ids[bases.length] as ItemId)
    bases.push(base)
    flags.push((isAsciiIn(record) ? FLAG.ascii : 0) | (delta.isPacked ? FLAG.packed : 0))
    textBytes.push(text.length)
    deltaBytes.push(delta.bytes.length)
  }
  const bytes: number[] = []
  let regular = hasIds ? HAS_IDS : 0
  for (const [column, values] of [integers, positions, sinces, priors, revisions, times, bases, flags].entries())
    if (putColumn(bytes, values)) regular |= 1 << column
  const idParts = hasIds ? encodeIds(ids) : []
  const textColumns: number[] = []
  if (putColumn(textColumns, textBytes)) regular |= 1 << TEXT_COLUMN.textBytes
  if (putColumn(textColumns, deltaBytes)) regular |= 1 << TEXT_COLUMN.deltaBytes
  const header = Buffer.alloc(AT.columns)
  header.writeUInt32BE(held >>> 0, AT.held)
  header.writeUInt32BE(held >>> 0, AT.encoded)
  header.writeUInt16BE(regular, AT.flags)
  return withChecksum(
    Buffer.concat([header, Buffer.from(bytes), ...idParts, Buffer.from(textColumns), ...texts.deltas]),
  )
}

type Values = number[]

function newColumns(): [Values, Values, Values, Values, Values] {
  return [[], [], [], [], []]
}

/** Chooses the bases of the texts of a block. */
class TextDeltas {
  readonly deltas: Buffer[] = []
  readonly #hasIds: boolean
  readonly #bases: { readonly number: number; readonly text: Buffer; readonly encoder: DeltaEncoder }[] = []

  constructor(hasIds: boolean) {
    this.#hasIds = hasIds
  }

  encode(text: Buffer, id: ItemId): { readonly base: number; readonly delta: Delta } {
    const number = this.deltas.length
    let best: { readonly base: number; readonly delta: Delta } | undefined
    for (const base of this.#bases) {
      const encoder = this.#hasIds ? new DeltaEncoder(withId(base.text, id)) : base.encoder
      const delta = encoder.encode(text)
      if (!best || delta.bytes.length < best.delta.bytes.length) best = { base: base.number, delta }
    }
    if (!best || (best.delta.bytes.length > GOOD_PART * text.length && this.#bases.length < MOST_BASES)) {
      this.#bases.push({ number, text, encoder: new DeltaEncoder(text) })
      best = { base: number, delta: new DeltaEncoder(this.#hasIds ? withId(NOTHING, id) : NOTHING).encode(text) }
    }
    this.deltas.push(best.delta.bytes)
    return best
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

function encodeIds(ids: readonly ItemId[]): Buffer[] {
  const lengths: number[] = []
  const bytes = ids.map(idBytesOf)
  for (const [at, { length }] of bytes.entries()) putNumber(lengths, 2 * length + (typeof ids[at] === 'string' ? 1 : 0))
  return [Buffer.from(lengths), ...bytes]
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
  return { borders, areTexts: lengths.map((length) => length % 2 === 1) }
}

/** Returns whether the differences are equal. */
function putColumn(bytes: number[], values: readonly number[]): boolean {
  const [first = 0, second = first] = values
  const isRegular = values.every((value, at) => value - first === at * (second - first))
  const written = isRegular ? values.slice(0, 2) : values
  for (const [at, value] of written.entries()) putSigned(bytes, at === 0 ? value : value - (values[at - 1] as number))
  return isRegular
}

/** The values of a column. */
interface Column {
  readonly first: number
  readonly difference: number
  /** All of them, unless their differences are equal. */
  readonly values: readonly number[] | undefined
}

function readColumn(reader: NumberReader, count: number, isRegular: boolean): Column {
  const first = reader.nextSigned()
  if (isRegular) return { first, difference: count > 1 ? reader.nextSigned() : 0, values: undefined }
  const values = [first]
  for (let value = first; values.length < count; values.push(value)) value += reader.nextSigned()
  return { first, difference: 0, values }
}

function valueIn({ first, difference, values }: Column, index: number): number {
  return values ? (values[index] as number) : first + index * difference
}

/** Where the texts of a block are in its row. */
interface Texts {
  readonly bytes: Column
  /** Where the delta of each begins, and where the last one ends. */
  readonly borders: readonly number[]
}

/** A block that was read. */
export class Block {
  readonly row: Buffer
  readonly #held: number
  readonly #encoded: number
  readonly #flags: number
  readonly #columns: readonly Column[]
  /** Undefined if they are a column. */
  readonly #ids: Ids | undefined
  readonly #textsAt: number
  #texts: Texts | undefined
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
    this.#flags = row.readUInt16BE(AT.flags)
    const reader = new NumberReader(row, AT.columns)
    const columns: Column[] = []
    for (let column = 0; column <= COLUMN.flags; column++) columns.push(this.#readColumn(reader, column))
    this.#columns = columns
    this.#ids = this.#flags & HAS_IDS ? readIds(reader, countOf(this.#encoded)) : undefined
    this.#textsAt = this.#ids?.borders.at(-1) ?? reader.at
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
    return this.#value(COLUMN.position, this.#indexOf(offset))
  }

  /** The record of an item without its text and its CRC. */
  headAt(offset: number): Buffer {
    return encodeHead(this.#headAt(this.#indexOf(offset)))
  }

  recordAt(offset: number): Buffer {
    const index = this.#indexOf(offset)
    return encodeRecord(this.#headAt(index), this.#textAt(index), this.#isAscii(index))
  }

  itemAt(offset: number): Item {
    const index = this.#indexOf(offset)
    const { id, revision, position, timeMs } = this.#headAt(index)
    const text = this.#textAt(index).toString(this.#isAscii(index) ? 'latin1' : 'utf8')
    return new Item(id, { text }, revision, position, timeMs)
  }

  records(): (Buffer | undefined)[] {
    return Array.from({ length: BLOCK_PLACES }, (_, offset) => (this.has(offset) ? this.recordAt(offset) : undefined))
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

  #value(column: number, index: number): number {
    return valueIn(this.#columns[column] as Column, index)
  }

  #headAt(index: number): ItemHead {
    const position = this.#value(COLUMN.position, index)
    const prior = this.#value(COLUMN.prior, index)
    return {
      id: this.#idAt(index),
      position,
      since: position - this.#value(COLUMN.since, index),
      prior: prior && position - prior,
      revision: this.#value(COLUMN.revision, index),
      timeMs: this.#value(COLUMN.time, index),
    }
  }

  #idAt(index: number): ItemId {
    if (!this.#ids) return this.#value(COLUMN.id, index)
    const { borders, areTexts } = this.#ids
    return idFrom(this.row, borders[index] as number, borders[index + 1] as number, areTexts[index] as boolean)
  }

  #readColumn(reader: NumberReader, column: number): Column {
    return readColumn(reader, countOf(this.#encoded), (this.#flags & (1 << column)) !== 0)
  }

  /** Reading other properties of an item does not need them. */
  #readTexts(): Texts {
    const reader = new NumberReader(this.row, this.#textsAt)
    const bytes = this.#readColumn(reader, TEXT_COLUMN.textBytes)
    const deltaBytes = this.#readColumn(reader, TEXT_COLUMN.deltaBytes)
    const borders = [reader.at]
    const count = countOf(this.#encoded)
    for (let index = 0; index < count; index++) borders.push((borders[index] as number) + valueIn(deltaBytes, index))
    return { bytes, borders }
  }

  #isAscii(index: number): boolean {
    return (this.#value(COLUMN.flags, index) & FLAG.ascii) !== 0
  }

  #textAt(index: number): Buffer {
    const base = this.#value(COLUMN.base, index)
    if (base === index) return this.#decoded(index, NOTHING)
    this.#bases[base] ??= this.#decoded(base, NOTHING)
    return this.#decoded(index, this.#bases[base])
  }

  #decoded(index: number, base: Buffer): Buffer {
    this.#texts ??= this.#readTexts()
    const { bytes, borders } = this.#texts
    const delta = {
      from: borders[index] as number,
      to: borders[index + 1] as number,
      isPacked: (this.#value(COLUMN.flags, index) & FLAG.packed) !== 0,
    }
    const before = this.#ids ? withId(base, this.#idAt(index)) : base
    return decodeDelta(this.row, delta, before, valueIn(bytes, index))
  }
}

/** The number of bits that are set. */
function countOf(places: number): number {
  let count = 0
  for (let left = places; left !== 0; left &= left - 1) count++
  return count
}
