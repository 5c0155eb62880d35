import { NumberReader, type NumberWriter } from '../runtime/var-numbers.ts'

/**
 * Writes a column of integers: its first value and the differences from each to the next, or only one if they are equal.
 * Returns whether they are.
 */
export function putColumn(writer: NumberWriter, values: readonly number[]): boolean {
  const [first = 0, second = first] = values
  const isRegular = values.every((value, at) => value - first === at * (second - first))
  const written = isRegular ? Math.min(2, values.length) : values.length
  for (let at = 0, before = 0; at < written; at++) {
    const value = values[at] as number
    writer.putSigned(value - before)
    before = value
  }
  return isRegular
}

/** Columns of as many integers each, by their numbers. Those with equal differences have a bit in `regular`. */
export class Columns {
  readonly #bytes: Buffer
  readonly #count: number
  readonly #regular: number
  readonly #firsts: number[] = []
  /** The difference of regular values; where the differences of others begin. */
  readonly #rest: number[] = []

  constructor(bytes: Buffer, count: number, regular: number) {
    this.#bytes = bytes
    this.#count = count
    this.#regular = regular
  }

  /** Passes over columns, up to the number of one, the next of which begins where the reader is. */
  pass(reader: NumberReader, end: number): void {
    for (let column = this.#firsts.length; column < end; column++) {
      this.#firsts.push(reader.nextSigned())
      if ((this.#regular & (1 << column)) !== 0) this.#rest.push(this.#count > 1 ? reader.nextSigned() : 0)
      else {
        this.#rest.push(reader.at)
        reader.skip(this.#count - 1)
      }
    }
  }

  value(column: number, index: number): number {
    let value = this.#firsts[column] as number
    const rest = this.#rest[column] as number
    if ((this.#regular & (1 << column)) !== 0) return value + index * rest
    const reader = new NumberReader(this.#bytes, rest)
    for (let at = 0; at < index; at++) value += reader.nextSigned()
    return value
  }

  /** Element n is the sum of the first n values. */
  sums(column: number): readonly number[] {
    const rest = this.#rest[column] as number
    const isRegular = (this.#regular & (1 << column)) !== 0
    const reader = new NumberReader(this.#bytes, rest)
    const sums = new Array<number>(this.#count + 1)
    let value = this.#firsts[column] as number
    let sum = 0
    for (let at = 0; at < this.#count; at++) {
      if (at > 0) value += isRegular ? rest : reader.nextSigned()
      sums[at] = sum
      sum += value
    }
    sums[this.#count] = sum
    return sums
  }
}
