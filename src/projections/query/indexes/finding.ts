import type { Item } from '../../../collections/item.ts'
import type { JsonObject } from '../../../json/value.ts'
import type { Steps } from '../../../slices.ts'
import { matches, mentions } from '../filter.ts'
import type { Query } from '../query.ts'
import { type CollectionIndexes, nameOf } from './collection-indexes.ts'
import { isIn } from './intervals.ts'
import { PlaceSet } from './place-set.ts'
import { type Check, type Lead, type Plan, placesOf } from './plan.ts'
import { Sequence } from './sequence.ts'

/** What a query found: its page, and how many match on all pages. */
export interface Found {
  readonly items: readonly Item[]
  readonly total: number
}

/** Of a check that leaves so many times what the best one leaves, the set is not worth its making. */
const TOO_WIDE = 16
const STEP = 4096

/**
 * Finds what a query asks for, and hands it on in the step in which it is right: what is done there sees the
 * collection as the page shows it. Undefined when it must be begun anew, as all places are others now,
 * or an index that it looks values up in no longer has all of them.
 */
export function* finding<Result>(
  indexes: CollectionIndexes,
  { filters, mentioned, sort, page: { offset, size } }: Query,
  plan: Plan,
  use: (found: Found) => Result,
): Steps<{ readonly result: Result } | undefined> {
  const { collection } = indexes
  const isAll = filters.length === 0 && mentioned.length === 0
  if (isAll && sort.length === 0) {
    return { result: use({ items: collection.slice(offset, size), total: collection.size }) }
  }
  const handOn = (places: readonly number[], total: number) => ({
    result: use({ items: places.map((place) => collection.itemAt(place) as Item), total }),
  })
  const sequence = new Sequence(collection, plan.levels)
  if (isAll && plan.levels[0]?.index) return handOn(sequence.ofAll(offset, size), collection.size)
  if (plan.best?.lead && filters.length === 1 && mentioned.length === 0) {
    const places = inOrderAlready(plan.best.lead, plan, offset, size, sequence)
    if (places) return handOn(places, plan.best.lead.size)
  }
  const set = yield* collected(indexes, plan, mentioned)
  if (!set) return undefined
  return handOn(sort.length > 0 ? sequence.of(set, offset, size) : set.slice(offset, size), set.size)
}

/** The page where a single filter's spans are in its order: sorted by its field, or of one value and not sorted. */
function inOrderAlready(
  { index, firsts, others, isExact }: Lead,
  { levels: [by] }: Plan,
  offset: number,
  size: number,
  sequence: Sequence,
): number[] | undefined {
  if (!isExact || others.length > 0) return undefined
  if (by) return nameOf(by.path) === nameOf(index.path) && by.index ? sequence.ofAll(offset, size, firsts) : undefined
  const [span, ...more] = firsts
  if (!span) return []
  const { rankings, column } = index.firsts
  const ranking = rankings[span.section]
  if (more.length > 0 || !ranking) return undefined
  if (column.compareAt(span.section, ranking.at(span.from), ranking.at(span.to - 1)) !== 0) return undefined
  return ranking.list(span.from + offset, Math.min(span.to, span.from + offset + size))
}

/** All that match. While it is looked for, what changes is looked at again. */
function* collected(
  indexes: CollectionIndexes,
  { best, checks }: Plan,
  mentioned: readonly string[],
): Steps<PlaceSet | undefined> {
  const { collection } = indexes
  const set = new PlaceSet(collection.places)
  const changed = new Set<number>()
  let isOutdated = false
  const stop = indexes.follow({
    put(place, value) {
      changed.add(place)
      if (passesAll(checks, mentioned, value)) set.add(place)
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
    const search = searchOf(best, checks)
    const sets: PlaceSet[] = []
    for (const places of search.sets) {
      const one = new PlaceSet(collection.places)
      for (let start = 0; start < places.length; start += STEP, yield) one.addAll(places.subarray(start, start + STEP))
      sets.push(one)
    }
    const { places, byIndex, byItem } = search
    const isRead = byItem.length > 0 || mentioned.length > 0
    let count = 0
    if (places && sets.length + byIndex.length === 0 && !isRead) {
      // Until something changes, whatever the index says is so.
      for (; changed.size === 0 && count < places.length; count += STEP, yield) {
        set.addAll(places.subarray(count, count + STEP))
      }
    }
    for (let place = -1; !isOutdated; count++) {
      place = places ? (places[count] ?? collection.places) : collection.seek(place + 1)
      if (place >= collection.places) return set
      if (
        !(changed.size > 0 && changed.has(place)) &&
        sets.every((one) => one.has(place)) &&
        byIndex.every(({ index, intervals }) => isIn(index, place, intervals)) &&
        (!isRead || passesAll(byItem, mentioned, (collection.itemAt(place) as Item).value))
      ) {
        set.add(place)
      }
      if (isRead || count % STEP === STEP - 1) yield
      // An index that has come to leave values out would deny them to items that have them.
      if (byIndex.some(({ index }) => !index.isWhole)) return undefined
    }
    return undefined
  } finally {
    stop()
  }
}

interface Search {
  /** Where to look; undefined: everywhere. */
  readonly places: Uint32Array | undefined
  /** What must be in all of these, */
  readonly sets: readonly Uint32Array[]
  /** have a value in all of these, */
  readonly byIndex: readonly Lead[]
  /** and be looked at itself. */
  readonly byItem: readonly Check[]
}

function searchOf(best: Check | undefined, checks: readonly Check[]): Search {
  const most = (best?.lead?.size ?? 0) * TOO_WIDE
  const sets: Uint32Array[] = []
  const byIndex: Lead[] = []
  const byItem: Check[] = []
  for (const check of checks) {
    const { lead } = check
    if (!lead?.isExact) byItem.push(check)
    else if (check !== best && lead.size <= most) sets.push(placesOf(lead))
    else if (check !== best) byIndex.push(lead)
  }
  return { places: best?.lead && placesOf(best.lead), sets, byIndex, byItem }
}

function passesAll(checks: readonly Check[], mentioned: readonly string[], value: JsonObject): boolean {
  return checks.every(({ filter }) => matches(value, filter)) && (mentioned.length === 0 || mentions(value, mentioned))
}
