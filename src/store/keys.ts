/*
 * The keys of the store's rows. All begin with a tag (1 byte) and the number of a table (4 bytes), except those of versions.
 *
 * | Function | After tag and table |
 * |---|---|
 * | `tableKey` | nothing: the prefix of a table, or its single row |
 * | `numberedKey` | a number (6 bytes) |
 * | `keyedKey` | a key of an item, by id or natural: 0 and an integer (6 bytes), or 1 (its text) or 2 (its hash), the length (2 bytes), the bytes |
 * | `tombstonesKey` | 3 and the number of a block of places (6 bytes), with the tag of places |
 * | `leastTimeKey` | 4 and the number of a block of places (6 bytes), with the tag of places |
 * | `expiryKey` | 6 and the position of an expiry (6 bytes), with the tag of places |
 * | `blockKey` | 7 and the number of a block of items (6 bytes), with the tag of places |
 * | `expiredIdsKey` | 5 and the number of a block of ids (6 bytes), with the tag of earlier events |
 *
 * The rows of earlier events (`itemEventKey`) have a position (6 bytes) after a `keyedKey`, those of times (history.ts) one
 * after a `numberedKey`, those of an Idempotency-Key (idempotency-keys.ts) its SHA-256 after a `tableKey`.
 * A `versionKey` is a tag, the length (2 bytes) and the bytes of another row's key, and a position (6 bytes).
 * All numbers are big-endian, so that keys sort like them.
 */

import { hash } from 'node:crypto'
import type { Position } from '../events/event.ts'

export interface Row {
  readonly key: Buffer
  readonly value: Buffer
}

export interface RowsOptions {
  readonly limit?: number
  /** Stops after so many bytes of values. */
  readonly bytes?: number
  readonly reverse?: boolean
}

/**
 * Bytes in the buffer of the store, which its next read overwrites. They are no Buffer, so that they cannot be kept
 * without a copy (`Buffer.from`): copying each value makes a page take 6 % longer, and a scan of all items a quarter.
 */
export type ScratchBytes = ArrayLike<number> &
  Pick<Buffer, 'toString' | 'copy' | 'readUInt16BE' | 'readUInt32BE' | 'readDoubleBE'>

/** The kind of a row: the first byte of its key. Items sort last, as LMDB fills pages only at the end of all keys. */
export const TAG = {
  time: 0,
  state: 1,
  collection: 2,
  naturalKey: 3,
  place: 4,
  gaps: 5,
  itemEvent: 6,
  life: 7,
  request: 8,
  requestTime: 9,
  segment: 10,
  record: 11,
  mergedEdit: 12,
  version: 13,
  index: 14,
  tree: 15,
  node: 16,
  changed: 17,
  item: 18,
} as const
export type Tag = (typeof TAG)[keyof typeof TAG]

/** Tag and table. */
export const PREFIX_BYTES = 5
/** A longer id is replaced by its hash. */
const MOST_ID_BYTES = 256
const KIND = {
  integer: 0,
  text: 1,
  hashed: 2,
  tombstones: 3,
  leastTime: 4,
  expiredIds: 5,
  expiry: 6,
  block: 7,
} as const
/** Before a text: its kind and its length. */
const KIND_BYTES = 3
/** Before the key inside a version's key: its tag and its length. */
const VERSION_BYTES = 3

/** Size of a position, or of another integer below 2 ** 48. */
export const POSITION_BYTES = 6
/** Greater than or equal to all positions and places. */
export const HIGHEST = 2 ** 48 - 1

export function tableKey(tag: Tag, table: number): Buffer {
  return newKey(tag, table, 0)
}

/** The key of a row that has a number in a table. */
export function numberedKey(tag: Tag, table: number, number: number): Buffer {
  const key = newKey(tag, table, POSITION_BYTES)
  putPosition(key, PREFIX_BYTES, number)
  return key
}

/** The key of a row that belongs to an item's key. No such key is a prefix of another. */
export function keyedKey(tag: Tag, table: number, key: string): Buffer {
  const integer = shortInteger(key)
  if (integer >= 0) return kindKey(tag, table, KIND.integer, integer)
  const isLong = key.length > MOST_ID_BYTES || Buffer.byteLength(key) > MOST_ID_BYTES
  const id = isLong ? hash('sha256', key, 'buffer') : Buffer.from(key)
  const row = newKey(tag, table, KIND_BYTES + id.length)
  row[PREFIX_BYTES] = isLong ? KIND.hashed : KIND.text
  row.writeUInt16BE(id.length, PREFIX_BYTES + 1)
  id.copy(row, PREFIX_BYTES + KIND_BYTES)
  return row
}

/** The key of an earlier event of an item; `collection` is its number. */
export function itemEventKey(collection: number, key: string, position: Position): Buffer {
  const prefix = keyedKey(TAG.itemEvent, collection, key)
  const event = Buffer.allocUnsafe(prefix.length + POSITION_BYTES)
  prefix.copy(event)
  putPosition(event, prefix.length, position)
  return event
}

/** The key of the tombstones of a block of places, after all keys of items in the table. */
export function tombstonesKey(table: number, block: number): Buffer {
  return kindKey(TAG.place, table, KIND.tombstones, block)
}

/** The key of the least time of the items in a block of places, after all keys of tombstones in the table. */
export function leastTimeKey(table: number, block: number): Buffer {
  return kindKey(TAG.place, table, KIND.leastTime, block)
}

/** The key of an expiry of items of a table, after all keys of least times. */
export function expiryKey(table: number, position: Position): Buffer {
  return kindKey(TAG.place, table, KIND.expiry, position)
}

/** The key of a block of items, after all keys of expiries of the table. */
export function blockKey(table: number, block: number): Buffer {
  return kindKey(TAG.place, table, KIND.block, block)
}

/** The key of the expired ones of a block of integer ids, after all keys of earlier events of the collection. */
export function expiredIdsKey(collection: number, block: number): Buffer {
  return kindKey(TAG.itemEvent, collection, KIND.expiredIds, block)
}

function kindKey(tag: Tag, table: number, kind: number, number: number): Buffer {
  const key = newKey(tag, table, 1 + POSITION_BYTES)
  key[PREFIX_BYTES] = kind
  putPosition(key, PREFIX_BYTES + 1, number)
  return key
}

/** The key of an old version of a row, which was valid from a position on. No such key is a prefix of another. */
export function versionKey(key: Buffer, since: Position): Buffer {
  const version = Buffer.allocUnsafe(VERSION_BYTES + key.length + POSITION_BYTES)
  version[0] = TAG.version
  version.writeUInt16BE(key.length, 1)
  key.copy(version, VERSION_BYTES)
  putPosition(version, VERSION_BYTES + key.length, since)
  return version
}

/** The first key after all keys with this prefix. */
export function prefixEnd(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix)
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] as number
    if (byte < 0xff) {
      end[at] = byte + 1
      return end.subarray(0, at + 1)
    }
  }
  throw new Error('no key is behind these')
}

function newKey(tag: Tag, table: number, bytes: number): Buffer {
  const key = Buffer.allocUnsafe(PREFIX_BYTES + bytes)
  key[0] = tag
  key.writeUInt32BE(table, 1)
  return key
}

/** The integer if the key is a canonical integer of up to 14 digits; -1 for other keys. */
function shortInteger(key: string): number {
  const { length } = key
  if (length === 0 || length > 14) return -1
  let integer = 0
  for (let at = 0; at < length; at++) {
    const digit = key.charCodeAt(at) - 48
    if (digit < 0 || digit > 9) return -1
    integer = integer * 10 + digit
  }
  return length > 1 && key.charCodeAt(0) === 48 ? -1 : integer
}

export function positionOf(bytes: ArrayLike<number>, offset = 0): Position {
  // The result of `readUIntBE`, which is several times slower.
  const high = ((bytes[offset] as number) << 8) | (bytes[offset + 1] as number)
  const middle = ((bytes[offset + 2] as number) << 8) | (bytes[offset + 3] as number)
  const low = ((bytes[offset + 4] as number) << 8) | (bytes[offset + 5] as number)
  return high * 2 ** 32 + middle * 2 ** 16 + low
}

export function putPosition(bytes: Buffer, offset: number, position: Position): void {
  bytes.writeUInt16BE(Math.floor(position / 2 ** 32), offset)
  bytes.writeUInt32BE(position >>> 0, offset + 2)
}
