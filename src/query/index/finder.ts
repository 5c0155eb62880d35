import type { CollectionItems } from '../../collections/stored-items.ts'
import type { JsonObject } from '../../json/value.ts'
import { HighWaterMark } from '../../runtime/memory.ts'
import { type Turn, visitEach } from '../../runtime/turns.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import type { Query } from '../query.ts'
import { type Candidate, candidatesOf, ItemMatcher, type Places } from './candidates.ts'
import { placesInOrder } from './ordered-scan.ts'
import type { IndexPlan } from './plan.ts'
import { comparingEntries, FirstEntries, type SortEntry, sortEntryOf } from './sort-keys.ts'

/** Keys processed between two checks of the turn. */
const STEP = 256

/** The places of a query's page, and the number of matches on all pages. Uses an index if one helps. */
export async function findPlaces(
  snapshot: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Places> {
  const { items } = snapshot
  const { filters, others, sort, page } = query
  if (filters.length + others.length + sort.length === 0) return unfilteredPage(items, page, turn)
  if (plan?.isInOrder) return placesInOrder(items, query, plan, turn)
  if (plan || sort.length > 0) return sortedPage(items, query, plan, turn)
  const places: number[] = []
  let total = 0
  const each = (_: JsonObject, place: number): void => {
    if (total >= page.offset && places.length < page.size) places.push(place)
    total++
  }
  await visitMatches(snapshot, query, undefined, each, turn)
  return { places, total }
}

/** Without filters and sorts: the items in order. */
async function unfilteredPage(items: CollectionItems, { offset, size }: Query['page'], turn: Turn): Promise<Places> {
  const places: number[] = []
  for (let place = items.nth(offset); place < items.places && places.length < size; place = items.seek(place + 1)) {
    places.push(place)
    if (places.length % STEP === 0 && turn.isOver) await turn.next()
  }
  return { places, total: items.size }
}

/** The page of matching items in the query's order. Candidates are scanned several times if not all fit in memory. */
async function sortedPage(
  items: CollectionItems,
  query: Query,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Places> {
  const { page } = query
  const end = page.offset + page.size
  const places: number[] = []
  // Each scan finds matches after `last`, before which there are `passed` in all.
  let passed = 0
  let last: SortEntry | undefined
  const mark = new HighWaterMark(turn)
  for (;;) {
    const { found, total }: NextMatches = await nextMatches(items, query, plan, end - passed, last, mark, turn)
    for (const { place } of found.slice(Math.max(0, page.offset - passed))) places.push(place)
    passed += found.length
    last = found.at(-1)
    if (!last || passed >= Math.min(total, end)) return { places, total }
  }
}

interface NextMatches {
  readonly found: readonly SortEntry[]
  /** Number of matches, also of those before. */
  readonly total: number
}

/** The matching items after a given one in the query's order, up to a limit of number and memory, which `mark` holds. */
export async function nextMatches(
  items: CollectionItems,
  query: Query,
  plan: IndexPlan | undefined,
  most: number,
  last: SortEntry | undefined,
  mark: HighWaterMark,
  turn: Turn,
): Promise<NextMatches> {
  const { sort } = query
  const compare = comparingEntries(sort)
  const matcher = new ItemMatcher(items, query)
  const firsts = new FirstEntries(most, compare, mark, turn)
  let total = 0
  // A function of its own, as a suspended one would keep the item. Returns whether the entries must be sorted.
  const take = ({ place, isCertain }: Candidate, needsNoItem: boolean): boolean => {
    const item = needsNoItem ? {} : matcher.matchAt(place, isCertain)
    if (!item) return false
    total++
    const entry = sortEntryOf(item, place, sort)
    return (!last || compare(entry, last) > 0) && firsts.add(entry)
  }
  let steps = 0
  for (const candidate of await candidatesOf(items, plan, turn)) {
    // Without sorts, an item that certainly matches need not be read.
    const needsNoItem = candidate?.isCertain === true && sort.length === 0
    if (((candidate && !needsNoItem) || ++steps % STEP === 0) && turn.isOver) await turn.next()
    if (candidate && take(candidate, needsNoItem)) await firsts.sort()
  }
  return { found: await firsts.sort(), total }
}

/** Visits each item that meets the conditions, in any order. */
export async function visitMatches(
  { items }: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  visit: (item: JsonObject, place: number) => void,
  turn: Turn,
): Promise<void> {
  const matcher = new ItemMatcher(items, query)
  await visitEach(await candidatesOf(items, plan, turn), turn, (candidate) => {
    const value = candidate && matcher.matchAt(candidate.place, candidate.isCertain)
    if (value) visit(value, candidate.place)
  })
}
