import type { Item } from '../../collections/item.ts'
import type { CollectionItems } from '../../collections/stored-items.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { KeyCursor } from '../../store/tree.ts'
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

/** Keys processed between two looks at the turn. */
const STEP = 256

/** Executes a query, with an index if one helps. */
export async function findPage(
  snapshot: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<PageItems> {
  const { places, total } = await placesOf(snapshot, query, plan, turn)
  const items: Item[] = []
  for (const place of places) {
    if (turn.isOver) await turn.next()
    items.push(snapshot.items.itemAt(place) as Item)
  }
  return { items, total }
}

async function placesOf(
  snapshot: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Places> {
  const { items } = snapshot
  const { filters, mentioned, sort, page } = query
  if (filters.length + mentioned.length + sort.length === 0) return asTheyStand(items, page, turn)
  if (plan?.isInOrder) return inOrder(items, query, plan, turn)
  if (plan || sort.length > 0) return first(items, query, plan, turn)
  const places: number[] = []
  let total = 0
  const each = (_: JsonObject, place: number): void => {
    if (total >= page.offset && places.length < page.size) places.push(place)
    total++
  }
  await matches(snapshot, query, undefined, each, turn)
  return { places, total }
}

/** Visits each item that meets the conditions, in any order. */
export async function matches(
  { items }: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  each: (item: JsonObject, place: number) => void,
  turn: Turn,
): Promise<void> {
  const matching = new Matching(items, query)
  let steps = 0
  for (const candidate of await candidatesOf(items, plan, turn)) {
    if ((candidate || ++steps % STEP === 0) && turn.isOver) await turn.next()
    if (!candidate) continue
    const value = matching.valueAt(candidate.place, candidate.matches)
    if (value) each(value, candidate.place)
  }
}

/** Without filters and sorts: the items in order. */
async function asTheyStand(items: CollectionItems, { offset, size }: Query['page'], turn: Turn): Promise<Places> {
  const places: number[] = []
  for (
    let place = await items.nth(offset, turn);
    place < items.places && places.length < size;
    place = items.seek(place + 1)
  ) {
    places.push(place)
    if (places.length % STEP === 0 && turn.isOver) await turn.next()
  }
  return { places, total: items.size }
}

/** The place of an item that may match. */
export interface Candidate {
  readonly place: number
  /** Whether it certainly matches. */
  readonly matches: boolean
}

function* all(items: CollectionItems): Generator<Candidate> {
  for (let place = items.seek(0); place < items.places; place = items.seek(place + 1)) yield { place, matches: false }
}

/** Each item once, however many keys it has. */
export async function candidatesOf(
  items: CollectionItems,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Iterable<Candidate | undefined>> {
  if (!plan) return all(items)
  const { tree, access, single } = plan
  const runs: { readonly cursor: KeyCursor; readonly size: number }[] = []
  for (const { range, size } of single) runs.push({ cursor: await tree.seek(bytesOf(range.from), turn), size })
  const others = await othersOf(items, plan, turn)
  return (function* () {
    for (const { cursor, size } of runs)
      for (let left = size; left > 0; left--, cursor.next()) yield { place: cursor.place, matches: access.isExact }
    yield* others
  })()
}

/** The items whose values the index does not know completely; undefined for a further key of one. */
export async function othersOf(
  items: CollectionItems,
  { tree, access, others }: IndexPlan,
  turn: Turn,
): Promise<Iterable<Candidate | undefined>> {
  if (others === 0) return []
  const runs: { readonly cursor: KeyCursor; readonly end: Buffer }[] = []
  for (const { from, to } of access.others)
    runs.push({ cursor: await tree.seek(bytesOf(from), turn), end: bytesOf(to) })
  return (function* () {
    const seen = new PlaceSet(items.places)
    for (const { cursor, end } of runs) {
      for (let { key } = cursor; key && key.compare(end) < 0; { key } = cursor) {
        yield seen.add(cursor.place) ? { place: cursor.place, matches: false } : undefined
        cursor.next()
      }
    }
  })()
}

/** The page of matching items in the query's order. Candidates are scanned several times if not all fit in memory. */
async function first(items: CollectionItems, query: Query, plan: IndexPlan | undefined, turn: Turn): Promise<Places> {
  const { page } = query
  const places: number[] = []
  let passed = 0
  let last: SortEntry | undefined
  for (;;) {
    const most = page.offset + page.size - passed
    const { found, total }: Following = await following(items, query, plan, most, last, turn)
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
export async function following(
  items: CollectionItems,
  query: Query,
  plan: IndexPlan | undefined,
  most: number,
  last: SortEntry | undefined,
  turn: Turn,
): Promise<Following> {
  const { sort } = query
  const compare = comparing(sort)
  const matching = new Matching(items, query)
  const firsts = new Firsts(most, compare)
  let total = 0
  let steps = 0
  for (const candidate of await candidatesOf(items, plan, turn)) {
    // Without sorts, an item that certainly matches need not be read.
    const isKnown = candidate?.matches === true && sort.length === 0
    if (((candidate && !isKnown) || ++steps % STEP === 0) && turn.isOver) await turn.next()
    if (!candidate) continue
    const { place, matches } = candidate
    const item = isKnown ? {} : matching.valueAt(place, matches)
    if (!item) continue
    total++
    const entry = sortEntryOf(item, place, sort)
    if ((!last || compare(entry, last) > 0) && firsts.add(entry)) await firsts.sort(turn)
  }
  return { found: await firsts.sort(turn), total }
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
