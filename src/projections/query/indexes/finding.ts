import type { Item } from '../../../collections/item.ts'
import type { Path } from '../../../json/paths.ts'
import type { JsonObject } from '../../../json/value.ts'
import { type Filter, matches, mentions } from '../filter.ts'
import type { Query } from '../query.ts'
import { type CollectionIndexes, nameOf } from './collection-indexes.ts'
import { SECTION } from './entries.ts'
import type { FieldIndex } from './field-index.ts'
import { type Intervals, intervalsOf, isIn, type Span, spansOf } from './intervals.ts'
import { PlaceSet } from './place-set.ts'
import { Sequence } from './sequence.ts'
import type { Steps } from './slices.ts'

/** What a query found: its page, and how many match on all pages. */
export interface Found {
  readonly items: readonly Item[]
  readonly total: number
}

/** A filter and what is there to check it with. */
interface Check {
  readonly filter: Filter
  readonly intervals: Intervals | undefined
  readonly index: FieldIndex | undefined
}

/** A check with an index, and where that has what meets it. */
interface Lead {
  readonly check: Check
  readonly index: FieldIndex
  readonly firsts: readonly Span[]
  readonly others: readonly Span[]
  readonly size: number
}

/** So few are checked one by one, whatever else there is to check. */
const FEW = 200
/** A collection this small gets an index for what is asked for again. */
const SMALL = 1000
/** Indexes that one query may be the reason for. */
const MOST_FILTERS = 4
const MOST_SORTS = 16
const STEP = 4096

/** The paths of which the query has need of an index that is not there. */
export function missingPaths(indexes: CollectionIndexes, { filters, sort }: Query): readonly Path[] {
  if (filters.length === 0 && sort.length === 0) return []
  const leads = leadsOf(checksOf(indexes, filters))
  if (leads.some(({ size }) => size <= FEW)) return []
  const wanted = new Map(
    [...filters.filter((filter) => intervalsOf(filter)).slice(0, MOST_FILTERS), ...sort.slice(0, MOST_SORTS)].map(
      ({ path }) => [nameOf(path), path],
    ),
  )
  const isSmall = indexes.collection.size <= SMALL
  return [...wanted.values()].filter((path) => !indexes.get(path) && (!isSmall || indexes.wasAsked(path)))
}

/**
 * Finds what a query asks for, and hands it on in the step in which it is right: what is done there sees the
 * collection as the page shows it. Undefined when it must be begun anew, as all places are others now.
 */
export function* finding<Result>(
  indexes: CollectionIndexes,
  query: Query,
  use: (found: Found) => Result,
): Steps<{ readonly result: Result } | undefined> {
  const { collection } = indexes
  const { filters, mentioned, sort } = query
  const { offset, size } = query.page
  const checks = checksOf(indexes, filters)
  const sequence = new Sequence(
    collection,
    sort.map((one) => ({ ...one, index: indexes.get(one.path)?.index })),
  )
  const resultOf = (places: readonly number[], total: number) => ({
    result: use({ items: places.map((place) => collection.itemAt(place) as Item), total }),
  })
  const isSorted = sort.length > 0
  if (filters.length === 0 && mentioned.length === 0) {
    if (!isSorted) return { result: use({ items: collection.slice(offset, size), total: collection.size }) }
    if (indexes.get((sort[0] as Query['sort'][number]).path)) {
      return resultOf(sequence.ofAll(offset, size), collection.size)
    }
  }
  const [lead] = leadsOf(checks).sort((a, b) => a.size - b.size)
  if (lead && filters.length === 1 && mentioned.length === 0) {
    const places = fromSpans(lead, query, sequence)
    if (places) return resultOf(places, lead.size)
  }
  const set = yield* collected(indexes, lead, checks, mentioned)
  if (!set) return undefined
  return resultOf(isSorted ? sequence.of(set, offset, size) : set.slice(offset, size), set.size)
}

/** The page where a single filter's spans are in its order already. */
function fromSpans(
  { check, index, firsts, others }: Lead,
  { sort, page: { offset, size } }: Query,
  sequence: Sequence,
): number[] | undefined {
  if (!isExact(check, index) || others.length > 0) return undefined
  const [by] = sort
  if (by) return nameOf(by.path) === nameOf(index.path) ? sequence.ofAll(offset, size, firsts) : undefined
  const [span, ...more] = firsts
  if (!span) return []
  if (more.length > 0) return undefined
  // Of one key the places are in the collection's order.
  const ranking = index.firsts.rankings[span.section]
  const { column } = index.firsts
  if (!ranking || column.compareAt(span.section, ranking.at(span.from), ranking.at(span.to - 1)) !== 0) return undefined
  return Array.from(ranking.slice(Math.min(span.to, span.from + offset), Math.min(span.to, span.from + offset + size)))
}

/** All that match. While it is looked for, what changes is looked at again. */
function* collected(
  indexes: CollectionIndexes,
  lead: Lead | undefined,
  checks: readonly Check[],
  mentioned: readonly string[],
): Steps<PlaceSet | undefined> {
  const { collection } = indexes
  const set = new PlaceSet(collection.places)
  const changed = new Set<number>()
  let isOutdated = false
  const stop = indexes.follow({
    put(place, value) {
      changed.add(place)
      if (passes(checks, mentioned, place, () => value)) set.add(place)
      else set.delete(place)
    },
    removed(place) {
      changed.add(place)
      set.delete(place)
    },
    reordered() {
      isOutdated = true
    },
  })
  try {
    const rest = lead && isExact(lead.check, lead.index) ? checks.filter((check) => check !== lead.check) : checks
    const isChecked = rest.length > 0 || mentioned.length > 0
    const places = lead ? placesOf(lead) : undefined
    // Those that are checked by the item itself take long.
    const step = isChecked && (mentioned.length > 0 || rest.some((check) => !isByIndex(check))) ? 1 : STEP
    const at = (count: number, before: number): number =>
      places ? (places[count] ?? collection.places) : collection.seek(before + 1)
    const end = places ? places.length : Number.POSITIVE_INFINITY
    let place = -1
    for (let count = 0; count < end; count++) {
      place = at(count, place)
      if (!places && place >= collection.places) break
      const item = collection.itemAt(place)
      if (item && !changed.has(place)) {
        if (!isChecked || passes(rest, mentioned, place, () => item.value)) set.add(place)
      }
      if (count % step === step - 1) yield
      if (isOutdated) return undefined
    }
    return set
  } finally {
    stop()
  }
}

function passes(
  checks: readonly Check[],
  mentioned: readonly string[],
  place: number,
  itemValue: () => JsonObject,
): boolean {
  let value: JsonObject | undefined
  const read = (): JsonObject => {
    value ??= itemValue()
    return value
  }
  return (
    checks.every(({ filter, index, intervals }) => {
      if (!index || !intervals) return matches(read(), filter)
      return isIn(index, place, intervals) && (intervals.isExact || matches(read(), filter))
    }) &&
    (mentioned.length === 0 || mentions(read(), mentioned))
  )
}

function checksOf(indexes: CollectionIndexes, filters: readonly Filter[]): readonly Check[] {
  return filters.map((filter) => {
    const intervals = intervalsOf(filter)
    const index = intervals && indexes.get(filter.path)?.index
    return { filter, intervals, index: index?.isWhole ? index : undefined }
  })
}

function leadsOf(checks: readonly Check[]): Lead[] {
  return checks.flatMap((check) => {
    const { index, intervals } = check
    if (!index || !intervals) return []
    const firsts = spansOf(index.firsts, intervals)
    const others = index.others ? spansOf(index.others, intervals) : []
    const size = [...firsts, ...others].reduce((sum, { from, to }) => sum + to - from, 0)
    return [{ check, index, firsts, others, size }]
  })
}

function isByIndex({ index, intervals }: Check): boolean {
  return index !== undefined && intervals?.isExact === true
}

/** Where no instants are, what looks inexact is exact. */
function isExact({ intervals }: Check, { firsts, others }: FieldIndex): boolean {
  if (!intervals || intervals.isExact) return intervals !== undefined
  return [SECTION.early, SECTION.instant, SECTION.late].every(
    (section) => (firsts.rankings[section]?.size ?? 0) + (others?.rankings[section]?.size ?? 0) === 0,
  )
}

/** The places of the items that the spans are of, as they are now. */
function placesOf({ index, firsts, others, size }: Lead): Uint32Array {
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
  return places
}
