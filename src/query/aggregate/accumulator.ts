import { RANK } from '../../json/order.ts'
import { rankOfKey, scalarKey } from '../../json/order-key.ts'
import type { JsonValue } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import type { Aggregate } from './aggregation.ts'
import { ExactSum } from './exact-sum.ts'
import type { Scalar, Unspelled } from './scalars.ts'

/** Accumulates the values of a group. */
export interface Accumulator {
  /** `time` is the event time of the item, 0 if the collection has none, and `place` its place. */
  add(value: Scalar | Unspelled, time: number, place: number): void
  /** Null without values. */
  result(): Steps<JsonValue | Unspelled>
}

/** 32 MiB of numbers for percentiles. */
const MOST_VALUES = 4 * 1024 * 1024
/** 32 MiB of text. */
const MOST_CHARACTERS = 16 * 1024 * 1024

/** The memory that one response may use. */
export class Budget {
  #values = MOST_VALUES
  #characters = MOST_CHARACTERS

  takeValue(): void {
    if (--this.#values < 0) throw tooMuch('values for exact percentiles')
  }

  /** A negative number returns characters. */
  takeCharacters(characters: number): void {
    this.#characters -= characters
    if (this.#characters < 0) throw tooMuch('long texts')
  }
}

function tooMuch(what: string): Refusal {
  return new Refusal(
    'Invalid',
    `There are too many ${what} in one answer: ask with more filters, or for fewer groups or windows at once.`,
  )
}

function lengthOf(value: Scalar | Unspelled | undefined): number {
  return typeof value === 'string' ? value.length : 0
}

export function accumulatorOf({ function: name, percent }: Aggregate, budget: Budget): Accumulator {
  switch (name) {
    case 'count':
      return new Count()
    case 'sum':
      return new Sum(false)
    case 'avg':
      return new Sum(true)
    case 'min':
      return new Extreme(-1, budget)
    case 'max':
      return new Extreme(1, budget)
    case 'first':
      return new ByTime(-1, budget)
    case 'last':
      return new ByTime(1, budget)
    case 'percentile':
      return new Percentile(percent, budget)
    default:
      return name satisfies never
  }
}

export class Count implements Accumulator {
  #count = 0

  add(): void {
    this.#count++
  }

  addItems(items: number): void {
    this.#count += items
  }

  // biome-ignore lint/correctness/useYield: only percentiles take long
  *result(): Steps<number> {
    return this.#count
  }
}

/** Sums numbers and ignores other values. */
class Sum implements Accumulator {
  readonly #isMean: boolean
  readonly #sum = new ExactSum()
  #count = 0

  constructor(isMean: boolean) {
    this.#isMean = isMean
  }

  add(value: Scalar | Unspelled): void {
    if (typeof value !== 'number') return
    this.#sum.add(value)
    this.#count++
  }

  // biome-ignore lint/correctness/useYield: only percentiles take long
  *result(): Steps<number | null> {
    if (this.#count === 0) return null
    return this.#isMean ? this.#sum.total / this.#count : this.#sum.total
  }
}

/** The lowest or highest number; without numbers, text in the order of queries, of equal ones the first. */
class Extreme implements Accumulator {
  readonly #sign: 1 | -1
  readonly #budget: Budget
  #number: number | undefined
  #text: string | Unspelled | undefined
  #key = ''
  #place = 0

  constructor(sign: 1 | -1, budget: Budget) {
    this.#sign = sign
    this.#budget = budget
  }

  add(value: Scalar | Unspelled, _time: number, place: number): void {
    if (typeof value === 'number') {
      if (this.#number === undefined || this.#sign * (value - this.#number) > 0) this.#number = value
    } else if (value !== null && typeof value !== 'boolean' && this.#number === undefined) {
      const key = typeof value === 'string' ? scalarKey(value, MOST_KEY) : value.key
      // An event time that is no instant.
      if (typeof value !== 'string' && rankOfKey(key) !== RANK.instant) return
      const isBeyond = key === this.#key ? place < this.#place : this.#sign > 0 === key > this.#key
      if (this.#text !== undefined && !isBeyond) return
      this.#budget.takeCharacters(lengthOf(value) - lengthOf(this.#text))
      this.#text = value
      this.#key = key
      this.#place = place
    }
  }

  // biome-ignore lint/correctness/useYield: only percentiles take long
  *result(): Steps<number | string | Unspelled | null> {
    return this.#number ?? this.#text ?? null
  }
}

const MOST_KEY = 1024

/** The value of the earliest or latest item; of two with the same time, that of the first or last place. */
class ByTime implements Accumulator {
  readonly #sign: 1 | -1
  readonly #budget: Budget
  #time = 0
  #place = -1
  #value: Scalar | Unspelled = null

  constructor(sign: 1 | -1, budget: Budget) {
    this.#sign = sign
    this.#budget = budget
  }

  add(value: Scalar | Unspelled, time: number, place: number): void {
    const later = time - this.#time || place - this.#place
    if (this.#place >= 0 && this.#sign * later < 0) return
    this.#budget.takeCharacters(lengthOf(value) - lengthOf(this.#value))
    this.#time = time
    this.#place = place
    this.#value = value
  }

  // biome-ignore lint/correctness/useYield: only percentiles take long
  *result(): Steps<Scalar | Unspelled> {
    return this.#value
  }
}

/** Exact, with linear interpolation between two numbers. */
class Percentile implements Accumulator {
  readonly #percent: number
  readonly #budget: Budget
  #values = new Float64Array(16)
  #count = 0

  constructor(percent: number, budget: Budget) {
    this.#percent = percent
    this.#budget = budget
  }

  add(value: Scalar | Unspelled): void {
    if (typeof value !== 'number') return
    this.#budget.takeValue()
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  *result(): Steps<number | null> {
    if (this.#count === 0) return null
    const sorted = yield* sortedNumbers(this.#values.subarray(0, this.#count))
    const last = this.#count - 1
    // 0.29 is no double, so that 0.29 * 100 is less than 29.
    const rank = Number.isInteger(this.#percent) ? (this.#percent * last) / 100 : (this.#percent / 100) * last
    const low = sorted[Math.floor(rank)] as number
    const high = sorted[Math.ceil(rank)] as number
    return low + (high - low) * (rank - Math.floor(rank))
  }
}

/** Numbers sorted or merged in one step. */
const CHUNK = 4096

/** A merge sort in steps, since sorting millions of numbers would block the event loop. */
function* sortedNumbers(values: Float64Array): Steps<Float64Array> {
  for (let start = 0; start < values.length; start += CHUNK) {
    values.subarray(start, start + CHUNK).sort()
    yield
  }
  let from = values
  for (let length = CHUNK; length < values.length; length *= 2) {
    const to = new Float64Array(values.length)
    for (let start = 0; start < values.length; start += 2 * length) {
      const middle = Math.min(start + length, values.length)
      const end = Math.min(middle + length, values.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || (from[left] as number) <= (from[right] as number))
        to[at] = from[takesLeft ? left++ : right++] as number
        if (at % CHUNK === 0) yield
      }
    }
    from = to
  }
  return from
}
