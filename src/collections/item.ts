import { crc32 } from 'node:zlib'
import type { ItemId, Position } from '../events/event.ts'
import type { Document } from '../json/document.ts'
import { parseText } from '../json/parse.ts'
import { tagOf } from '../json/tag.ts'
import { isWellFormed, type JsonObject, type JsonValue } from '../json/value.ts'
import { Corruption } from '../runtime/errors.ts'
import { positionOf, putPosition, type ScratchBytes } from '../store/keys.ts'

/** An item at one revision. Immutable. */
export class Item {
  readonly id: ItemId
  /** The item as JSON. */
  readonly text: string
  readonly revision: number
  /** Position of its last event. */
  readonly position: Position
  /** When its last event happened, in milliseconds since 1970; 0 unless it was read from the store or the journal. */
  readonly timeMs: number
  #tag: string | undefined

  constructor(id: ItemId, { text }: Pick<Document, 'text'>, revision: number, position: Position, timeMs = 0) {
    this.id = id
    this.text = text
    this.revision = revision
    this.position = position
    this.timeMs = timeMs
  }

  /** The id as text. Computed on each access for a number. */
  get key(): string {
    return keyOf(this.id)
  }

  /** Parsed on each access. */
  get value(): JsonObject {
    return parseText(this.text) as JsonObject
  }

  /** The entity tag (RFC 9110 §8.8.3), with quotes: equal data has an equal tag, also after a restart. */
  get tag(): string {
    this.#tag ??= tagOf(this.text)
    return this.#tag
  }
}

/** The remains of a deleted item. */
export interface Tombstone {
  readonly revision: number
  readonly position: Position
}

/** A tombstone with all that the record of an item has besides its data. */
export interface TombstoneAt extends Tombstone {
  readonly id: ItemId
  /** The position of the event before the deletion. */
  readonly prior: Position
  /** The position since which it has its place. */
  readonly since: Position
}

export function isItem(entry: Item | Tombstone | undefined): entry is Item {
  return entry instanceof Item
}

export function keyOf(id: ItemId): string {
  return String(id)
}

/** The highest id that clients may choose, since POST counts on from the highest integer. */
export const HIGHEST_ID = 2 ** 52

/** The integer that a key spells canonically: `7`, not `07` or `7.0`. Undefined beyond HIGHEST_ID. */
export function canonicalInteger(key: string): number | undefined {
  const integer = /^(0|[1-9]\d{0,15})$/.test(key) ? Number(key) : undefined
  return integer !== undefined && integer <= HIGHEST_ID ? integer : undefined
}

export function isKeyOf(key: string, id: ItemId): boolean {
  return typeof id === 'string' ? id === key : id === canonicalInteger(key) || key === keyOf(id)
}

/** The integer that an id is, or spells, beyond which the next ids are assigned. POST may assign ones beyond HIGHEST_ID. */
export function integerOf(id: ItemId): number | undefined {
  if (typeof id === 'string') return canonicalInteger(id)
  return Number.isSafeInteger(id) && id >= 0 ? id : undefined
}

/** The least next id after this one: the integer above it, or 0 for other texts. */
export function integerAfter(id: ItemId): number {
  return (integerOf(id) ?? -1) + 1
}

/** The error of an id; undefined if it is valid. */
export function faultOfId(id: JsonValue, highest = HIGHEST_ID): string | undefined {
  if (typeof id === 'number') {
    return Math.abs(id) > highest ? `an integer id may be at most ${highest}` : undefined
  }
  if (typeof id !== 'string') return 'an id must be text or a number'
  return faultOfName(id, 'an id')
}

/** The error of a text id or a collection's name; undefined if it is valid. */
export function faultOfName(name: string, what: string): string | undefined {
  if (name === '') return `${what} must not be empty`
  return isWellFormed(name) ? undefined : `${what} must not hold a lone surrogate`
}

/**
 * The record of an item, existing or deleted, at its place:
 *
 * | Bytes | |
 * |---|---|
 * | 6 | the position of its last event |
 * | 4 | CRC-32 of the rest, begun with the position |
 * | 6 | since which position it stands at this place |
 * | 6 | the position of its event before, 0 for none |
 * | 6 | when its last event happened, in milliseconds since 1970; not read for a deleted item |
 * | 4 | its revision |
 * | 1 | flags |
 * | 4 | bytes of the id; a number has 8 |
 * | … | the id, then the item as JSON |
 */
const AT = {
  position: 0,
  crc: 6,
  since: 10,
  prior: 16,
  time: 22,
  revision: 28,
  flags: 32,
  idBytes: 33,
  id: 37,
} as const
/** The minimum length of a record. */
export const RECORD_BYTES = AT.id
const FLAG = { tombstone: 1, textId: 2, ascii: 4 } as const
const NUMBER_BYTES = 8

export interface EventMetadata {
  /** The position of the previous event, 0 if there is none. */
  readonly prior: Position
  /** Milliseconds since 1970. */
  readonly timeMs: number
}

interface RecordMetadata extends EventMetadata {
  /** The position since which the item has its place. */
  readonly since: Position
}

/** All that the record of an item has besides its text. */
export interface ItemHead extends RecordMetadata {
  readonly id: ItemId
  readonly position: Position
  readonly revision: number
}

/** The contents of the record of an item. */
export interface ItemRecord extends ItemHead {
  /** The item as JSON. */
  readonly text: Buffer
  /** Whether the text has one byte for each character. */
  readonly isAscii: boolean
}

export function recordOf(item: Item, { since, prior, timeMs }: RecordMetadata): ItemRecord {
  const { id, position, revision } = item
  const text = Buffer.from(item.text)
  return { id, position, since, prior, revision, timeMs, text, isAscii: text.length === item.text.length }
}

/** The contents of an encoded record of an item, which was verified. Its text is not copied. */
export function recordIn(record: Buffer): ItemRecord {
  const { since, prior, timeMs } = metadataOf(record)
  return {
    id: idInRecord(record),
    position: positionOf(record),
    since,
    prior,
    revision: revisionOf(record),
    timeMs,
    text: record.subarray(textAt(record)),
    isAscii: isAsciiIn(record),
  }
}

/** The length of an encoded record. */
export function recordBytes({ id, text }: ItemRecord): number {
  return AT.id + idLength(id) + text.length
}

export function encodeTombstone({ id, position, revision, since, prior }: TombstoneAt): Buffer {
  return withHeader(newRecord(id, 0, FLAG.tombstone), position, revision, { since, prior, timeMs: 0 })
}

export function encodeRecord(item: ItemRecord): Buffer {
  const { text, isAscii } = item
  const record = newRecord(item.id, text.length, isAscii ? FLAG.ascii : 0)
  text.copy(record, record.length - text.length)
  return withHeader(record, item.position, item.revision, item)
}

/** The beginning of a record, up to its text, without a CRC: it cannot be decoded. */
export function encodeHead(head: ItemHead): Buffer {
  const record = newRecord(head.id, 0, 0)
  putHeader(record, head.position, head.revision, head)
  record.writeUInt32BE(0, AT.crc)
  return record
}

/** @throws {Corruption} */
export function decodeTombstone(record: ScratchBytes): TombstoneAt {
  const { since, prior } = metadataOf(record)
  return { ...(decodeItem(record) as Tombstone), id: idInRecord(record), since, prior }
}

function newRecord(id: ItemId, textBytes: number, flags: number): Buffer {
  const isText = typeof id === 'string'
  const idBytes = idLength(id)
  const record = Buffer.allocUnsafe(AT.id + idBytes + textBytes)
  record[AT.flags] = flags | (isText ? FLAG.textId : 0)
  record.writeUInt32BE(idBytes, AT.idBytes)
  if (isText) record.write(id, AT.id)
  else record.writeDoubleBE(id, AT.id)
  return record
}

function idLength(id: ItemId): number {
  return typeof id === 'string' ? Buffer.byteLength(id) : NUMBER_BYTES
}

function withHeader(record: Buffer, position: Position, revision: number, metadata: RecordMetadata): Buffer {
  putHeader(record, position, revision, metadata)
  record.writeUInt32BE(checksum(record), AT.crc)
  return record
}

function putHeader(
  record: Buffer,
  position: Position,
  revision: number,
  { since, prior, timeMs }: RecordMetadata,
): void {
  putPosition(record, AT.position, position)
  putPosition(record, AT.since, since)
  putPosition(record, AT.prior, prior)
  putPosition(record, AT.time, timeMs)
  record.writeUInt32BE(revision, AT.revision)
}

function checksum(record: ScratchBytes): number {
  return crc32((record as Buffer).subarray(AT.since, record.length), positionOf(record) >>> 0)
}

/** @throws {Corruption} */
export function verifyRecord(record: ScratchBytes): void {
  if (record.length >= RECORD_BYTES && record.readUInt32BE(AT.crc) === checksum(record)) return
  throw new Corruption(`The store holds a damaged item, as of position ${positionOf(record)}.`)
}

/** @throws {Corruption} */
export function decodeItem(record: ScratchBytes): Item | Tombstone {
  const { length } = record
  verifyRecord(record)
  const position = positionOf(record, AT.position)
  const revision = revisionOf(record)
  const flags = record[AT.flags] as number
  if (flags & FLAG.tombstone) return { revision, position }
  const from = textAt(record)
  const text = isAsciiIn(record) ? record.toString('latin1', from, length) : record.toString('utf8', from, length)
  return new Item(idInRecord(record), { text }, revision, position, positionOf(record, AT.time))
}

export function isTombstone(record: ScratchBytes): boolean {
  return ((record[AT.flags] as number) & FLAG.tombstone) !== 0
}

export function idInRecord(record: ScratchBytes): ItemId {
  return idFrom(record, AT.id, textAt(record), ((record[AT.flags] as number) & FLAG.textId) !== 0)
}

function revisionOf(record: ScratchBytes): number {
  return record.readUInt32BE(AT.revision)
}

function isAsciiIn(record: ScratchBytes): boolean {
  return ((record[AT.flags] as number) & FLAG.ascii) !== 0
}

/** The bytes of an id, as `idFrom` reads them. */
export function idBytesOf(id: ItemId): Buffer {
  if (typeof id === 'string') return Buffer.from(id)
  const bytes = Buffer.allocUnsafe(NUMBER_BYTES)
  bytes.writeDoubleBE(id)
  return bytes
}

export function idFrom(bytes: ScratchBytes, from: number, to: number, isText: boolean): ItemId {
  return isText ? bytes.toString('utf8', from, to) : bytes.readDoubleBE(from)
}

export function metadataOf(record: ScratchBytes): RecordMetadata {
  return {
    since: positionOf(record, AT.since),
    prior: positionOf(record, AT.prior),
    timeMs: positionOf(record, AT.time),
  }
}

/** Whether two valid records say the same. Those of deleted items may have the time, which earlier versions stored. */
export function isSameRecord(one: Buffer, other: Buffer): boolean {
  const [first, second] = isTombstone(one) && isTombstone(other) ? [withoutTime(one), withoutTime(other)] : [one, other]
  return first.equals(second)
}

function withoutTime(record: Buffer): Buffer {
  const copy = Buffer.from(record)
  putPosition(copy, AT.time, 0)
  // The time is in the CRC, too.
  copy.writeUInt32BE(0, AT.crc)
  return copy
}

/** Where the text of an item begins. */
function textAt(record: ScratchBytes): number {
  return AT.id + record.readUInt32BE(AT.idBytes)
}
