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

import { NumberReader, putNumber, putSigned } from '../runtime/var-numbers.ts'

export interface Delta {
  readonly bytes: Buffer
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

/** Makes the deltas of texts from one base, of less than 32 KiB. */
export class DeltaEncoder {
  readonly #base: Buffer
  /** The first place in the base of bytes with a hash. */
  readonly #places = new Int16Array(2 ** HASH_BITS).fill(NO_PLACE)

  constructor(base: Buffer) {
    this.#base = base
    for (let place = base.length - HASHED; place >= 0; place--) this.#places[hashAt(base, place)] = place
  }

  encode(text: Buffer): Delta {
    const steps: number[] = []
    const others: number[] = []
    /** Where the next part begins in the base, unless elsewhere. */
    let here = 0
    let done = 0
    // Invariant: the steps make the text before `done`; the base has none of it from `done` to before `at`.
    for (let at = 0; at < text.length; ) {
      let from = here
      let length = this.#commonLength(text, at, here)
      const place = at + HASHED <= text.length ? (this.#places[hashAt(text, at)] as number) : NO_PLACE
      if (place !== NO_PLACE && place !== here) {
        const elsewhere = this.#commonLength(text, at, place)
        if (elsewhere >= LEAST_PART.elsewhere && elsewhere > length + ELSEWHERE_BYTES) {
          from = place
          length = elsewhere
        }
      }
      if (length < LEAST_PART.here) {
        at++
        here++
        continue
      }
      putStep(steps, at - done, length, from - here)
      while (done < at) others.push(text[done++] as number)
      at += length
      done = at
      here = from + length
    }
    if (done < text.length) putStep(steps, text.length - done, 0, 0)
    while (done < text.length) others.push(text[done++] as number)
    return joined(steps, others)
  }

  #commonLength(text: Buffer, at: number, place: number): number {
    const base = this.#base
    const most = Math.min(text.length - at, base.length - place)
    let length = 0
    while (length < most && base[place + length] === text[at + length]) length++
    return length
  }
}

function hashAt(bytes: Buffer, at: number): number {
  const four =
    (bytes[at] as number) |
    ((bytes[at + 1] as number) << 8) |
    ((bytes[at + 2] as number) << 16) |
    ((bytes[at + 3] as number) << 24)
  return Math.imul(four, 0x9e3779b1) >>> (32 - HASH_BITS)
}

function putStep(steps: number[], others: number, length: number, elsewhere: number): void {
  const { most } = STEP
  const flag = elsewhere === 0 ? 0 : STEP.elsewhere
  steps.push(Math.min(others, most.others) * STEP.others + flag + Math.min(length, most.length))
  if (others >= most.others) putNumber(steps, others - most.others)
  if (length >= most.length) putNumber(steps, length - most.length)
  if (elsewhere !== 0) putSigned(steps, elsewhere)
}

function joined(steps: readonly number[], others: readonly number[]): Delta {
  let halves = 0
  for (const byte of others) halves += HALVES[byte] === ANY ? 3 : 1
  const packedBytes = Math.ceil(halves / 2)
  const isPacked = packedBytes < others.length
  const bytes = Buffer.alloc(steps.length + (isPacked ? packedBytes : others.length))
  bytes.set(steps)
  if (isPacked) {
    let at = 2 * bytes.length
    const putHalf = (half: number): void => {
      at--
      bytes[at >> 1] = (bytes[at >> 1] as number) | (half << (4 * (at & 1)))
    }
    for (const byte of others) {
      const half = HALVES[byte] as number
      putHalf(half)
      if (half !== ANY) continue
      putHalf(byte >> 4)
      putHalf(byte & 15)
    }
  } else for (let at = bytes.length - 1, next = 0; next < others.length; at--) bytes[at] = others[next++] as number
  return { bytes, isPacked }
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
    for (; others > 0; others--) {
      if (!isPacked) text[at++] = bytes[--end] as number
      else {
        const half = halfAt(bytes, --end)
        text[at++] = half < ANY ? (SYMBOLS[half] as number) : halfAt(bytes, --end) * 16 + halfAt(bytes, --end)
      }
    }
    for (; part > 0; part--) text[at++] = base[here++] as number
  }
  return text
}

function halfAt(bytes: Buffer, at: number): number {
  return ((bytes[at >> 1] as number) >> (4 * (at & 1))) & 15
}
