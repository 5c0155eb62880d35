/** The most bytes of a number, which is below 2 ** 53. */
export const MOST_NUMBER_BYTES = 8

/** Writes numbers with seven bits in each byte, the lowest first; all bytes but the last have the eighth bit. */
export class NumberWriter {
  readonly bytes: Buffer
  /** Where the next one begins. */
  at: number

  /** The bytes must have room for all. */
  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes
    this.at = at
  }

  /** @throws {RangeError} if there was no room: JavaScript ignores what is written behind the end. */
  get written(): Buffer {
    if (this.at > this.bytes.length) throw new RangeError(`${this.at} bytes were written into ${this.bytes.length}`)
    return this.bytes.subarray(0, this.at)
  }

  put(number: number): void {
    let rest = number
    while (rest >= 128) {
      // The remainder of a number beyond 31 bits takes several times as long.
      const upper = Math.floor(rest / 128)
      this.bytes[this.at++] = rest - 128 * upper + 128
      rest = upper
    }
    this.bytes[this.at++] = rest
  }

  /** Writes a positive or negative integer, whose size is below 2 ** 52. */
  putSigned(integer: number): void {
    this.put(integer < 0 ? -2 * integer - 1 : 2 * integer)
  }

  /** Writes other bytes between numbers. */
  putBytes(bytes: Buffer): void {
    bytes.copy(this.bytes, this.at)
    this.at += bytes.length
  }
}

/** Reads numbers from `at` on, as a `NumberWriter` writes them. */
export class NumberReader {
  readonly #bytes: Buffer
  at: number

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes
    this.at = at
  }

  get isAtEnd(): boolean {
    return this.at >= this.#bytes.length
  }

  next(): number {
    const first = this.#bytes[this.at++] as number
    // Most have one byte.
    if (first < 128) return first
    let number = first - 128
    for (let factor = 128; ; factor *= 128) {
      const byte = this.#bytes[this.at++] as number
      number += (byte % 128) * factor
      if (!(byte >= 128)) return number
    }
  }

  nextSigned(): number {
    const first = this.#bytes[this.at] as number
    if (first < 128) {
      this.at++
      return (first >> 1) ^ -(first & 1)
    }
    const number = this.next()
    const half = Math.floor(number / 2)
    return number === 2 * half ? half : -half - 1
  }

  skip(count: number): void {
    const bytes = this.#bytes
    let { at } = this
    for (let left = count; left > 0 && at < bytes.length; at++) if ((bytes[at] as number) < 128) left--
    this.at = at
  }
}
