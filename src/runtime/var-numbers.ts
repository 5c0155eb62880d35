/** Appends a number with seven bits in each byte, the lowest first; all bytes but the last have the eighth bit. */
export function putNumber(bytes: number[], number: number): void {
  let rest = number
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  bytes.push(rest)
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
    let number = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.at++] as number
      number += (byte % 128) * factor
      if (!(byte >= 128)) return number
    }
  }
}
