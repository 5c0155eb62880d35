import { hash } from 'node:crypto'
import type { Position } from '../events/event.ts'
import { POSITION_BYTES, putPosition } from './bytes.ts'

/** The kind of a row: the first byte of its key. Items come last, as LMDB fills pages only at the end of all keys. */
export const TAG = {
  state: 1,
  collection: 2,
  place: 4,
  gaps: 5,
  step: 6,
  life: 7,
  answered: 8,
  answeredAt: 9,
  segment: 10,
  record: 11,
  takenIn: 12,
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
/** An id of more bytes stands in keys as its hash. */
const MOST_ID_BYTES = 256
const KIND = { integer: 0, text: 1, hashed: 2 } as const

export function tableKey(tag: Tag, table: number): Buffer {
  const key = Buffer.allocUnsafe(PREFIX_BYTES)
  key[0] = tag
  key.writeUInt32BE(table, 1)
  return key
}

/** Used again by the next call: most keys are only looked up. */
const numbered = Buffer.allocUnsafeSlow(PREFIX_BYTES + POSITION_BYTES)

/** The key of a row that has a number in a table. It is to be used before the next one is made. */
export function numberedKey(tag: Tag, table: number, number: number): Buffer {
  numbered[0] = tag
  numbered.writeUInt32BE(table, 1)
  putPosition(numbered, PREFIX_BYTES, number)
  return numbered
}

const integerKey = Buffer.allocUnsafeSlow(PREFIX_BYTES + 1 + POSITION_BYTES)

/** The key of what is found by an item's key; none goes on with another. It is to be used before the next one is made. */
export function keyedKey(tag: Tag, table: number, key: string): Buffer {
  const integer = integerOf(key)
  if (integer >= 0) {
    integerKey[0] = tag
    integerKey.writeUInt32BE(table, 1)
    integerKey[PREFIX_BYTES] = KIND.integer
    putPosition(integerKey, PREFIX_BYTES + 1, integer)
    return integerKey
  }
  const bytes = Buffer.from(key)
  const isLong = bytes.length > MOST_ID_BYTES
  const name = isLong ? hash('sha256', key, 'buffer') : bytes
  const head = Buffer.from([isLong ? KIND.hashed : KIND.text, name.length >> 8, name.length & 0xff])
  return Buffer.concat([tableKey(tag, table), head, name])
}

/** The integer of up to 14 digits that a key spells in the canonical way; -1 for any other key. */
function integerOf(key: string): number {
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

/** The key of a row as it was from a position on: its length stands first, so that no key goes on with another. */
export function versionKey(key: Buffer, since: Position): Buffer {
  const version = Buffer.allocUnsafe(3 + key.length + POSITION_BYTES)
  version[0] = TAG.version
  version.writeUInt16BE(key.length, 1)
  key.copy(version, 3)
  putPosition(version, 3 + key.length, since)
  return version
}

/** The first key behind all that begin so. */
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
