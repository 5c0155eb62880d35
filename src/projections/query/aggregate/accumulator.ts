import { Refusal } from '../../../errors.ts'
import { scalarKey } from '../../../json/order-key.ts'
import type { JsonValue } from '../../../json/value.ts'
import type { Aggregate } from './aggregation.ts'
import type { Scalar } from './scalars.ts'

/** Takes the values of a group one after the other, and knows the result. */
export interface Accumulator {
  /** `time` is the event time of the item, 0 where the collection has none, and `place` where it stands. */
  add(value: Scalar, time: number, place: number): void
  /** Null when there was nothing to take. */
  result(): JsonValue
}

/** Values that the percentiles of one answer may hold together. */
export class ValueBudget {
  #left: number

  constructor(values: number) {
    this.#left = values
  }

  take(): void {
    if (--this.#left >= 0) return
    throw new Refusal(
      'Invalid',
      'There are too many values for exact percentiles in one answer: ask with more filters, or for fewer windows at once.',
    )
  }
}

export function accumulatorOf({ function: name, percent }: Aggregate, budget: ValueBudget): Accumulator {
  switch (name) {
    case 'count':
      return new Count()
    case 'sum':
      return new Sum(false)
    case 'avg':
      return new Sum(true)
    case 'min':
      return new Extreme(-1)
    case 'max':
      return new Extreme(1)
    case 'first':
      return new ByTime(-1)
    case 'last':
      return new ByTime(1)
    case 'percentile':
      return new Percentile(percent, budget)
    default:
      return name satisfies never
  }
}

class Count implements Accumulator {
  #count = 0

  add(): void {
    this.#count++
  }

  result(): number {
    return this.#count
  }
}

/** Of numbers; other values are left out. Neumaier's summation: the order of the values does not matter. */
class Sum implements Accumulator {
  readonly #isMean: boolean
  #sum = 0
  #lost = 0
  #count = 0

  constructor(isMean: boolean) {
    this.#isMean = isMean
  }

  add(value: Scalar): void {
    if (typeof value !== 'number') return
    const sum = this.#sum + value
    this.#lost += Math.abs(this.#sum) >= Math.abs(value) ? this.#sum - sum + value : value - sum + this.#sum
    this.#sum = sum
    this.#count++
  }

  result(): number | null {
    if (this.#count === 0) return null
    const sum = this.#sum + this.#lost
    return this.#isMean ? sum / this.#count : sum
  }
}

/** The least or greatest number; where there is none, the least or greatest text in the order of queries. */
class Extreme implements Accumulator {
  readonly #sign: 1 | -1
  #number: number | undefined
  #text: string | undefined
  #key = ''

  constructor(sign: 1 | -1) {
    this.#sign = sign
  }

  add(value: Scalar): void {
    if (typeof value === 'number') {
      if (this.#number === undefined || this.#sign * (value - this.#number) > 0) this.#number = value
    } else if (typeof value === 'string' && this.#number === undefined) {
      const key = scalarKey(value, MOST_KEY)
      const isBeyond = this.#sign > 0 ? key > this.#key : key < this.#key
      if (this.#text === undefined || isBeyond) [this.#text, this.#key] = [value, key]
    }
  }

  result(): number | string | null {
    return this.#number ?? this.#text ?? null
  }
}

const MOST_KEY = 1024

/** The value of the earliest or latest item; of two with one time, of that which stands first or last. */
class ByTime implements Accumulator {
  readonly #sign: 1 | -1
  #time = 0
  #place = -1
  #value: Scalar = null

  constructor(sign: 1 | -1) {
    this.#sign = sign
  }

  add(value: Scalar, time: number, place: number): void {
    const later = time - this.#time || place - this.#place
    if (this.#place >= 0 && this.#sign * later < 0) return
    this.#time = time
    this.#place = place
    this.#value = value
  }

  result(): Scalar {
    return this.#value
  }
}

/** Exact, between two numbers by linear interpolation. */
class Percentile implements Accumulator {
  readonly #percent: number
  readonly #budget: ValueBudget
  #values = new Float64Array(16)
  #count = 0

  constructor(percent: number, budget: ValueBudget) {
    this.#percent = percent
    this.#budget = budget
  }

  add(value: Scalar): void {
    if (typeof value !== 'number') return
    this.#budget.take()
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  result(): number | null {
    if (this.#count === 0) return null
    const sorted = this.#values.subarray(0, this.#count).sort()
    const rank = (this.#percent / 100) * (this.#count - 1)
    const low = sorted[Math.floor(rank)] as number
    const high = sorted[Math.ceil(rank)] as number
    return low + (high - low) * (rank - Math.floor(rank))
  }
}
