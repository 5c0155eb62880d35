/*
 * A text that resembles another one is stored as its differences from it, its base. Decoding takes a microsecond, as it reads
 * no other texts; deflate makes blocks a quarter shorter, and takes 10 µs to read one item of 32.
 *
 * A delta is a number of steps, and the bytes that the base does not have. A step copies some of these, then a part of the
 * base, which begins as far behind the part before as the bytes between them are long, or elsewhere.
 *
 * | Bytes | A step; numbers are those of var-numbers.ts |
 * |---|---|
 * | 1 | the number of bytes that the base does not have (3 bits), whether the part begins elsewhere (1), its length (4) |
 * | … | the number of bytes - 7, if there are 7 or more |
 * | … | the length of the part - 15, if it is 15 or more |
 * | … | signed: how far behind it begins elsewhere |
 *
 * The bytes that the base does not have are read from the end of the delta backwards. They are digits mostly: if that is
 * shorter, they are packed, as half bytes: 15 stands for any byte, whose halves follow it.
 */

import { NumberReader, NumberWriter } from '../runtime/var-numbers.ts'

export interface Delta {
  /** Its length. */
  readonly bytes: number
  readonly isPacked: boolean
}

const NO_PLACE = -1
/** Shorter parts are not copied: the bytes themselves take less. */
const LEAST_PART = { here: 3, elsewhere: 4 } as const
/** A part elsewhere must be so much longer. */
const ELSEWHERE_BYTES = 2
/** Bytes whose place in the base is looked up. */
const HASHED = 4
const HASH_BITS = 10
const STEP = { most: { others: 7, length: 15 }, others: 32, elsewhere: 16 } as const
const SYMBOLS = Buffer.from('0123456789.-:,"')
/** The half byte of each byte. */
const HALVES = Uint8Array.from({ length: 256 }, (_, byte) => (SYMBOLS.includes(byte) ? SYMBOLS.indexOf(byte) : 15))
const ANY = SYMBOLS.length
const NO_HALF = -1
/**
 * The length of a delta is at most this part of its text, and a few bytes. A part elsewhere is 4 bytes long at least, as
 * many as its step takes, besides a second byte for 7 or more others.
 */
const MOST = { part: 1.1, end: 8 } as const

/** A text of less than 32 KiB with the first places of its parts. */
export class DeltaBase {
  readonly bytes: Buffer
  /** The first place of bytes with a hash. */
  readonly places = new Int16Array(2 ** HASH_BITS).fill(NO_PLACE)

  constructor(bytes: Buffer) {
    this.bytes = bytes
    for (let place = bytes.length - HASHED; place >= 0; place--) this.places[hashAt(bytes, place)] = place
  }
}

export const NO_BASE = new DeltaBase(Buffer.alloc(0))

/** Writes deltas of texts one behind the other. */
export class DeltaWriter {
  readonly #writer: NumberWriter
  /** The bytes of a text that its base does not have. */
  readonly #others: Buffer

  /** For texts of these lengths. */
  constructor(lengths: readonly number[]) {
    const longest = Math.max(0, ...lengths)
    const all = lengths.reduce((sum, length) => sum + length, 0)
    // There is room to choose between two deltas of the last one.
    const most = Math.ceil(MOST.part * (all + longest)) + MOST.end * (lengths.length + 1)
    this.#writer = new NumberWriter(Buffer.allocUnsafe(most))
    this.#others = Buffer.allocUnsafe(longest)
  }

  get written(): Buffer {
    return this.#writer.written
  }

  /** Removes so many bytes, which are before the last ones. */
  remove(count: number, last = 0): void {
    const { bytes, at } = this.#writer
    bytes.copyWithin(at - last - count, at - last, at)
    this.#writer.at -= count
  }

  append(text: Buffer, { bytes: base, places }: DeltaBase): Delta {
    const writer = this.#writer
    const begin = writer.at
    const others = this.#others
    let count = 0
    let halves = 0
    /** Where the next part begins in the base, unless elsewhere. */
    let here = 0
    let done = 0
    // Invariant: the steps make the text before `done`; the base has none of it from `done` to before `at`.
    for (let at = 0; at < text.length; ) {
      let from = here
      let length = commonLength(text, at, base, here)
      const place = at + HASHED <= text.length ? (places[hashAt(text, at)] as number) : NO_PLACE
      if (place !== NO_PLACE && place !== here) {
        const elsewhere = commonLength(text, at, base, place)
        if (elsewhere >= LEAST_PART.elsewhere && elsewhere > length + ELSEWHERE_BYTES) {
          from = place
          length = elsewhere
        }
      }
      if (length < LEAST_PART.here) {
        const other = text[at++] as number
        others[count++] = other
        halves += HALVES[other] === ANY ? 3 : 1
        here++
        continue
      }
      this.#putStep(at - done, length, from - here)
      at += length
      done = at
      here = from + length
    }
    if (done < text.length) this.#putStep(text.length - done, 0, 0)
    const packedBytes = Math.ceil(halves / 2)
    const isPacked = packedBytes < count
    if (isPacked) this.#putPacked(count, packedBytes)
    else for (let left = count; left > 0; ) writer.bytes[writer.at++] = others[--left] as number
    return { bytes: writer.at - begin, isPacked }
  }

  #putStep(others: number, length: number, elsewhere: number): void {
    const { most } = STEP
    const writer = this.#writer
    const flag = elsewhere === 0 ? 0 : STEP.elsewhere
    writer.bytes[writer.at++] = Math.min(others, most.others) * STEP.others + flag + Math.min(length, most.length)
    if (others >= most.others) writer.put(others - most.others)
    if (length >= most.length) writer.put(length - most.length)
    if (elsewhere !== 0) writer.putSigned(elsewhere)
  }

  /** Puts so many of the other bytes as half bytes, from the end backwards, the upper one of each byte first. */
  #putPacked(count: number, packedBytes: number): void {
    const { bytes } = this.#writer
    this.#writer.at += packedBytes
    let { at } = this.#writer
    /** An upper half, whose lower one follows. */
    let upper = NO_HALF
    for (let next = 0; next < count; next++) {
      const byte = this.#others[next] as number
      const half = HALVES[byte] as number
      if (upper === NO_HALF) {
        upper = half << 4
        if (half !== ANY) continue
        bytes[--at] = upper | (byte >> 4)
        upper = (byte & 15) << 4
      } else {
        bytes[--at] = upper | half
        upper = NO_HALF
        if (half === ANY) bytes[--at] = byte
      }
    }
    if (upper !== NO_HALF) bytes[--at] = upper
  }
}

function commonLength(text: Buffer, at: number, base: Buffer, place: number): number {
  const most = Math.min(text.length - at, base.length - place)
  let length = 0
  while (length < most && base[place + length] === text[at + length]) length++
  return length
}

function hashAt(bytes: Buffer, at: number): number {
  const four =
    (bytes[at] as number) |
    ((bytes[at + 1] as number) << 8) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 24)
  return Math.imul(four, 0x9e3779b1) >>> (32 - HASH_BITS)
}

/** The text of so many bytes that has a delta, at a place in other bytes, from a base. */
export function decodeDelta(
  bytes: Buffer,
  { from, to, isPacked }: { readonly from: number; readonly to: number; readonly isPacked: boolean },
  base: Buffer,
  length: number,
): Buffer {
  const text = Buffer.allocUnsafe(length)
  const reader = new NumberReader(bytes, from)
  /** Where the last of the other bytes that were read begins, in half bytes if they are packed. */
  let end = isPacked ? 2 * to : to
  let here = 0
  for (let at = 0; at < length; ) {
    const first = bytes[reader.at++] as number
    let others = first >> 5
    let part = first & 15
    if (others === STEP.most.others) others += reader.next()
    if (part === STEP.most.length) part += reader.next()
    here += others
    if (first & STEP.elsewhere) here += reader.nextSigned()
    const parted = at + others
    if (!isPacked) while (at < parted) text[at++] = bytes[--end] as number
    while (at < parted) {
      const half = halfAt(bytes, --end)
      text[at++] = half < ANY ? (SYMBOLS[half] as number) : halfAt(bytes, --end) * 16 + halfAt(bytes, --end)
    }
    for (; part > 0; part--) text[at++] = base[here++] as number
  }
  return text
}

function halfAt(bytes: Buffer, at: number): number {
  return ((bytes[at >> 1] as number) >> (4 * (at & 1))) & 15
}
