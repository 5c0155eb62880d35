import type { Steps } from '../runtime/time-slices.ts'
import type { CollectionSnapshot } from './collection-snapshot.ts'
import { AccessPaths } from './index/access.ts'
import { all, candidatesOf, following, PlaceSet } from './index/finder.ts'
import { Matching } from './index/matcher.ts'
import { inOrder } from './index/ordered-scan.ts'
import { type IndexPlan, planOf } from './index/plan.ts'
import type { SortEntry } from './index/sort-keys.ts'
import { parseQuery, type Query } from './query.ts'

/** Places read at a time from an index. */
const INDEX_PLACES = 4096
/** Places scanned at a time. */
const SCANNED_PLACES = 1024
/** Places sorted at a time. */
const SORTED_PLACES = 100_000
/** Places scanned in one step. */
const STEP = 256

/** The conditions and order of a query. */
export type UnpagedQuery = Pick<Query, 'filters' | 'mentioned' | 'sort' | 'namesReceived'>

export const NO_PAGE: Pick<Query, 'page' | 'fields'> = parseQuery([], { parameters: 0, pageSize: 1 })

type Part = readonly number[]

/**
 * The whole result of a query, in order, part by part. Memory between two parts does not grow with the result, except
 * for one bit per item if an index returns items in another order.
 */
export class ResultCursor {
  readonly #snapshot: CollectionSnapshot
  readonly #query: Query
  #next: (() => Steps<Part | undefined>) | undefined

  constructor(snapshot: CollectionSnapshot, query: UnpagedQuery) {
    this.#snapshot = snapshot
    const { page, fields } = NO_PAGE
    this.#query = { ...query, page, fields }
  }

  /**
   * The places of the next items, possibly none; undefined after the last. A generator that is not run to its end
   * leaves the cursor unchanged.
   */
  *next(): Steps<Part | undefined> {
    this.#next ??= yield* this.#begin()
    return yield* this.#next()
  }

  *#begin(): Steps<() => Steps<Part | undefined>> {
    const { filters, mentioned, sort } = this.#query
    if (filters.length + mentioned.length + sort.length === 0) return this.#asTheyStand()
    const plan = yield* planOf(this.#snapshot, yield* AccessPaths.of(this.#query))
    if (plan?.isInOrder) return this.#byIndex(plan)
    if (sort.length > 0) return this.#sorted(plan)
    return this.#scanned(plan && (yield* this.#placesOf(plan)))
  }

  #asTheyStand(): () => Steps<Part | undefined> {
    const { items } = this.#snapshot
    let from = 0
    return function* () {
      const part: number[] = []
      for (let place = items.seek(from); place < items.places; place = items.seek(place + 1)) {
        part.push(place)
        if (part.length === SCANNED_PLACES) break
        if (part.length % STEP === 0) yield
      }
      from = (part.at(-1) ?? items.places) + 1
      return part.length > 0 ? part : undefined
    }
  }

  #byIndex(plan: IndexPlan): () => Steps<Part | undefined> {
    const { items } = this.#snapshot
    const query = this.#query
    let offset = 0
    return function* () {
      const { places } = yield* inOrder(items, { ...query, page: { ...query.page, offset, size: INDEX_PLACES } }, plan)
      offset += places.length
      return places.length > 0 ? places : undefined
    }
  }

  /** Each part scans all items that may match. */
  #sorted(plan: IndexPlan | undefined): () => Steps<Part | undefined> {
    const { items } = this.#snapshot
    const query = this.#query
    let last: SortEntry | undefined
    return function* () {
      const candidates = plan ? candidatesOf(items, plan) : all(items)
      const { found } = yield* following(candidates, items, query, SORTED_PLACES, last)
      last = found.at(-1) ?? last
      return found.length > 0 ? found.map(({ place }) => place) : undefined
    }
  }

  /** The matching items of a set of places, or of all. */
  #scanned(places: PlaceSet | undefined): () => Steps<Part | undefined> {
    const { items } = this.#snapshot
    const query = this.#query
    const seek = (place: number): number => (places ? (places.from(place) ?? items.places) : items.seek(place))
    let from = 0
    return function* () {
      if (from >= items.places) return undefined
      const matching = new Matching(items, query)
      const part: number[] = []
      let place = seek(from)
      for (let scanned = 0; place < items.places && scanned < SCANNED_PLACES; scanned++) {
        if (yield* matching.valueAt(place)) part.push(place)
        place = seek(place + 1)
      }
      from = place
      return part
    }
  }

  *#placesOf(plan: IndexPlan): Steps<PlaceSet> {
    const { items } = this.#snapshot
    const places = new PlaceSet(items.places)
    let steps = 0
    for (const candidate of candidatesOf(items, plan)) {
      if (++steps % STEP === 0) yield
      if (candidate) places.add(candidate.place)
    }
    return places
  }
}
