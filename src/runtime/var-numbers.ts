/** Appends a number with seven bits in each byte, the lowest first; all bytes but the last have the eighth bit. */
export function putNumber(bytes: number[], number: number): void {
  let rest = number
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  bytes.push(rest)
}

/** Appends a positive or negative integer, whose size is below 2 ** 52. */
export function putSigned(bytes: number[], integer: number): void {
  putNumber(bytes, integer < 0 ? -2 * integer - 1 : 2 * integer)
}

/** Reads numbers from `at` on, as `putNumber` appends them. */
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
    const number = this.next()
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2
  }
}
