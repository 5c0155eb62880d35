import type { CollectionItems } from '../../collections/stored-items.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import { type KeyCursor, type OrderedKeys, tupleOf } from '../../store/tree.ts'
import type { Query } from '../query.ts'
import { dividedAtMissing, type Order } from './access.ts'
import { Matching, type Places } from './matcher.ts'
import { bytesOf, type Counted, type IndexPlan } from './plan.ts'
import { END } from './ranges.ts'
import { comparing, type SortEntry, sortEntryOf } from './sort-keys.ts'
import { KIND, MISSING, placeKey } from './tuples.ts'

/** Keys of one tuple visited backwards to find its first key; for longer runs its rank is looked up. */
const MANY = 64

/**
 * The page of a query whose order is that of the index keys; the few items that the index does not order are merged.
 */
export function* inOrder(items: CollectionItems, query: Query, plan: IndexPlan): Steps<Places> {
  const { offset, size } = query.page
  const order = plan.access.order as Order
  const runs = yield* runsOf(plan, order)
  const others = plan.others > 0 ? yield* placedOthers(items, query, plan, runs) : []
  const listed = runs.reduce((sum, run) => sum + run.size, 0)
  const total = listed + others.length
  const places: number[] = []
  // Each of the others has a rank among all results: the keys before it, plus earlier others.
  let passed = 0
  while (passed < others.length && (others[passed] as Placed).before + passed < offset) passed++
  let at = offset - passed
  const end = Math.min(total, offset + size)
  while (offset + places.length < end) {
    const other = others[passed]
    const left = end - offset - places.length
    const wanted = other ? Math.min(left, other.before - at) : left
    if (wanted > 0) {
      yield* placesIn(plan.tree, runs, at, wanted, places)
      at += wanted
    } else {
      places.push((other as Placed).place)
      passed++
    }
  }
  return { places, total }
}

/** Keys to be read in one direction. */
interface Run extends Pick<Counted, 'before' | 'size'> {
  readonly descending: boolean
}

/** The runs in snapshot order: items without a value come last, in the collection's order. */
function* runsOf({ tree, single }: IndexPlan, { descending }: Order): Steps<Run[]> {
  if (!descending) return single.map(({ before, size }) => ({ before, size, descending }))
  const values: Run[] = []
  const missing: Run[] = []
  for (const { range, prefix, before, size } of single) {
    const [, rest] = dividedAtMissing(range, String.fromCharCode(KIND.single) + prefix)
    const middle = yield* tree.rank(bytesOf(rest.from))
    values.push({ before, size: middle - before, descending: true })
    missing.push({ before: middle, size: before + size - middle, descending: false })
  }
  return [...values.reverse(), ...missing]
}

/** Appends `count` places of the runs, starting at rank `from`. */
function* placesIn(
  tree: OrderedKeys,
  runs: readonly Run[],
  from: number,
  count: number,
  places: number[],
): Steps<void> {
  const end = places.length + count
  let passed = 0
  for (const { before, size, descending } of runs) {
    const start = Math.max(0, from - passed)
    const wanted = Math.min(size - start, end - places.length)
    passed += size
    if (wanted <= 0) continue
    if (descending) yield* takeDown(tree, before, size, start, wanted, places)
    else yield* take(yield* tree.nth(before + start), wanted, places)
  }
}

function* take(cursor: KeyCursor, count: number, places: number[]): Steps<void> {
  for (let left = count; left > 0; left--, cursor.next()) {
    places.push(cursor.place)
    if (left % STEP === 0) yield
  }
}

const STEP = 256

/** Descending, but within one tuple in the collection's order. */
function* takeDown(
  tree: OrderedKeys,
  before: number,
  size: number,
  start: number,
  count: number,
  places: number[],
): Steps<void> {
  const end = places.length + count
  let rank = before + size - 1 - start
  let cursor = yield* tree.nth(rank + 1)
  const above = start > 0 ? cursor.key : undefined
  cursor.previous()
  if (above && cursor.hasTupleOf(above)) {
    // The page begins within the keys of one tuple.
    const first = yield* tree.rank(tupleOf(above))
    const next = yield* tree.rank(aboveTuple(tupleOf(above)))
    const from = first + start - (before + size - next)
    yield* take(yield* tree.nth(from), Math.min(next - from, count), places)
    rank = first - 1
    cursor = yield* tree.nth(rank)
  }
  while (places.length < end) {
    const group = [cursor.place]
    const last = cursor.key as Buffer
    cursor.previous()
    while (group.length < MANY && rank - group.length >= before && cursor.hasTupleOf(last)) {
      group.push(cursor.place)
      cursor.previous()
    }
    if (group.length < MANY) {
      for (let at = group.length - 1; at >= 0 && places.length < end; at--) places.push(group[at] as number)
      rank -= group.length
    } else {
      const lowest = yield* tree.rank(tupleOf(last))
      yield* take(yield* tree.nth(lowest), Math.min(rank + 1 - lowest, end - places.length), places)
      if (places.length === end) return
      rank = lowest - 1
      cursor = yield* tree.nth(rank)
    }
    yield
  }
}

function aboveTuple(tuple: Buffer): Buffer {
  return Buffer.concat([tuple, Buffer.from(END, 'latin1')])
}

/** An item that the index does not order, with the number of keys before it. */
interface Placed {
  readonly place: number
  readonly before: number
}

/** Those of the items to be read individually that match, in the query's order. */
function* placedOthers(items: CollectionItems, query: Query, plan: IndexPlan, runs: readonly Run[]): Steps<Placed[]> {
  const { tree, access } = plan
  const seen = new Set<number>()
  for (const { from, to } of access.others) {
    const cursor = yield* tree.from(bytesOf(from))
    const end = bytesOf(to)
    for (let { key } = cursor; key && key.compare(end) < 0; { key } = cursor) {
      seen.add(cursor.place)
      cursor.next()
    }
  }
  const matches: SortEntry[] = []
  const order = access.order as Order
  const matching = new Matching(items, query)
  for (const place of seen) {
    const value = yield* matching.valueAt(place)
    if (value) matches.push(yield* sortEntryOf(value, place, order.sort))
  }
  matches.sort(comparing(order.sort))
  const placed: Placed[] = []
  for (const match of matches) {
    placed.push({ place: match.place, before: yield* keysBefore(match, plan, runs) })
    yield
  }
  return placed
}

/** The number of keys of the runs before an item. */
function* keysBefore({ keys, place }: SortEntry, { tree, single }: IndexPlan, runs: readonly Run[]): Steps<number> {
  const tuple = String.fromCharCode(KIND.single) + (single[0]?.prefix ?? '') + keys.join('')
  const lower = yield* tree.rank(bytesOf(tuple))
  const own = yield* tree.rank(bytesOf(tuple + placeKey(place)))
  const higher = yield* tree.rank(aboveTuple(bytesOf(tuple)))
  let count = 0
  for (const { before, size, descending } of runs) {
    const end = before + size
    if (descending && keys[0] === MISSING) count += size
    else if (!descending) count += within(own, before, end)
    // Keys of higher tuples, and those of its own tuple before it.
    else count += end - before - within(higher, before, end) + within(own, before, end) - within(lower, before, end)
  }
  return count
}

/** The number of keys in a rank range that come before a rank. */
function within(rank: number, from: number, to: number): number {
  return Math.min(Math.max(rank, from), to) - from
}
