import type { Item } from '../../collections/item.ts'
import type { CollectionItems } from '../../collections/stored-items.ts'
import { parseText } from '../../json/parse.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { KeyCursor } from '../../store/tree.ts'
import { type Conditions, type Filter, meetsConditions } from '../filter.ts'
import { withReceived } from '../parameter.ts'
import type { Query } from '../query.ts'
import type { IndexPlan } from './plan.ts'

/** The places of a page's items, in order. */
export interface Places {
  readonly places: readonly number[]
  readonly total: number
}

/** The place of an item that may match. */
export interface Candidate {
  readonly place: number
  /** Whether it certainly matches. */
  readonly isCertain: boolean
}

/** Each item once, however many keys it has; undefined for a further key of one. Without a plan, all items. */
export async function candidatesOf(
  items: CollectionItems,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Iterable<Candidate | undefined>> {
  if (!plan) return allOf(items)
  const { tree, access, single } = plan
  const ranges: SizedRange[] = []
  for (const { from, size } of single) ranges.push({ cursor: await tree.seek(from, turn), size })
  return inRanges(ranges, access.isExact, await othersOf(items, plan, turn))
}

/** The keys of a range, from a cursor at its first one. */
interface SizedRange {
  readonly cursor: KeyCursor
  readonly size: number
}

function* inRanges(
  ranges: readonly SizedRange[],
  isCertain: boolean,
  others: Iterable<Candidate | undefined>,
): Generator<Candidate | undefined> {
  for (const { cursor, size } of ranges)
    for (let left = size; left > 0; left--, cursor.next()) yield { place: cursor.place, isCertain }
  yield* others
}

function* allOf(items: CollectionItems): Generator<Candidate> {
  for (let place = items.seek(0); place < items.places; place = items.seek(place + 1)) yield { place, isCertain: false }
}

/** The items whose values the index does not know completely; undefined for a further key of one. */
export async function othersOf(
  items: CollectionItems,
  { tree, access, others }: IndexPlan,
  turn: Turn,
): Promise<Iterable<Candidate | undefined>> {
  if (others === 0) return []
  const ranges: BoundedRange[] = []
  for (const { from, to } of access.others) ranges.push({ cursor: await tree.seek(from, turn), end: to })
  return firstKeysIn(ranges, PlaceSet.of(items, turn))
}

/** The keys before `end`, from a cursor at the first one. */
interface BoundedRange {
  readonly cursor: KeyCursor
  readonly end: Buffer
}

function* firstKeysIn(ranges: readonly BoundedRange[], seen: PlaceSet): Generator<Candidate | undefined> {
  for (const { cursor, end } of ranges) {
    for (let { key } = cursor; key && key.compare(end) < 0; { key } = cursor) {
      yield seen.add(cursor.place) ? { place: cursor.place, isCertain: false } : undefined
      cursor.next()
    }
  }
}

/** Reads items and checks them against conditions. */
export class ItemMatcher {
  readonly #items: CollectionItems
  readonly #conditions: Conditions & Pick<Query, 'namesReceived'>

  constructor(items: CollectionItems, conditions: Conditions & Pick<Query, 'namesReceived'>) {
    this.#items = items
    this.#conditions = conditions
  }

  /** The item at a place; undefined if it does not match. With `isCertain` the conditions are not checked. */
  matchAt(place: number, isCertain = false): JsonObject | undefined {
    const item = this.#items.itemAt(place) as Item
    const { text } = item
    if (!isCertain && lacksTrace(text, this.#conditions)) return undefined
    const value = parseText(this.#conditions.namesReceived ? withReceived(text, item.timeMs) : text) as JsonObject
    return isCertain || meetsConditions(value, this.#conditions) ? value : undefined
  }
}

/** Searching a longer text takes as long as parsing it. */
const MOST_SEARCHED = 4096
/** Filters whose traces are searched in a text. */
const TRACED_FILTERS = 8

/** Whether the text of an item proves that it does not match, so that it need not be parsed. */
function lacksTrace(text: string, { filters }: Conditions): boolean {
  if (text.length > MOST_SEARCHED) return false
  for (let index = 0; index < filters.length && index < TRACED_FILTERS; index++) {
    const trace = (filters[index] as Filter).trace
    if (trace && !trace.test(text)) return true
  }
  return false
}

/** A bitmap of places. */
export class PlaceSet {
  readonly #bits: Uint32Array

  private constructor(words: number) {
    this.#bits = new Uint32Array(words)
  }

  /** An empty set of the places of a collection. */
  static of({ places }: Pick<CollectionItems, 'places'>, turn: Turn): PlaceSet {
    const words = Math.ceil(places / 32)
    turn.hold(words * Uint32Array.BYTES_PER_ELEMENT)
    return new PlaceSet(words)
  }

  /** False if it was already present. */
  add(place: number): boolean {
    const at = place >>> 5
    const bit = 1 << (place & 31)
    const bits = this.#bits[at] as number
    this.#bits[at] = bits | bit
    return (bits & bit) === 0
  }

  /** The first place at or after `place` in the set; undefined if there is none. */
  nextFrom(place: number): number | undefined {
    for (let at = place >>> 5; at < this.#bits.length; at++) {
      const mask = at === place >>> 5 ? -1 << (place & 31) : -1
      const bits = (this.#bits[at] as number) & mask
      // `bits & -bits` is the lowest of the bits.
      if (bits !== 0) return at * 32 + 31 - Math.clz32(bits & -bits)
    }
    return undefined
  }
}
