import { hash } from 'node:crypto'
import type { Item } from '../../collections/item.ts'
import { eventTime, instantOf } from '../../json/instant.ts'
import { mergeSort } from '../../json/merge-sort.ts'
import { comparingKeys } from '../../json/order.ts'
import { orderKey, timeKey, timeKeyAt } from '../../json/order-key.ts'
import { parseText } from '../../json/parse.ts'
import { firstAt, formatPath, type Path } from '../../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, put } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { Filter } from '../filter.ts'
import {
  type Accumulator,
  accumulatorOf,
  Budget,
  characterCount,
  firstScalar,
  KeyedTime,
  MOST_COMPARED,
  type Scalar,
  scalarsAt,
} from './accumulator.ts'
import { type Aggregation, isSame } from './aggregation.ts'

/** Approximate memory of the keys of a group besides their characters. */
const KEYS_BYTES = 200

/** Highest number of values of one item that all aggregates take, as they are added without a pause. */
const MOST_VALUES = 20_000

interface RowsOptions {
  readonly aggregation: Aggregation
  /** The range in which empty windows are filled, besides that of the items. */
  readonly bounds: TimeBounds
  readonly mostRows: number
  readonly itemAt: (place: number) => Item | undefined
  readonly turn: Turn
}

export interface Group {
  /** Its values as JSON. */
  readonly text: string
  /** The place of the first item of the group, whose spelling of an event time the row has. */
  place: number
  values: readonly Scalar[]
  /** By the beginning of the window; a single entry 0 without windows. */
  readonly windows: Map<number, readonly Accumulator[]>
}

/** Assigns items to groups and windows, and creates a row for each. */
export class Rows {
  readonly #options: RowsOptions
  readonly #budget: Budget
  /** By `mapKey` of their texts. */
  readonly #groups = new Map<string, Group>()
  /** Which of the groups are event times. */
  readonly #isTime: readonly boolean[]
  #count = 0

  constructor(options: RowsOptions) {
    const { groupBy, time } = options.aggregation
    this.#isTime = groupBy.map((path) => isSame(path, time))
    this.#options = options
    this.#budget = new Budget(options.turn)
  }

  add(item: JsonObject, place: number): void {
    const { aggregation } = this.#options
    const { time } = aggregation
    const at = time ? eventTime(item, time) : 0
    // An item without event time is in no window.
    if (aggregation.window && at === undefined) return
    const groups = aggregation.groupBy.map((path, index) => this.#groupValue(item, path, index))
    const accumulators = this.accumulators(this.groupOf(groups, place), at)
    let values = 0
    for (const [index, { path, isTime }] of aggregation.aggregates.entries()) {
      const accumulator = accumulators[index] as Accumulator
      if (!path) accumulator.add(null, 0, place)
      else if (isTime) {
        const key = timeKeyAt(item, path)
        if (key !== undefined) accumulator.add(new KeyedTime(key, place), at, place)
      } else {
        for (const value of scalarsAt(item, path)) {
          if (++values > MOST_VALUES) {
            const advice = 'ask for fewer at once, or with more filters'
            throw new Refusal('Invalid', `The aggregates take more than ${MOST_VALUES} values of one item: ${advice}.`)
          }
          accumulator.add(value, at, place)
        }
      }
    }
  }

  /** In the order of groups, then of time. */
  async rows(turn: Turn): Promise<JsonObject[]> {
    const { aggregation } = this.#options
    // Without groups there is one, also of no items.
    if (aggregation.groupBy.length === 0) {
      const group = this.groupOf([])
      if (!aggregation.window) this.accumulators(group, undefined)
    }
    const filled = this.#filledWindows()
    const rows: JsonObject[] = []
    for (const group of await this.#sortedGroups(turn)) {
      let previous: JsonObject | undefined
      let before: readonly Accumulator[] | undefined
      for (const start of filled ? this.#windowStarts(filled) : [...group.windows.keys()].sort((a, b) => a - b)) {
        if (turn.isOver) await turn.next()
        const row = await this.#rowOf(group, start, previous, before, turn)
        before = group.windows.get(start) ?? before
        rows.push(row)
        if (rows.length > this.#options.mostRows) throw tooManyRows(this.#options.mostRows)
        previous = row
      }
    }
    return rows
  }

  /** By their values. Those that compare as equal are sorted by their text. */
  async #sortedGroups(turn: Turn): Promise<readonly Group[]> {
    const keyed: { readonly group: Group; readonly keys: readonly string[] }[] = []
    for (const group of this.#groups.values()) {
      if (turn.isOver) await turn.next()
      const keyOf = (one: Scalar, index: number) => (this.#isTime[index] ? timeKey : orderKey)(one, MOST_COMPARED)
      const keys = group.values.map(keyOf)
      turn.hold(KEYS_BYTES + keys.reduce((sum, key) => sum + key.length, 0))
      keyed.push({ group, keys: [...keys, group.text] })
    }
    const compare = comparingKeys([])
    const sorted = await mergeSort(keyed, turn, (a, b) => compare(a.keys, b.keys))
    return sorted.map(({ group }) => group)
  }

  /** The group with these values, which are those of the item at a place. Only event times need the place. */
  groupOf(values: readonly Scalar[], place = 0): Group {
    const text = JSON.stringify(values.map((one, index) => this.#identify(one, index)))
    const key = mapKey(text)
    const known = this.#groups.get(key)
    if (known) {
      if (place < known.place) {
        known.place = place
        known.values = values
      }
      return known
    }
    this.#budget.takeGroup()
    this.#budget.takeCharacters(text.length)
    const group = { text, values, place, windows: new Map() }
    this.#groups.set(key, group)
    return group
  }

  #groupValue(item: JsonObject, path: Path, index: number): Scalar {
    if (!this.#isTime[index]) return firstScalar(item, path)
    // An instant in a list is no event time.
    const value = firstAt(item, path)
    return isArray(value) || isObject(value) ? null : (value ?? null)
  }

  /** The spellings of an instant have the same identity. */
  #identify(value: Scalar, index: number): JsonValue {
    return this.#isTime[index] && instantOf(value) ? [timeKey(value)] : value
  }

  /** The accumulators of a group, one for each aggregate; with windows, those of the event time's window. */
  accumulators({ windows }: Group, at: number | undefined): readonly Accumulator[] {
    const start = this.#options.aggregation.window?.start(at as number) ?? 0
    const known = windows.get(start)
    if (known) return known
    if (++this.#count > this.#options.mostRows) throw tooManyRows(this.#options.mostRows)
    this.#budget.takeAccumulators(this.#options.aggregation.aggregates.length)
    const accumulators = this.#options.aggregation.aggregates.map((aggregate) => accumulatorOf(aggregate, this.#budget))
    windows.set(start, accumulators)
    return accumulators
  }

  /** `previous` is the row of the window before, and `before` the accumulators of the last one with items. */
  async #rowOf(
    { values, windows }: Group,
    start: number,
    previous: JsonObject | undefined,
    before: readonly Accumulator[] | undefined,
    turn: Turn,
  ): Promise<JsonObject> {
    const { aggregation } = this.#options
    const row: Record<string, JsonValue> = {}
    for (const [index, path] of aggregation.groupBy.entries()) put(row, formatPath(path), values[index] as Scalar)
    if (aggregation.window) row.window = aggregation.window.text(start)
    const accumulators = windows.get(start)
    for (const [index, { name, path, function: aggregate }] of aggregation.aggregates.entries()) {
      const accumulator = accumulators?.[index]
      const found = await accumulator?.result(turn, before?.[index])
      if (found instanceof KeyedTime) {
        if (turn.isOver) await turn.next()
        const time = this.#timeAt(found.place, path as Path)
        this.#budget.takeCharacters(characterCount(time))
        put(row, name, time)
      } else if (found !== undefined) put(row, name, found)
      else if (aggregate === 'count') put(row, name, 0)
      else put(row, name, (aggregation.fill === 'previous' ? previous?.[name] : null) ?? null)
    }
    return row
  }

  #timeAt(place: number, path: Path): Scalar {
    return firstScalar(parseText(this.#options.itemAt(place)?.text ?? 'null') as JsonObject, path)
  }

  /** The first and the last window that are filled; undefined if none is. */
  #filledWindows(): readonly [number, number] | undefined {
    const { bounds, aggregation } = this.#options
    const { window, fill } = aggregation
    if (!window || fill === 'none' || bounds.from > bounds.to) return undefined
    let first = Number.isFinite(bounds.from) ? window.start(bounds.from) : Number.POSITIVE_INFINITY
    let last = Number.isFinite(bounds.to) ? window.start(bounds.to) : Number.NEGATIVE_INFINITY
    for (const { windows } of this.#groups.values()) {
      for (const start of windows.keys()) {
        first = Math.min(first, start)
        last = Math.max(last, start)
      }
    }
    return first <= last ? [first, last] : undefined
  }

  *#windowStarts([first, last]: readonly [number, number]): Generator<number> {
    const { window } = this.#options.aggregation
    for (let start = first; start <= last; start = window ? window.until(start) : last + 1) yield start
  }
}

export function tooManyRows(most: number): Refusal {
  return new Refusal(
    'Invalid',
    `The answer would have more than ${most} rows: ask for longer windows, fewer groups, or with more filters.`,
  )
}

/** Instants in milliseconds since 1970, infinite if there is no bound. Both are inclusive. */
interface TimeBounds {
  readonly from: number
  readonly to: number
}

/** The earliest and the latest millisecond that the filters on the event time leave. */
export function timeBounds(filters: readonly Filter[], time: Path | undefined): TimeBounds {
  let from = Number.NEGATIVE_INFINITY
  let to = Number.POSITIVE_INFINITY
  const field = time && formatPath(time)
  for (const { path, operator, operands } of filters) {
    const instants = operands.flatMap(({ instant }) => (instant ? [instant.ms + instant.micros / 1000] : []))
    if (instants.length === 0 || formatPath(path) !== field) continue
    // Any of several operands may match.
    if (operator === 'gt' || operator === 'gte') from = Math.max(from, Math.min(...instants))
    else if (operator === 'lte') to = Math.min(to, Math.max(...instants))
    else if (operator === 'lt') to = Math.min(to, Math.ceil(Math.max(...instants)) - 1)
  }
  return { from, to }
}

/** The longest text that V8 hashes. */
const MOST_HASHED = 16_383

/** A key for a map. Longer texts of the same length have the same hash: each look-up would compare one with all others. */
function mapKey(text: string): string {
  return text.length > MOST_HASHED ? hash('sha256', text, 'base64') : text
}

/** The newest item of a group. */
interface Newest {
  /** The order key of the group. */
  readonly key: string
  readonly time: number
  readonly place: number
}

/** Finds the newest item of each group by event time; of two with the same time, the last one in the collection. */
export class NewestItems {
  readonly #path: Path
  readonly #time: Path
  readonly #most: number
  readonly #budget: Budget
  /** By `mapKey` of their order keys. */
  readonly #groups = new Map<string, Newest>()

  constructor(path: Path, time: Path, most: number, turn: Turn) {
    this.#budget = new Budget(turn)
    this.#path = path
    this.#time = time
    this.#most = most
  }

  add(item: JsonObject, place: number): void {
    const time = eventTime(item, this.#time)
    if (time !== undefined) this.addValues(firstScalar(item, this.#path), time, place)
  }

  /** Adds an item by its values from an index. */
  addValues(group: Scalar, time: number, place: number): void {
    const key = orderKey(group)
    const shortKey = mapKey(key)
    const known = this.#groups.get(shortKey)
    if (known && (known.time - time || known.place - place) > 0) return
    if (!known) {
      this.#budget.takeGroup()
      this.#budget.takeCharacters(key.length)
    }
    this.#groups.set(shortKey, { key: known?.key ?? key, time, place })
    if (this.#groups.size > this.#most) {
      throw new Refusal('Invalid', `There are more than ${this.#most} groups: ask with more filters.`)
    }
  }

  /** In the order of the groups. */
  async places(turn: Turn): Promise<readonly number[]> {
    const sorted = await mergeSort([...this.#groups.values()], turn, (a, b) => (a.key < b.key ? -1 : 1))
    return sorted.map(({ place }) => place)
  }
}
