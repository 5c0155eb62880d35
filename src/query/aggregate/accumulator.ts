import { CHUNK, mergeSort } from '../../json/merge-sort.ts'
import { orderKey, RANK, rankOfKey } from '../../json/order-key.ts'
import { type Path, valuesAt } from '../../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { Aggregate } from './aggregation.ts'

/** Accumulates the values of a group. */
export interface Accumulator {
  /** `time` is the event time of the item, 0 in a collection without, undefined if it is no instant; `place` is its place. */
  add(value: Scalar | KeyedTime, time: number | undefined, place: number): void
  /** Null without values. `before` is that of the group's previous window with items, whose result was taken. */
  result(turn: Turn, before?: Accumulator): Result | Promise<Result>
}

export type Scalar = null | boolean | number | string

/** A text that is an instant, or an event time, of which only the order key is known: its spelling is in the item. */
export class KeyedTime {
  readonly key: string
  readonly place: number

  constructor(key: string, place: number) {
    this.key = key
    this.place = place
  }
}

type Result = JsonValue | KeyedTime

export function accumulatorOf({ function: name, path, percent }: Aggregate, budget: Budget): Accumulator {
  switch (name) {
    case 'count':
      return new Count(path !== undefined)
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
    case 'stddev':
      return new Deviation()
    case 'delta':
      return new Increase(budget)
    case 'percentile':
      return new Percentile(percent, budget)
    default:
      return name satisfies never
  }
}

/** Counts items, or values that are not null. */
export class Count implements Accumulator {
  readonly #isOfValues: boolean
  #count = 0

  constructor(isOfValues: boolean) {
    this.#isOfValues = isOfValues
  }

  add(value: Scalar | KeyedTime): void {
    if (!this.#isOfValues || value !== null) this.#count++
  }

  addItems(items: number): void {
    this.#count += items
  }

  result(): number {
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

  add(value: Scalar | KeyedTime): void {
    if (typeof value !== 'number') return
    this.#sum.add(value)
    this.#count++
  }

  result(): number | null {
    if (this.#count === 0) return null
    return this.#isMean ? this.#sum.total / this.#count : this.#sum.total
  }
}

/** The standard deviation of a sample, from exact sums of the numbers and their squares. Null for fewer than two. */
class Deviation implements Accumulator {
  readonly #sum = new ExactSum()
  readonly #squares = new ExactSum()
  #count = 0

  add(value: Scalar | KeyedTime): void {
    if (typeof value !== 'number') return
    this.#sum.add(value)
    this.#squares.addProduct(value, value)
    this.#count++
  }

  result(): number | null {
    const count = this.#count
    if (count < 2) return null
    // The difference of these sums may be much smaller than they are, so it is exact, too.
    const difference = new ExactSum()
    for (const part of this.#squares.parts) difference.addProduct(count, part)
    for (const a of this.#sum.parts) for (const b of this.#sum.parts) difference.addProduct(-a, b)
    return Math.sqrt(Math.max(0, difference.total) / (count * (count - 1)))
  }
}

/** Highest number of characters of a text that are compared, here and for the order of rows. */
export const MOST_COMPARED = 1024

/** The lowest or highest number; without numbers, text in the order of queries, of equal ones the first. */
class Extreme implements Accumulator {
  readonly #sign: 1 | -1
  readonly #budget: Budget
  #number: number | undefined
  #text: string | KeyedTime | undefined
  #key = ''
  #place = 0

  constructor(sign: 1 | -1, budget: Budget) {
    this.#sign = sign
    this.#budget = budget
  }

  add(value: Scalar | KeyedTime, _time: unknown, place: number): void {
    if (typeof value === 'number') {
      if (this.#number === undefined || this.#sign * (value - this.#number) > 0) this.#number = value
    } else if (value !== null && typeof value !== 'boolean' && this.#number === undefined) {
      const key = typeof value === 'string' ? orderKey(value, MOST_COMPARED) : value.key
      // An event time that is no instant.
      if (typeof value !== 'string' && rankOfKey(key) !== RANK.instant) return
      const isBeyond = key === this.#key ? place < this.#place : this.#sign > 0 === key > this.#key
      if (this.#text !== undefined && !isBeyond) return
      this.#budget.takeCharacters(characterCount(value) - characterCount(this.#text))
      this.#text = value
      this.#key = key
      this.#place = place
    }
  }

  result(): number | string | KeyedTime | null {
    return this.#number ?? this.#text ?? null
  }
}

export function characterCount(value: Scalar | KeyedTime | undefined): number {
  return typeof value === 'string' ? value.length : 0
}

/** The value of the earliest or latest item; of two with the same time, that of the first or last place. */
class ByTime implements Accumulator {
  readonly #sign: 1 | -1
  readonly #budget: Budget
  #time = 0
  #place = -1
  #value: Scalar | KeyedTime = null

  constructor(sign: 1 | -1, budget: Budget) {
    this.#sign = sign
    this.#budget = budget
  }

  add(value: Scalar | KeyedTime, time: number | undefined, place: number): void {
    if (time === undefined) return
    // A list has several values at one place.
    const later = time - this.#time || place - this.#place || 1
    if (this.#place >= 0 && this.#sign * later < 0) return
    this.#budget.takeCharacters(characterCount(value) - characterCount(this.#value))
    this.#time = time
    this.#place = place
    this.#value = value
  }

  result(): Scalar | KeyedTime {
    return this.#value
  }
}

/**
 * The increase of a counter in the order of event times, each from the reading before, which may be in an earlier
 * window. A value lower than the one before means that the counter restarted at 0.
 */
class Increase implements Accumulator {
  readonly #budget: Budget
  readonly #times = new Numbers()
  readonly #places = new Numbers()
  readonly #values = new Numbers()
  #isOrdered = true
  /** The value of the last reading; only known after the result. */
  #last: number | undefined

  constructor(budget: Budget) {
    this.#budget = budget
  }

  add(value: Scalar | KeyedTime, time: number | undefined, place: number): void {
    if (typeof value !== 'number' || time === undefined) return
    this.#budget.takeValues(3)
    this.#times.push(time)
    this.#places.push(place)
    this.#values.push(value)
    const index = this.#values.length - 1
    this.#isOrdered &&= index === 0 || this.#compare(index - 1, index) <= 0
  }

  async result(turn: Turn, before?: Accumulator): Promise<number | null> {
    const values = this.#values
    const order = this.#isOrdered ? undefined : await this.#order(turn)
    const increase = new ExactSum()
    let last = before instanceof Increase ? before.#last : undefined
    const isKnown = values.length >= (last === undefined ? 2 : 1)
    for (let index = 0; index < values.length; index++) {
      if (index % CHUNK === CHUNK - 1 && turn.isOver) await turn.next()
      const value = values.at(order?.[index] ?? index)
      if (last !== undefined) {
        increase.add(value)
        if (value >= last) increase.add(-last)
      }
      last = value
    }
    this.#last = last
    return isKnown ? increase.total : null
  }

  /** The indexes of the values by time; those of one item keep their order. */
  async #order(turn: Turn): Promise<Float64Array> {
    const indexes = Float64Array.from({ length: this.#values.length }, (_, index) => index)
    return mergeSort(indexes, turn, (a, b) => this.#compare(a, b) || a - b)
  }

  #compare(a: number, b: number): number {
    return this.#times.at(a) - this.#times.at(b) || this.#places.at(a) - this.#places.at(b)
  }
}

/** Exact, with linear interpolation between two numbers. */
class Percentile implements Accumulator {
  readonly #percent: number
  readonly #budget: Budget
  readonly #values = new Numbers()

  constructor(percent: number, budget: Budget) {
    this.#percent = percent
    this.#budget = budget
  }

  add(value: Scalar | KeyedTime): void {
    if (typeof value !== 'number') return
    this.#budget.takeValues(1)
    this.#values.push(value)
  }

  async result(turn: Turn): Promise<number | null> {
    const sorted = await mergeSort(this.#values.all, turn)
    const last = sorted.length - 1
    if (last < 0) return null
    // 0.29 is no double, so that 0.29 * 100 is less than 29.
    const rank = Number.isInteger(this.#percent) ? (this.#percent * last) / 100 : (this.#percent / 100) * last
    const low = sorted[Math.floor(rank)] as number
    const high = sorted[Math.ceil(rank)] as number
    return low + (high - low) * (rank - Math.floor(rank))
  }
}

/** A growing list of numbers. */
class Numbers {
  #values = new Float64Array(16)
  #count = 0

  push(value: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(2 * this.#count)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count++] = value
  }

  get length(): number {
    return this.#count
  }

  at(index: number): number {
    return this.#values[index] as number
  }

  get all(): Float64Array {
    return this.#values.subarray(0, this.#count)
  }
}

/** 32 MiB of numbers for percentiles and increases. */
const MOST_VALUES = 4 * 1024 * 1024
/** 32 MiB of text. */
const MOST_CHARACTERS = 16 * 1024 * 1024

/** Approximate memory of a group, and of an accumulator. */
const GROUP_BYTES = 400
const ACCUMULATOR_BYTES = 150
/** Bytes of a number in an array that grows. */
const VALUE_BYTES = 16

/** The memory that one response may use, held by its task. */
export class Budget {
  readonly #turn: Turn
  #values = MOST_VALUES
  #characters = MOST_CHARACTERS
  /** The lowest that `#characters` was. */
  #lowest = MOST_CHARACTERS

  constructor(turn: Turn) {
    this.#turn = turn
  }

  takeGroup(): void {
    this.#turn.hold(GROUP_BYTES)
  }

  takeAccumulators(count: number): void {
    this.#turn.hold(count * ACCUMULATOR_BYTES)
  }

  takeValues(count: number): void {
    this.#values -= count
    if (this.#values < 0) throw tooMuch('values for percentiles and delta')
    this.#turn.hold(count * VALUE_BYTES)
  }

  /** A negative number returns characters. */
  takeCharacters(characters: number): void {
    this.#characters -= characters
    if (this.#characters < 0) throw tooMuch('long texts')
    if (this.#characters >= this.#lowest) return
    this.#turn.hold(2 * (this.#lowest - this.#characters))
    this.#lowest = this.#characters
  }
}

function tooMuch(what: string): Refusal {
  return new Refusal(
    'Invalid',
    `There are too many ${what} in one answer: ask with more filters, or for fewer groups or windows at once.`,
  )
}

/**
 * An exact sum of numbers, rounded once. So it does not depend on their order, which is that of the collection or of an
 * index. It is kept as a list of numbers whose bits do not overlap (Shewchuk, "Adaptive Precision Floating-Point
 * Arithmetic", 1997, as in Python's `math.fsum`). Nothing overflows, as no item has a number beyond 2 ** 53.
 */
export class ExactSum {
  /** In ascending order. Their exact sum is that of all numbers. */
  readonly #parts: number[] = []

  get parts(): readonly number[] {
    return this.#parts
  }

  add(number: number): void {
    const parts = this.#parts
    let carried = number
    let kept = 0
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index] as number
      const sum = carried + part
      const lost = Math.abs(carried) < Math.abs(part) ? carried - (sum - part) : part - (sum - carried)
      if (lost !== 0) parts[kept++] = lost
      carried = sum
    }
    parts[kept] = carried
    if (parts.length > kept + 1) parts.length = kept + 1
  }

  /** Adds an exact product (Dekker, "A Floating-Point Technique for Extending the Available Precision", 1971). */
  addProduct(a: number, b: number): void {
    const product = a * b
    const [highA, highB] = [highBits(a), highBits(b)]
    const [lowA, lowB] = [a - highA, b - highB]
    this.add(product)
    this.add(lowA * lowB - (product - highA * highB - lowA * highB - highA * lowB))
  }

  get total(): number {
    const parts = this.#parts
    let at = parts.length - 1
    let sum = parts[at] ?? 0
    let lost = 0
    while (at > 0 && lost === 0) {
      const before = sum
      const part = parts[--at] as number
      sum = before + part
      lost = part - (sum - before)
    }
    // If the sum is half way between two doubles, the smaller parts decide.
    const next = parts[at - 1]
    if (next === undefined || lost === 0 || lost < 0 !== next < 0) return sum
    const twice = 2 * lost
    const other = sum + twice
    return other - sum === twice ? other : sum
  }
}

/** The upper 26 bits of a double: products of halves are exact. */
function highBits(number: number): number {
  const scaled = number * (2 ** 27 + 1)
  return scaled - (scaled - number)
}

/** The scalars at a path, including those in arrays. */
export function scalarsAt(item: JsonValue, path: Path): readonly Scalar[] {
  return valuesAt(item, path).filter(isScalar)
}

/** The first scalar at a path; null if there is none. */
export function firstScalar(item: JsonValue, path: Path): Scalar {
  return valuesAt(item, path).find(isScalar) ?? null
}

function isScalar(value: JsonValue): value is Scalar {
  return !isArray(value) && !isObject(value)
}
