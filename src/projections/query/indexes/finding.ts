import type { Collection } from '../../../collections/collection.ts'
import type { Item } from '../../../collections/item.ts'
import { parseSteps } from '../../../json/parse-steps.ts'
import type { JsonObject } from '../../../json/value.ts'
import { atOnce, type Steps } from '../../../slices.ts'
import { type Conditions, passing } from '../filter.ts'
import type { Query } from '../query.ts'
import { firstOf, isStill } from './build.ts'
import { type CollectionIndexes, type Follower, nameOf } from './collection-indexes.ts'
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
 * collection as the page shows it. Undefined when it must be begun anew, as all places are others now. To be called
 * when the indexes are not late, and a plan was made in the same step.
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
  if (isAll && !sequence.readsItems) return handOn(sequence.ofAll(offset, size), collection.size)
  if (plan.best?.lead && filters.length === 1 && mentioned.length === 0 && !sequence.readsItems) {
    const places = inOrderAlready(plan.best.lead, plan, offset, size, sequence)
    if (places) return handOn(places, plan.best.lead.size)
  }
  const set = yield* collected(indexes, plan, { filters, mentioned }, sequence)
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
  if (!isExact || others.length > 0 || index.partial.size > 0) return undefined
  if (by) return nameOf(by.path) === nameOf(index.path) ? sequence.ofAll(offset, size, firsts) : undefined
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
  conditions: Conditions,
  sequence: Sequence,
): Steps<PlaceSet | undefined> {
  const { collection } = indexes
  const set = new PlaceSet(collection.places)
  const changes = new Changes(collection, conditions, set)
  const stop = indexes.follow(changes)
  try {
    const search = searchOf(best, checks)
    const sets: PlaceSet[] = []
    for (const places of search.sets) {
      const one = new PlaceSet(collection.places)
      for (let start = 0; start < places.length; start += STEP, yield) one.addAll(places.subarray(start, start + STEP))
      sets.push(one)
    }
    const { places, byIndex, byItem } = search
    const rest = { filters: byItem.map(({ filter }) => filter), mentioned: conditions.mentioned }
    const isRead = byItem.length > 0 || conditions.mentioned.length > 0
    const partial = checks.flatMap(({ lead }) => (lead && lead.index.partial.size > 0 ? [lead.index.partial] : []))
    let count = 0
    if (places && sets.length + byIndex.length === 0 && !isRead) {
      // Until something changes, whatever the index says is so; what it has in part comes after that.
      const exact = places.length - (best?.lead?.index.partial.size ?? 0)
      for (; changes.places.size === 0 && count < exact; count += STEP, yield) {
        set.addAll(places.subarray(count, Math.min(count + STEP, exact)))
      }
      count = Math.min(count, exact)
    }
    for (let place = -1; !changes.isOutdated; count++) {
      place = places ? (places[count] ?? collection.places) : collection.seek(place + 1)
      if (place >= collection.places) break
      if (count % STEP === STEP - 1) yield
      if (
        changes.places.has(place) ||
        !sets.every((one) => one.has(place)) ||
        !byIndex.every(({ index, intervals }) => index.partial.has(place) || isIn(index, place, intervals))
      ) {
        continue
      }
      const isPartial = partial.some((those) => those.has(place))
      if (isRead || isPartial) {
        yield
        if (changes.places.has(place) || changes.isOutdated) continue
        const { text } = collection.itemAt(place) as Item
        const value = (yield* parseSteps(text)) as JsonObject
        if (!(yield* passing(value, isPartial ? conditions : rest)) || changes.places.has(place)) continue
      }
      set.add(place)
    }
    for (;;) {
      yield* changes.settling()
      if (changes.isOutdated) return undefined
      const unread = sequence.unreadOf(set)
      if (sequence.usesIndexes && indexes.areLate) {
        indexes.catchUp()
        yield
      } else if (unread.length === 0) return set
      for (const place of unread) {
        yield* sequence.reading(place)
        yield
      }
    }
  } finally {
    stop()
  }
}

/** A write checks a short item at once against at most so many conditions. */
const FEW = 8

/** The places that change while a set of all that match is made. */
class Changes implements Follower {
  readonly places = new Set<number>()
  isOutdated = false
  readonly #collection: Collection
  readonly #conditions: Conditions
  readonly #set: PlaceSet
  /** Places of items that must be checked again. */
  readonly #again = new Set<number>()

  constructor(collection: Collection, conditions: Conditions, set: PlaceSet) {
    this.#collection = collection
    this.#conditions = conditions
    this.#set = set
  }

  put(place: number, value: JsonObject | undefined): void {
    this.removed(place)
    const { filters, mentioned } = this.#conditions
    if (!value || filters.length + mentioned.length > FEW) this.#again.add(place)
    else if (atOnce(passing(value, this.#conditions))) this.#set.add(place)
  }

  removed(place: number): void {
    this.places.add(place)
    this.#set.delete(place)
    this.#again.delete(place)
  }

  reordered(): void {
    this.isOutdated = true
  }

  /** When it ends, the set is right. */
  *settling(): Steps<void> {
    for (let place = firstOf(this.#again); place !== undefined && !this.isOutdated; place = firstOf(this.#again)) {
      yield
      const item = this.#collection.itemAt(place)
      const value = item && ((yield* parseSteps(item.text)) as JsonObject)
      const passes = value !== undefined && (yield* passing(value, this.#conditions))
      if (!isStill(this.#collection, place, item) || !this.#again.delete(place)) continue
      if (passes) this.#set.add(place)
    }
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
