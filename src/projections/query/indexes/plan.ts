import type { Path } from '../../../json/paths.ts'
import type { Filter } from '../filter.ts'
import type { Query } from '../query.ts'
import { type CollectionIndexes, type Kept, nameOf } from './collection-indexes.ts'
import { SECTION } from './entries.ts'
import type { FieldIndex } from './field-index.ts'
import { type Intervals, intervalsOf, type Span, spansOf } from './intervals.ts'
import type { Level } from './sequence.ts'

/** A filter and what is there to check it with. */
export interface Check {
  readonly filter: Filter
  /** Undefined where no order helps. */
  readonly intervals: Intervals | undefined
  /** Where what meets it is. */
  readonly lead: Lead | undefined
}

/** Where an index has what meets a filter. */
export interface Lead {
  readonly index: FieldIndex
  readonly intervals: Intervals
  readonly firsts: readonly Span[]
  readonly others: readonly Span[]
  /** How many entries that is, and items that the index has in part; items may have several. */
  readonly size: number
  /** Whether all of them meet the filter. */
  readonly isExact: boolean
}

/** How a query is to be answered, with the indexes that there are. Good for the step in which it was made. */
export interface Plan {
  readonly checks: readonly Check[]
  /** The one that leaves the least. */
  readonly best: Check | undefined
  readonly levels: readonly Level[]
  readonly uses: readonly Kept[]
  /** The paths whose indexes are to be built first. */
  readonly missing: readonly Path[]
}

/** What was planned of late for queries that share it with their other pages, by their filters: good until something changes. */
export type Plans = Map<Query['filters'], { readonly plan: Plan; readonly version: number }>

/** So few are looked at one by one, whatever there is to check or sort by. */
const FEW = 200
/** A collection this small gets an index for what is asked for again. */
const SMALL = 1000
/** Indexes that one query may be the reason for. */
const MOST_FILTERS = 4

const MOST_PLANS = 100

const NOTHING: Plan = { checks: [], best: undefined, levels: [], uses: [], missing: [] }

export function planOf(indexes: CollectionIndexes, query: Query): Plan {
  const { filters, sort, isShared } = query
  if (filters.length === 0 && sort.length === 0) return NOTHING
  if (!isShared) return newPlanOf(indexes, query)
  const { plans, version } = indexes
  const kept = plans.get(filters)
  if (kept?.version === version) return kept.plan
  const plan = newPlanOf(indexes, query)
  if (plans.size >= MOST_PLANS) plans.clear()
  if (plan.missing.length === 0) plans.set(filters, { plan, version })
  return plan
}

function newPlanOf(indexes: CollectionIndexes, { filters, sort }: Query): Plan {
  const uses: Kept[] = []
  const indexAt = (path: Path): FieldIndex | undefined => {
    const kept = indexes.get(path)
    if (kept) uses.push(kept)
    return kept?.index
  }
  const missing = new Map<string, Path>()
  const checks: Check[] = []
  let best: Check | undefined
  for (const filter of filters) {
    const intervals = intervalsOf(filter)
    const index = intervals && indexAt(filter.path)
    if (intervals && !index && missing.size < MOST_FILTERS) missing.set(nameOf(filter.path), filter.path)
    const lead = intervals && index && leadOf(index, intervals)
    const check = { filter, intervals, lead }
    checks.push(check)
    if (lead && lead.size < (best?.lead?.size ?? Number.POSITIVE_INFINITY)) best = check
  }
  const levels: Level[] = []
  for (const one of sort) {
    const index = indexAt(one.path)
    if (!index) missing.set(nameOf(one.path), one.path)
    levels.push({ ...one, index })
  }
  const isEnough = best?.lead !== undefined && best.lead.size <= FEW
  return { checks, best, levels, uses, missing: isEnough ? [] : worthBuilding(indexes, [...missing.values()]) }
}

function worthBuilding(indexes: CollectionIndexes, paths: readonly Path[]): readonly Path[] {
  return indexes.collection.size > SMALL ? paths : paths.filter((path) => indexes.wasAsked(path))
}

function leadOf(index: FieldIndex, intervals: Intervals): Lead {
  const firsts = spansOf(index.firsts, intervals)
  const others = index.others ? spansOf(index.others, intervals) : []
  return {
    index,
    intervals,
    firsts,
    others,
    size: sizeOf(firsts) + sizeOf(others) + index.partial.size,
    isExact: intervals.isExact || !hasInstants(index),
  }
}

function sizeOf(spans: readonly Span[]): number {
  let size = 0
  for (const { from, to } of spans) size += to - from
  return size
}

/** Where no instants are, a text's beginning says all. */
function hasInstants({ firsts, others }: FieldIndex): boolean {
  return [SECTION.early, SECTION.instant, SECTION.late].some(
    (section) => (firsts.rankings[section]?.size ?? 0) + (others?.rankings[section]?.size ?? 0) > 0,
  )
}

/** The places of the items that the spans are of, as they are now; then those of which the index has not all values. */
export function placesOf({ index, firsts, others, size }: Lead): Uint32Array {
  const places = new Uint32Array(size)
  let count = 0
  for (const { section, from, to } of firsts) {
    index.firsts.rankings[section]?.copy(from, to, places, count)
    count += to - from
  }
  for (const { section, from, to } of others) {
    index.others?.rankings[section]?.copy(from, to, places, count)
    for (const end = count + to - from; count < end; count++) {
      places[count] = index.placeOf(places[count] as number)
    }
  }
  for (const place of index.partial) places[count++] = place
  return places
}
