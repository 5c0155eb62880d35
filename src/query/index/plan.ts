import type { Sort } from '../../json/order.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import type { Turn } from '../../runtime/turns.ts'
import type { OrderedKeys } from '../../store/tree.ts'
import { type Needs, needsOf } from '../aggregate/aggregation.ts'
import type { CollectionSnapshot } from '../collection-snapshot.ts'
import type { Filter } from '../filter.ts'
import { isReceived } from '../parameter.ts'
import type { Query } from '../query.ts'
import { END, intersect, type Range, rangesOf } from './ranges.ts'
import type { StoredIndex } from './stored-index.ts'
import { KIND, MOST_PATHS, mostPartLength } from './tuples.ts'

/** This many items may be read individually, regardless of filters and sorts. */
export const FEW = 200
/** This many items that the index does not order are read individually and merged. */
const FEW_OTHERS = 1000

/** How many keys can be read in the time that reading one item takes, roughly. */
const KEYS_PER_ITEM = 16

/** About how long reading an item takes, in milliseconds. */
export const ITEM_MS = 0.005

/** The prefix of keys of items that the index orders. */
const SINGLE = Buffer.from([KIND.single])

/** The result of planning: an index and its relevant keys. */
export interface IndexPlan {
  readonly index: StoredIndex
  readonly tree: OrderedKeys
  readonly access: Access
  /** The ranges of the access that are not empty. */
  readonly single: readonly CountedRange[]
  /** Number of keys whose items must be read. */
  readonly others: number
  /** Total number of keys. */
  readonly size: number
  /** The cost of reading the index, as a number of items to read. */
  readonly cost: number
  /** Whether the page consists of consecutive keys, apart from a few items to be merged. */
  readonly isInOrder: boolean
}

/** A range, with the number of keys in it. */
interface CountedRange extends SingleRange {
  readonly size: number
}

/** How an index helps with a query. */
interface Access {
  /** The ranges of matching keys of the kind `single`, in order. */
  readonly single: readonly SingleRange[]
  /** The same for the kinds `several` and `unknown`, whose items must be read. */
  readonly others: readonly KeyRange[]
  /** Whether a `single` key in the ranges proves that its item matches. */
  readonly isExact: boolean
  /** How keys with a common prefix must be read to be in the query's order; undefined if they are not. */
  readonly order: Order | undefined
  /**
   * Only if `single` keys have all values that a query for groups needs: for each path of the index, the ranges of
   * its filters.
   */
  readonly covered: readonly (readonly Range[] | undefined)[] | undefined
}

/** Keys of the kind `single`. */
interface SingleRange extends KeyRange {
  /** The beginning of its keys, as latin1: the kind, and the parts that the filters fix. */
  readonly prefix: string
}

/** Keys of an index from `from` to before `to`. */
interface KeyRange {
  readonly from: Buffer
  readonly to: Buffer
}

export interface Order {
  /** The sorts that the keys follow after the prefix; empty for the collection's order. */
  readonly sort: readonly Sort[]
  readonly descending: boolean
  /** Sorts by paths that the filters fix are left out. That is not sufficient for items with several values there. */
  readonly leavesOut: boolean
}

/** The index with the fewest items to read; undefined if scanning all items is as good. */
export async function planOf(
  snapshot: CollectionSnapshot,
  accessPaths: AccessPaths,
  turn: Turn,
): Promise<IndexPlan | undefined> {
  let best: IndexPlan | undefined
  for (const index of snapshot.indexes) {
    const access = accessPaths.accessBy(index.paths)
    if (!access) continue
    const plan = await countKeys(index, await snapshot.keysOf(index, turn), access, turn)
    if (plan.isInOrder) return plan
    if (plan.cost < (best?.cost ?? snapshot.items.size)) best = plan
  }
  return best
}

/** Counts the keys of each range, and so the cost of reading the index. */
async function countKeys(index: StoredIndex, tree: OrderedKeys, access: Access, turn: Turn): Promise<IndexPlan> {
  const single: CountedRange[] = []
  let size = 0
  for (const range of access.single) {
    const within = await tree.count(range.from, range.to, turn)
    if (within > 0) single.push({ ...range, size: within })
    size += within
    if (turn.isOver) await turn.next()
  }
  let others = 0
  if ((await tree.count(Buffer.alloc(0), SINGLE, turn)) > 0) {
    for (const { from, to } of access.others) others += await tree.count(from, to, turn)
  }
  const isOfOne = single.every(({ prefix }) => prefix === single[0]?.prefix)
  const most = access.order?.leavesOut ? 0 : FEW_OTHERS
  const isInOrder = access.isExact && access.order !== undefined && isOfOne && others <= most
  const cost = others + (access.covered ? size / KEYS_PER_ITEM : size)
  return { index, tree, access, single, others, size: size + others, cost, isInOrder }
}

/** Combining several filters stops at this number of ranges. */
const MOST_RANGES = 256

/** The filters on one path. */
interface PathFilters {
  readonly path: Path
  readonly ranges: readonly Range[]
  /** The ranges of the first filter alone: different values of an item may match different filters. */
  readonly ofFirst: readonly Range[]
  readonly isExact: boolean
  readonly isFixed: boolean
}

/** How indexes can help with a query: its filters by path, as far as order keys help, and its sorts. */
export class AccessPaths {
  readonly #sort: readonly Sort[]
  /** By name of the path. */
  readonly #paths = new Map<string, PathFilters>()
  /** Number of filters in total, with other conditions, and of those that are in `#paths`. */
  readonly #filterCount: number
  #usableCount = 0
  /** Only for a query for groups. */
  readonly #needs: Needs | undefined

  constructor({ filters, others, sort, grouping }: Pick<Query, 'filters' | 'others' | 'sort' | 'grouping'>) {
    this.#filterCount = filters.length + others.length
    this.#needs = grouping && needsOf(grouping)
    // A query for groups sorts its rows, not its items.
    this.#sort = grouping ? [] : sort
    for (const filter of filters) this.#add(filter)
  }

  /** How an index of these paths helps; undefined if it does not. */
  accessBy(paths: readonly Path[]): Access | undefined {
    if (paths.some(isReceived)) return undefined
    // The filters on the first `used` paths leave these ranges of tuples, each with its fixed beginning in `prefixes`.
    // The first `fixed` paths have single values. `others` are the ranges for tuples of items with several values.
    let ranges: Range[] = [{ from: '', to: END, isPoint: true }]
    let prefixes = ['']
    let others = ranges
    let areOthersFixed = true
    let used = 0
    let fixed = 0
    let isExact = true
    for (const path of paths) {
      const filters = this.#paths.get(formatPath(path))
      if (!filters || ranges.length * filters.ranges.length > MOST_RANGES) break
      used++
      isExact &&= filters.isExact
      if (areOthersFixed && others.length * filters.ofFirst.length <= MOST_RANGES) {
        const cut = filters.ofFirst.map((range) => cutAfter(range, mostPartLength(paths.length)))
        areOthersFixed = cut.every(({ isPoint }) => isPoint)
        others = product(others, cut)
      } else areOthersFixed = false
      const before = ranges
      ranges = product(before, filters.ranges)
      // Behind a range, the next part of the tuple does not narrow it.
      if (!filters.isFixed) {
        prefixes = before.flatMap(({ from }) => filters.ranges.map(() => from))
        break
      }
      prefixes = ranges.map(({ from }) => from)
      fixed++
    }
    const order = this.#needs ? undefined : this.#orderOf(paths, fixed)
    const covered = this.#coveredBy(paths)
    if (used === 0 && !order && !covered) return undefined
    const single = String.fromCharCode(KIND.single)
    const several = String.fromCharCode(KIND.several)
    return {
      single: ranges.map((range, at) => ({ ...keyRange(single, range), prefix: single + prefixes[at] })),
      others: [
        { from: keyBuffer(String.fromCharCode(KIND.unknown)), to: keyBuffer(several) },
        ...others.map((range) => keyRange(several, range)),
      ],
      isExact: isExact && this.#usableCount === this.#filterCount && used === this.#paths.size,
      order,
      covered,
    }
  }

  /** The paths of the most helpful index; empty if none would help. */
  get ideal(): readonly Path[] {
    return this.#pathsForGroups ?? this.#pathsForItems
  }

  /** Whether an index of these paths, which covers a query for groups, has the best order for it. */
  isCoveredWellBy(paths: readonly Path[]): boolean {
    const names = paths.map(formatPath)
    return this.#leadingGroupPaths.every((path, index) => names[index] === formatPath(path))
  }

  /** The paths that an index should begin with, so that the keys of a group and window are consecutive. */
  get #leadingGroupPaths(): readonly Path[] {
    const { groups = [], time } = this.#needs ?? {}
    return unique([...this.#filtered(true), ...groups, ...(time ? [time] : []), ...this.#filtered(false)])
  }

  /** The paths of the best index that covers a query for groups; undefined if there is none. */
  get #pathsForGroups(): readonly Path[] | undefined {
    if (!this.#needs) return undefined
    const paths = unique([...this.#leadingGroupPaths, ...this.#needs.values])
    // Virtual fields are not indexed.
    if (paths.some(isReceived)) return undefined
    return paths.length > 0 && paths.length <= MOST_PATHS && this.#coveredBy(paths) ? paths : undefined
  }

  /** The paths with filters for single values, or those with ranges, by name: equal queries must want the same index. */
  #filtered(isFixed: boolean): readonly Path[] {
    const filters = [...this.#paths].filter(([, one]) => one.isFixed === isFixed)
    return filters.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { path }]) => path)
  }

  /** The ranges of the filters by path, if an index of these paths has all values that a query for groups needs. */
  #coveredBy(paths: readonly Path[]): Access['covered'] {
    if (!this.#needs || this.#usableCount < this.#filterCount) return undefined
    const { groups, time, values, computesWithTimes } = this.#needs
    if (computesWithTimes) return undefined
    const names = new Set(paths.map(formatPath))
    const isThere = (path: Path): boolean => names.has(formatPath(path))
    const filtered = [...this.#paths.values()]
    if (!filtered.every(({ path, isExact }) => isExact && isThere(path))) return undefined
    if (![...groups, ...(time ? [time] : []), ...values].every(isThere)) return undefined
    return paths.map((path) => this.#paths.get(formatPath(path))?.ranges)
  }

  /** The paths of the best index for items: the filtered ones, and then those of the sorts, or else a range. */
  get #pathsForItems(): readonly Path[] {
    const fixed = this.#filtered(true)
    const [ranged] = this.#filtered(false)
    const names = new Set(fixed.map(formatPath))
    const rest = this.#sort.filter(({ path }) => !names.has(formatPath(path)))
    const isVirtual = rest.some(({ path }) => isReceived(path))
    const sorted = !isVirtual && fixed.length + rest.length <= MOST_PATHS && directionOf(rest) !== undefined
    if (sorted && rest.length > 0) return [...fixed, ...rest.map(({ path }) => path)]
    return (ranged ? [...fixed.slice(0, MOST_PATHS - 1), ranged] : fixed).slice(0, MOST_PATHS)
  }

  /** The order of keys with the same `fixed` first values, if it is that of the sorts. */
  #orderOf(paths: readonly Path[], fixed: number): Order | undefined {
    const names = paths.map(formatPath)
    const sort = this.#sort.filter(({ path }) => !names.slice(0, fixed).includes(formatPath(path)))
    const rest = names.slice(fixed)
    if (sort.length !== rest.length || !sort.every(({ path }, index) => formatPath(path) === rest[index])) {
      return undefined
    }
    const descending = directionOf(sort)
    const leavesOut = sort.length < this.#sort.length
    return descending === undefined ? undefined : { sort, descending, leavesOut }
  }

  #add(filter: Filter): void {
    const found = isReceived(filter.path) ? undefined : rangesOf(filter)
    if (!found) return
    this.#usableCount++
    const { ranges, isExact } = found
    const isFixed = ranges.every(({ isPoint }) => isPoint)
    const name = formatPath(filter.path)
    const known = this.#paths.get(name)
    this.#paths.set(name, {
      path: filter.path,
      ranges: known ? intersect(known.ranges, ranges) : ranges,
      ofFirst: known && !isFixed ? known.ofFirst : ranges,
      isExact: isExact && known?.isExact !== false,
      isFixed: isFixed || known?.isFixed === true,
    })
  }
}

/** Each path once. */
function unique(paths: readonly Path[]): readonly Path[] {
  return [...new Map(paths.map((path) => [formatPath(path), path])).values()]
}

/**
 * True for descending sorts, false for ascending ones; undefined for mixed or several descending ones, since missing
 * values would come first.
 */
function directionOf(sort: readonly Sort[]): boolean | undefined {
  if (sort.every(({ descending }) => !descending)) return false
  return sort.length === 1 ? true : undefined
}

function product(before: readonly Range[], ranges: readonly Range[]): Range[] {
  return before.flatMap(({ from }) =>
    ranges.map((range) => ({ from: from + range.from, to: from + range.to, isPoint: range.isPoint })),
  )
}

/** The range for truncated keys: longer keys are only known to be near. */
function cutAfter({ from, to, isPoint }: Range, most: number): Range {
  if (from.length <= most && to.length <= most + 1) return { from, to, isPoint }
  return { from: from.slice(0, most), to: to.slice(0, most) + END, isPoint: false }
}

function keyRange(kind: string, { from, to }: Range): KeyRange {
  return { from: keyBuffer(kind + from), to: keyBuffer(kind + to) }
}

export function keyBuffer(key: string): Buffer {
  return Buffer.from(key, 'latin1')
}
