import { compareText } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import type { Column } from './column.ts'
import { isNumeric, SECTION } from './entries.ts'

/** Steps of a loop between which others may have a turn. */
const STEP = 8192
/** Texts that are held once while an index is sorted; of more than these each is compared by itself. */
const DISTINCT = 50_000

/** A step of its own: with memory for many V8 may give a part of a collection of garbage, which takes 10 ms. */
function* arrayOf(size: number): Steps<Uint32Array> {
  yield
  return new Uint32Array(size)
}

/** The places of a section in the order of their keys, those of one key in their own. */
export function* sorted(column: Column, section: number): Steps<Uint32Array> {
  const places = yield* arrayOf(column.counts[section] as number)
  let count = 0
  for (let place = 0; place < column.places; place++) {
    if (column.section(place) === section) places[count++] = place
    if (place % STEP === 0) yield
  }
  if (isNumeric(section)) return yield* sortedByNumber(places, (place) => column.number(place))
  // V8 hashes a long text by its length alone, so that to look up many of one length takes long.
  if (section === SECTION.text && !column.hasLongKeys) {
    const ranks = yield* ranksOfTexts(column, places)
    if (ranks) return yield* sortedByNumber(places, (place) => ranks.get(column.key(place) as string) as number)
  }
  return yield* merged(places, (a, b) => column.compareAt(section, a, b) || a - b, column.hasLongKeys ? LONG_RUN : RUN)
}

/** The rank of each text among all that there are; undefined when there are too many. */
function* ranksOfTexts(column: Column, places: Uint32Array): Steps<Map<string, number> | undefined> {
  const ranks = new Map<string, number>()
  for (let index = 0; index < places.length; index++) {
    ranks.set(column.key(places[index] as number) as string, 0)
    if (ranks.size > DISTINCT) return undefined
    if (index % STEP === 0) yield
  }
  const texts = [...ranks.keys()]
  const order = yield* merged(Uint32Array.from(texts.keys()), (a, b) =>
    compareText(texts[a] as string, texts[b] as string),
  )
  for (const [rank, index] of order.entries()) ranks.set(texts[index] as string, rank)
  return ranks
}

const DIGIT = 2 ** 16
const SIGN = 2 ** 31

interface Digits {
  readonly places: Uint32Array
  readonly low: Uint32Array
  readonly high: Uint32Array
}

function* digitsOf(places: Uint32Array): Steps<Digits> {
  return { places, low: yield* arrayOf(places.length), high: yield* arrayOf(places.length) }
}

/** By a number of each, stable: digit for digit of its bits, the last first. */
function* sortedByNumber(places: Uint32Array, numberOf: (place: number) => number): Steps<Uint32Array> {
  const size = places.length
  const view = new DataView(new ArrayBuffer(8))
  let from = yield* digitsOf(places)
  const counts = [0, 1, 2, 3].map(() => new Uint32Array(DIGIT))
  let before = Number.NEGATIVE_INFINITY
  let isInOrder = true
  for (let index = 0; index < size; index++) {
    if (index % STEP === 0) yield
    const number = numberOf(places[index] as number)
    if (number < before) isInOrder = false
    before = number
    view.setFloat64(0, number)
    // The order of the bits is that of the numbers once the sign is turned, and of negative numbers all.
    let high = view.getUint32(0)
    let low = view.getUint32(4)
    if (high >= SIGN) {
      high = ~high >>> 0
      low = ~low >>> 0
    } else high = (high | SIGN) >>> 0
    from.low[index] = low
    from.high[index] = high
    for (const digit of [0, 1, 2, 3]) {
      const count = counts[digit] as Uint32Array
      const at = digitOf(digit, low, high)
      count[at] = (count[at] as number) + 1
    }
  }
  if (isInOrder) return places
  let to = yield* digitsOf(yield* arrayOf(size))
  for (const digit of [0, 1, 2, 3]) {
    const count = counts[digit] as Uint32Array
    if (count[digitOf(digit, from.low[0] as number, from.high[0] as number)] === size) continue
    let start = 0
    for (let at = 0; at < DIGIT; at++) {
      const here = count[at] as number
      count[at] = start
      start += here
    }
    for (let index = 0; index < size; index++) {
      if (index % STEP === 0) yield
      const low = from.low[index] as number
      const high = from.high[index] as number
      const at = digitOf(digit, low, high)
      const target = count[at] as number
      count[at] = target + 1
      to.places[target] = from.places[index] as number
      to.low[target] = low
      to.high[target] = high
    }
    ;[from, to] = [to, from]
  }
  return from.places
}

function digitOf(digit: number, low: number, high: number): number {
  const half = digit < 2 ? low : high
  return digit % 2 === 0 ? half & 0xffff : half >>> 16
}

const RUN = 64
const LONG_RUN = 8

/** By comparing: short runs first, then twice as long ones from two each. */
function* merged(places: Uint32Array, compare: (a: number, b: number) => number, run = RUN): Steps<Uint32Array> {
  for (let start = 0; start < places.length; start += run) {
    places.subarray(start, start + run).sort(compare)
    yield
  }
  let from: Uint32Array = places
  let to: Uint32Array = yield* arrayOf(places.length)
  for (let length = run; length < places.length; length *= 2) {
    for (let start = 0; start < places.length; start += 2 * length) {
      const middle = Math.min(start + length, places.length)
      const end = Math.min(middle + length, places.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || compare(from[left] as number, from[right] as number) <= 0)
        to[at] = from[takesLeft ? left++ : right++] as number
        if (at % run === 0) yield
      }
    }
    ;[from, to] = [to, from]
  }
  return from
}
