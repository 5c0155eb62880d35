import type { CollectionItems } from '../../collections/stored-items.ts'
import { mergeSort } from '../../json/merge-sort.ts'
import { lastFrom, type Sort } from '../../json/order.ts'
import { type Turn, visitEach } from '../../runtime/turns.ts'
import { type KeyCursor, type OrderedKeys, tupleOf } from '../../store/tree.ts'
import type { Query } from '../query.ts'
import { ItemMatcher, othersOf, type Places } from './candidates.ts'
import { type IndexPlan, keyBuffer, type Order } from './plan.ts'
import { END } from './ranges.ts'
import { bytesOfEntry, comparingEntries, type SortEntry, sortEntryOf } from './sort-keys.ts'
import { KIND, placeKey } from './tuples.ts'

/** The page of a query in the order of the index keys; the few items that these do not order are merged. */
export async function placesInOrder(
  items: CollectionItems,
  query: Query,
  plan: IndexPlan,
  turn: Turn,
): Promise<Places> {
  const { offset, size } = query.page
  const order = plan.access.order as Order
  const ranges = await directedRanges(plan, order, turn)
  const others = plan.others > 0 ? await placedOthers(items, query, plan, ranges, turn) : []
  const listed = ranges.reduce((sum, { size }) => sum + size, 0)
  const total = listed + others.length
  const places: number[] = []
  // Each of the others has a rank among all results: the keys before it, plus earlier others.
  let passed = 0
  while (passed < others.length && (others[passed] as Placed).keysBefore + passed < offset) passed++
  // The next item of the page has `at` keys and `passed` of the others before it.
  let at = offset - passed
  const end = Math.min(total, offset + size)
  while (offset + places.length < end) {
    // Keys up to the next of the others, then that one itself.
    const other = others[passed]
    const left = end - offset - places.length
    const wanted = other ? Math.min(left, other.keysBefore - at) : left
    if (wanted > 0) {
      await appendPlaces(plan.tree, ranges, at, wanted, places, turn)
      at += wanted
    } else {
      places.push((other as Placed).place)
      passed++
    }
  }
  return { places, total }
}

/** Keys that are read in one direction. */
interface DirectedRange {
  readonly from: Buffer
  readonly size: number
  readonly descending: boolean
}

/** The ranges in the order of reading: items without a value come last, in the collection's order. */
async function directedRanges(
  { tree, single }: IndexPlan,
  { descending, sort }: Order,
  turn: Turn,
): Promise<DirectedRange[]> {
  if (!descending) return single.map(({ from, size }) => ({ from, size, descending }))
  const values: DirectedRange[] = []
  const missing: DirectedRange[] = []
  for (const { from, to, prefix, size } of single) {
    const last = keyBuffer(prefix + lastFrom(sort[0] as Sort))
    const middle = from.compare(last) > 0 ? from : to.compare(last) < 0 ? to : last
    const count = await tree.count(from, middle, turn)
    values.push({ from, size: count, descending: true })
    missing.push({ from: middle, size: size - count, descending: false })
  }
  return [...values.reverse(), ...missing]
}

/** Appends `count` places of the ranges, starting at rank `from`. */
async function appendPlaces(
  tree: OrderedKeys,
  ranges: readonly DirectedRange[],
  from: number,
  count: number,
  places: number[],
  turn: Turn,
): Promise<void> {
  const end = places.length + count
  let passed = 0
  for (const range of ranges) {
    const start = Math.max(0, from - passed)
    const wanted = Math.min(range.size - start, end - places.length)
    passed += range.size
    if (wanted <= 0) continue
    if (range.descending) await appendDescending(tree, range, start, wanted, places, turn)
    else await appendAscending(await tree.seek(range.from, turn, start), wanted, places, turn)
  }
}

async function appendAscending(cursor: KeyCursor, count: number, places: number[], turn: Turn): Promise<void> {
  for (let left = count; left > 0; left--, cursor.next()) {
    places.push(cursor.place)
    if (left % STEP === 0 && turn.isOver) await turn.next()
  }
}

const STEP = 256

/** Keys of one tuple that are visited backwards; the first key of a longer one is found by its rank. */
const MANY = 64

/** Descending, but within one tuple in the collection's order. */
async function appendDescending(
  tree: OrderedKeys,
  range: DirectedRange,
  start: number,
  count: number,
  places: number[],
  turn: Turn,
): Promise<void> {
  const end = places.length + count
  // The rank of a key is the number of keys of the range before it. The cursor is at the key of `rank`; all keys above it
  // are in `places` already, or before the page.
  let rank = range.size - 1 - start
  let cursor = await tree.seek(range.from, turn, rank + 1)
  /** Takes the keys of a tuple but the first ones, by their ranks. `next` is the rank of the key after the tuple. */
  const appendTuple = async (tuple: Buffer, next: number, skipped: number): Promise<void> => {
    const lowest = await tree.count(range.from, tuple, turn)
    const wanted = Math.min(next - lowest - skipped, end - places.length)
    await appendAscending(await tree.seek(range.from, turn, lowest + skipped), wanted, places, turn)
    rank = lowest - 1
    cursor = await tree.seek(range.from, turn, lowest)
    cursor.previous()
  }
  const above = start > 0 ? cursor.key : undefined
  cursor.previous()
  if (above && cursor.hasTupleOf(above)) {
    // The page begins within the keys of one tuple: its rest, in ascending order, comes first.
    const next = await tree.count(range.from, aboveTuple(tupleOf(above)), turn)
    await appendTuple(tupleOf(above), next, start - (range.size - next))
  }
  while (places.length < end) {
    const group = [cursor.place]
    const last = cursor.key as Buffer
    cursor.previous()
    while (group.length < MANY && rank - group.length >= 0 && cursor.hasTupleOf(last)) {
      group.push(cursor.place)
      cursor.previous()
    }
    if (group.length < MANY) {
      // All keys of the tuple were passed on the way down: they are read in reverse.
      for (let at = group.length - 1; at >= 0 && places.length < end; at--) places.push(group[at] as number)
      rank -= group.length
    } else await appendTuple(tupleOf(last), rank + 1, 0)
    if (turn.isOver) await turn.next()
  }
}

function aboveTuple(tuple: Buffer): Buffer {
  return Buffer.concat([tuple, Buffer.from(END, 'latin1')])
}

/** An item that the index does not order, with the number of keys before it. */
interface Placed {
  readonly place: number
  readonly keysBefore: number
}

/** Those of the items to be read individually that match, in the query's order. */
async function placedOthers(
  items: CollectionItems,
  query: Query,
  plan: IndexPlan,
  ranges: readonly DirectedRange[],
  turn: Turn,
): Promise<Placed[]> {
  const matches: SortEntry[] = []
  const order = plan.access.order as Order
  const matcher = new ItemMatcher(items, query)
  await visitEach(await othersOf(items, plan, turn), turn, (candidate) => {
    const value = candidate && matcher.matchAt(candidate.place)
    if (!value) return
    const match = sortEntryOf(value, candidate.place, order.sort)
    turn.hold(bytesOfEntry(match))
    matches.push(match)
  })
  const placed: Placed[] = []
  for (const match of await mergeSort(matches, turn, comparingEntries(order.sort))) {
    placed.push({ place: match.place, keysBefore: await countKeysBefore(match, order.sort, plan, ranges, turn) })
    if (turn.isOver) await turn.next()
  }
  return placed
}

/** The number of keys of the ranges before an item. */
async function countKeysBefore(
  { keys, place }: SortEntry,
  [sort]: readonly Sort[],
  { tree, single }: IndexPlan,
  ranges: readonly DirectedRange[],
  turn: Turn,
): Promise<number> {
  const isLast = sort !== undefined && (keys[0] as string) >= lastFrom(sort)
  const tuple = (single[0]?.prefix ?? String.fromCharCode(KIND.single)) + keys.join('')
  let count = 0
  for (const { from, size, descending } of ranges) {
    if (descending && isLast) {
      count += size
      continue
    }
    const own = Math.min(size, await tree.count(from, keyBuffer(tuple + placeKey(place)), turn))
    count += own
    if (!descending) continue
    // Keys of higher tuples, and those of its own tuple before it.
    const lower = Math.min(size, await tree.count(from, keyBuffer(tuple), turn))
    const notHigher = Math.min(size, await tree.count(from, aboveTuple(keyBuffer(tuple)), turn))
    count += size - notHigher - lower
  }
  return count
}
