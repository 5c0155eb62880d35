import { type Instant, instantOf, parseInstant } from './instant.ts'
import { firstAt, type Path } from './paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from './value.ts'

/** The types in the order of their values. */
export const RANK = { null: 1, boolean: 2, number: 3, instant: 4, text: 5, array: 6, object: 7 } as const

/*
 * An order key is text of units up to 255, so that V8 keeps it as bytes and compares it as such. It begins with the
 * value's rank; then come
 *
 *   boolean   1 or 2
 *   number    the bytes of the double, in an order of their own (`#number`)
 *   instant   the milliseconds as a number, then the microseconds in two bytes
 *   text      its UTF-8, each byte plus one, which has the order of the code points; then 0
 *   array     the keys of its elements, then 0
 *   object    for each name, in order, 1, the name as text and its value's key; then 0
 *
 * No key is the beginning of another. A key has about as many bytes as the value's JSON, and at most three times as many.
 */

/**
 * The order key of a value. Two keys compare with `<` as their values do, and are equal when the values are. A key
 * longer than `most` may be cut after `most` units.
 */
export function orderKey(value: JsonValue, most = Number.POSITIVE_INFINITY): string {
  // Sorting the names of an object uses `scalarWriter` meanwhile.
  const writer = isArray(value) || isObject(value) ? new KeyWriter() : scalarWriter
  writer.begin(most)
  writer.value(value)
  return writer.key
}

export function instantKey(instant: Instant): string {
  scalarWriter.begin()
  scalarWriter.instant(instant)
  return scalarWriter.key
}

/** The key of a text as such, even if it is an instant. */
export function textKey(text: string): string {
  scalarWriter.begin()
  scalarWriter.byte(RANK.text)
  scalarWriter.text(text)
  return scalarWriter.key
}

/** The order key of the first value at a path as an event time; undefined if there is none. */
export function timeKeyAt(item: JsonValue, path: Path, most?: number): string | undefined {
  const value = firstAt(item, path)
  return value === undefined ? undefined : timeKey(value, most)
}

/** The order key of a value as an event time: that of its instant, or one above those of all instants. */
export function timeKey(value: JsonValue, most?: number): string {
  const instant = instantOf(value)
  return instant ? instantKey(instant) : textKey(orderKey(value, most))
}

/** Above the order keys of all instants. */
export const AFTER_INSTANTS = String.fromCharCode(RANK.instant + 1)

export function rankOfKey(key: string): number {
  return key.charCodeAt(0)
}

/** Ends a number, a text, an array or an object. */
const END = 0
/** Begins a name. */
const NAME = 1

/** Largest buffer in bytes that a writer reuses for its next key. */
const REUSED_BYTES = 4096

/** Writes order keys, one after the other, as one text. */
export class KeyWriter {
  #end = 0
  #bytes = allocate(32)
  #length = 0

  /** Starts in the same buffer. The first key may be cut after `most` units. */
  begin(most = Number.POSITIVE_INFINITY): void {
    this.#length = 0
    this.limit(most)
    if (this.#bytes.length > REUSED_BYTES) this.#bytes = allocate(REUSED_BYTES)
  }

  /** The next key may be cut after `most` units. */
  limit(most: number): void {
    this.#end = this.#length + most
  }

  /** The number of units that were written. */
  get length(): number {
    return this.#length
  }

  /** Drops what was written after so many units. */
  truncate(length: number): void {
    this.#length = Math.min(this.#length, length)
  }

  /** All that was written, as text. */
  get key(): string {
    return latin1(this.#bytes, this.#length)
  }

  value(value: JsonValue): void {
    if (value === null) this.byte(RANK.null)
    else if (typeof value === 'boolean') this.#boolean(value)
    else if (typeof value === 'number') this.#number(RANK.number, value)
    else if (typeof value === 'string') {
      const instant = parseInstant(value)
      if (instant) this.instant(instant)
      else {
        this.byte(RANK.text)
        this.text(value)
      }
    } else if (isArray(value)) this.#array(value)
    else this.#object(value)
  }

  #array(elements: readonly JsonValue[]): void {
    this.byte(RANK.array)
    for (const element of elements) {
      if (this.#isFull) return
      this.value(element)
    }
    this.byte(END)
  }

  #object(object: JsonObject): void {
    this.byte(RANK.object)
    for (const name of sortedNames(object)) {
      if (this.#isFull) return
      this.byte(NAME)
      this.text(name)
      this.value(object[name] as JsonValue)
    }
    this.byte(END)
  }

  get #isFull(): boolean {
    return this.#length > this.#end
  }

  instant({ ms, micros }: Instant): void {
    this.#number(RANK.instant, ms)
    this.byte(micros >>> 8)
    this.byte(micros & 0xff)
  }

  byte(byte: number): void {
    if (this.#length === this.#bytes.length) this.#grow(1)
    this.#bytes[this.#length++] = byte
  }

  text(text: string): void {
    const units = Math.max(0, Math.min(text.length, this.#end + 1 - this.#length))
    if (this.#bytes.length - this.#length <= units * 3) this.#grow(units * 3 + 1)
    const bytes = this.#bytes
    let at = this.#length
    for (let index = 0; index < units; index++) {
      const unit = text.charCodeAt(index)
      if (unit < 0x80) bytes[at++] = unit + 1
      else if (unit < 0x800) {
        bytes[at++] = (0xc0 | (unit >>> 6)) + 1
        bytes[at++] = (0x80 | (unit & 0x3f)) + 1
      } else {
        const point = text.codePointAt(index) as number
        if (point > 0xffff) {
          index++
          bytes[at++] = (0xf0 | (point >>> 18)) + 1
          bytes[at++] = (0x80 | ((point >>> 12) & 0x3f)) + 1
        } else bytes[at++] = (0xe0 | (point >>> 12)) + 1
        bytes[at++] = (0x80 | ((point >>> 6) & 0x3f)) + 1
        bytes[at++] = (0x80 | (point & 0x3f)) + 1
      }
    }
    this.#length = at
    // If the text was cut, the key is full and needs no terminator.
    if (units === text.length) this.byte(END)
  }

  /** Units that were written before. */
  units(text: string): void {
    for (let index = 0; index < text.length; index++) this.byte(text.charCodeAt(index))
  }

  #boolean(value: boolean): void {
    this.byte(RANK.boolean)
    this.byte(value ? 2 : 1)
  }

  /**
   * Writes the bytes of the double in an order that `<` compares: with the sign bit set for positive numbers, with all
   * bits inverted for negative ones. Zeros at the end of the double are left out; the terminator sorts before
   * (negative: after) any byte that could stand in their place.
   */
  #number(rank: number, number: number): void {
    this.byte(rank)
    // Adding 0 turns -0 into 0.
    BITS.setFloat64(0, number + 0)
    const isNegative = BITS.getUint8(0) >= 0x80
    let size = 8
    while (size > 1 && BITS.getUint8(size - 1) === 0) size--
    for (let index = 0; index < size; index++) {
      const bits = BITS.getUint8(index)
      if (isNegative) this.#escaped(~bits & 0xff, 0xfe)
      else this.#escaped(index === 0 ? bits | 0x80 : bits, 0)
    }
    this.byte(isNegative ? 0xff : END)
  }

  /** Escapes the bytes `least` and `least + 1`, so that neither is taken for the number's terminator. */
  #escaped(byte: number, least: number): void {
    if (byte !== least && byte !== least + 1) this.byte(byte)
    else {
      this.byte(least === 0 ? 1 : least)
      this.byte(byte === least ? 1 : 2)
    }
  }

  #grow(more: number): void {
    const larger = allocate(Math.max(this.#bytes.length * 2, this.#length + more))
    larger.set(this.#bytes)
    this.#bytes = larger
  }
}

interface NodeBytes extends Uint8Array {
  toString(encoding?: 'latin1', start?: number, end?: number): string
}
/** Undefined in browsers, where the client sorts. */
declare const Buffer: { allocUnsafe(size: number): NodeBytes } | undefined
const isNode = typeof Buffer !== 'undefined'

function allocate(size: number): Uint8Array {
  return isNode ? Buffer.allocUnsafe(size) : new Uint8Array(size)
}

function latin1(bytes: Uint8Array, length: number): string {
  if (isNode) return (bytes as NodeBytes).toString('latin1', 0, length)
  return Array.from(bytes.subarray(0, length), (byte) => String.fromCharCode(byte)).join('')
}

const SURROGATE = /[\ud800-\udfff]/

/** In the order of code points. `<` compares UTF-16 units, whose order is another one only if there are surrogates. */
function sortedNames(object: JsonObject): string[] {
  const names = Object.keys(object).sort()
  if (!names.some((name) => SURROGATE.test(name))) return names
  return names.sort((a, b) => (textKey(a) < textKey(b) ? -1 : 1))
}

/** Writes the keys of scalars and texts, which need no other key meanwhile, in one buffer. */
const scalarWriter = new KeyWriter()
/** Scratch space for a number that is written or read. */
const BITS = new DataView(new ArrayBuffer(8))

/** A value that is read from its order key inside other bytes. */
export interface KeyPart {
  /** The offset after the key. */
  end: number
  rank: number
  /** An instant is milliseconds since 1970, the microseconds as a fraction. Its spelling is not in the key. */
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

const MICROS_BYTES = 2

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
