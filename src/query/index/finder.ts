import type { Item } from '../../collections/item.ts'
import type { CollectionItems } from '../../collections/stored-items.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import type { Query } from '../query.ts'
import { Matching, type Places } from './matcher.ts'
import { inOrder } from './ordered-scan.ts'
import { bytesOf, type IndexPlan } from './plan.ts'
import { comparing, Firsts, type SortEntry, sortEntryOf } from './sort-keys.ts'

/** The result of a query: its page, and the number of matches on all pages. */
export interface PageItems {
  readonly items: readonly Item[]
  readonly total: number
}

/** Keys processed in one step. */
const STEP = 256
/** Items of a page read in one step. */
const READ = 16

/** Executes a query, with an index if one helps. */
export function* findPage(snapshot: CollectionSnapshot, query: Query, plan: IndexPlan | undefined): Steps<PageItems> {
  const { places, total } = yield* placesOf(snapshot, query, plan)
  const items: Item[] = []
  for (const place of places) {
    if (items.length % READ === READ - 1) yield
    items.push(snapshot.items.itemAt(place) as Item)
  }
  return { items, total }
}

function* placesOf({ items }: CollectionSnapshot, query: Query, plan: IndexPlan | undefined): Steps<Places> {
  const { filters, mentioned, sort, page } = query
  if (filters.length + mentioned.length + sort.length === 0) return yield* asTheyStand(items, page)
  if (plan?.isInOrder) return yield* inOrder(items, query, plan)
  if (plan) return yield* first(() => candidatesOf(items, plan), items, query)
  if (sort.length > 0) return yield* first(() => all(items), items, query)
  const places: number[] = []
  const matching = new Matching(items, query)
  let total = 0
  for (const { place } of all(items)) {
    if (!(yield* matching.valueAt(place))) continue
    if (total >= page.offset && places.length < page.size) places.push(place)
    total++
  }
  return { places, total }
}

/** Visits each item that meets the conditions, in any order. */
export function* matches(
  { items }: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  each: (item: JsonObject, place: number) => Steps<void> | void,
): Steps<void> {
  const matching = new Matching(items, query)
  let steps = 0
  for (const candidate of plan ? candidatesOf(items, plan) : all(items)) {
    if (++steps % STEP === 0) yield
    if (!candidate) continue
    const value = yield* matching.valueAt(candidate.place, candidate.matches)
    const more = value && each(value, candidate.place)
    if (more) yield* more
  }
}

/** Without filters and sorts: the items in order. */
function* asTheyStand(items: CollectionItems, { offset, size }: Query['page']): Steps<Places> {
  const places: number[] = []
  for (
    let place = yield* items.nth(offset);
    place < items.places && places.length < size;
    place = items.seek(place + 1)
  ) {
    places.push(place)
    if (places.length % STEP === 0) yield
  }
  return { places, total: items.size }
}

/** The place of an item that may match. */
export interface Candidate {
  readonly place: number
  /** Whether it certainly matches. */
  readonly matches: boolean
}

export function* all(items: CollectionItems): Generator<Candidate> {
  for (let place = items.seek(0); place < items.places; place = items.seek(place + 1)) yield { place, matches: false }
}

/** Each item once, however many keys it has. */
export function* candidatesOf(items: CollectionItems, plan: IndexPlan): Generator<Candidate | undefined> {
  const { tree, access, single } = plan
  for (const { range, size } of single) {
    const cursor = yield* tree.seek(bytesOf(range.from))
    for (let left = size; left > 0; left--, cursor.next()) yield { place: cursor.place, matches: access.isExact }
  }
  yield* othersOf(items, plan)
}

/** The items whose values the index does not know completely. */
export function* othersOf(
  items: CollectionItems,
  { tree, access, others }: IndexPlan,
): Generator<Candidate | undefined> {
  if (others === 0) return
  const seen = new PlaceSet(items.places)
  for (const { from, to } of access.others) {
    const cursor = yield* tree.seek(bytesOf(from))
    const end = bytesOf(to)
    for (let { key } = cursor; key && key.compare(end) < 0; { key } = cursor) {
      if (seen.add(cursor.place)) yield { place: cursor.place, matches: false }
      else yield undefined
      cursor.next()
    }
  }
}

/** The page of matching items in the query's order. Candidates are scanned several times if not all fit in memory. */
function* first(
  candidates: () => Generator<Candidate | undefined>,
  items: CollectionItems,
  query: Query,
): Steps<Places> {
  const { page } = query
  const places: number[] = []
  let passed = 0
  let last: SortEntry | undefined
  for (;;) {
    const most = page.offset + page.size - passed
    const { found, total }: Following = yield* following(candidates(), items, query, most, last)
    for (const [index, { place }] of found.entries()) if (passed + index >= page.offset) places.push(place)
    passed += found.length
    last = found.at(-1)
    if (!last || passed >= Math.min(total, page.offset + page.size)) return { places, total }
  }
}

interface Following {
  readonly found: readonly SortEntry[]
  /** Number of matches in total. */
  readonly total: number
}

/** The matching items after a given one in the query's order, up to a limit of number and memory. */
export function* following(
  candidates: Iterable<Candidate | undefined>,
  items: CollectionItems,
  query: Query,
  most: number,
  last: SortEntry | undefined,
): Steps<Following> {
  const { sort } = query
  const compare = comparing(sort)
  const matching = new Matching(items, query)
  const firsts = new Firsts(most, compare)
  let total = 0
  let steps = 0
  for (const candidate of candidates) {
    if (++steps % STEP === 0) yield
    if (!candidate) continue
    const { place, matches } = candidate
    if (matches && sort.length === 0) {
      total++
      const ranked = { place, keys: [] }
      if (!last || compare(ranked, last) > 0) firsts.add(ranked)
      continue
    }
    const value = yield* matching.valueAt(place, matches)
    if (!value) continue
    total++
    const ranked = yield* sortEntryOf(value, place, sort)
    if (!last || compare(ranked, last) > 0) firsts.add(ranked)
  }
  return { found: yield* firsts.take(), total }
}

/** A bitmap of places. */
export class PlaceSet {
  readonly #bits: Uint32Array

  constructor(places: number) {
    this.#bits = new Uint32Array(Math.ceil(places / 32))
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
  from(place: number): number | undefined {
    for (let at = place >>> 5; at < this.#bits.length; at++) {
      const left = at === place >>> 5 ? -1 << (place & 31) : -1
      const bits = (this.#bits[at] as number) & left
      if (bits !== 0) return at * 32 + 31 - Math.clz32(bits & -bits)
    }
    return undefined
  }
}
