import { RANK } from './order-key.ts'

/*
 * Reads order keys (order-key.ts) inside other bytes. Arrays and objects are not read. The key of an instant does not
 * contain its spelling.
 */

/** A value as its order key has it. */
export interface KeyPart {
  /** The offset after the key. */
  end: number
  rank: number
  /** An instant is milliseconds since 1970, the microseconds as a fraction. */
  value: null | boolean | number | string
}

/** Reads the order key that begins at `at` into `part`; false for an array or an object. */
export function readPart(bytes: Uint8Array, at: number, part: KeyPart): boolean {
  const rank = bytes[at] as number
  part.rank = rank
  switch (rank) {
    case RANK.boolean:
      part.value = bytes[at + 1] === 2
      part.end = at + 2
      return true
    case RANK.number:
      part.end = readNumber(bytes, at + 1, part)
      return true
    case RANK.instant:
      part.end = readInstant(bytes, at + 1, part)
      return true
    case RANK.text:
      part.end = readText(bytes, at + 1, part)
      return true
    case RANK.array:
    case RANK.object:
      return false
    default:
      // Null, and the byte of a missing value.
      part.value = null
      part.end = at + 1
      return true
  }
}

/** The offset after the order key that begins at `at`; -1 for an array or an object. */
export function partEnd(bytes: Uint8Array, at: number): number {
  switch (bytes[at]) {
    case RANK.boolean:
      return at + 2
    case RANK.number:
      return numberEnd(bytes, at + 1)
    case RANK.instant:
      return numberEnd(bytes, at + 1) + MICROS_BYTES
    case RANK.text: {
      let end = at + 1
      while (bytes[end] !== 0) end++
      return end + 1
    }
    case RANK.array:
    case RANK.object:
      return -1
    default:
      return at + 1
  }
}

const MICROS_BYTES = 2

function numberEnd(bytes: Uint8Array, start: number): number {
  const last = (bytes[start] as number) >= 0x80 ? 0 : 0xff
  let end = start
  while (bytes[end] !== last) end++
  return end + 1
}

function readNumber(bytes: Uint8Array, start: number, part: KeyPart): number {
  const isPositive = (bytes[start] as number) >= 0x80
  const last = isPositive ? 0 : 0xff
  const escaping = isPositive ? 1 : 0xfe
  BITS.setUint32(0, 0)
  BITS.setUint32(4, 0)
  let at = start
  for (let size = 0; ; size++) {
    let byte = bytes[at++] as number
    if (byte === last) break
    if (byte === escaping) byte = (isPositive ? 0 : 0xfe) + (bytes[at++] as number) - 1
    BITS.setUint8(size, isPositive ? (size === 0 ? byte & 0x7f : byte) : ~byte & 0xff)
  }
  part.value = BITS.getFloat64(0)
  return at
}

function readInstant(bytes: Uint8Array, start: number, part: KeyPart): number {
  const at = readNumber(bytes, start, part)
  const micros = ((bytes[at] as number) << 8) | (bytes[at + 1] as number)
  part.value = (part.value as number) + micros / 1000
  return at + MICROS_BYTES
}

/** Decodes UTF-8 whose bytes are one too high. `TextDecoder` would replace halves of surrogate pairs. */
function readText(bytes: Uint8Array, start: number, part: KeyPart): number {
  let text = ''
  let at = start
  for (let lead = bytes[at++] as number; lead !== 0; lead = bytes[at++] as number) {
    const first = lead - 1
    if (first < 0x80) {
      text += String.fromCharCode(first)
      continue
    }
    const more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3
    let point = first & (0x3f >>> more)
    for (let left = more; left > 0; left--) point = (point << 6) | (((bytes[at++] as number) - 1) & 0x3f)
    text += String.fromCodePoint(point)
  }
  part.value = text
  return at
}

/** The bytes of the number that is being read. */
const BITS = new DataView(new ArrayBuffer(8))
