import { HighWaterMark } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import type { CollectionSnapshot } from './collection-snapshot.ts'
import { candidatesOf, ItemMatcher, PlaceSet } from './index/candidates.ts'
import { nextMatches } from './index/finder.ts'
import { placesInOrder } from './index/ordered-scan.ts'
import { AccessPaths, type IndexPlan, ITEM_MS, planOf } from './index/plan.ts'
import type { SortEntry } from './index/sort-keys.ts'
import { parseQuery, type Query } from './query.ts'

/** Matching places that are taken at a time from an index. */
const INDEX_PLACES = 4096
/** Places scanned at a time. */
const SCANNED_PLACES = 1024
/** Places sorted at a time. */
const SORTED_PLACES = 100_000
/** Places visited between two checks of the turn. */
const STEP = 256

/** The conditions and order of a query. */
export type UnpagedQuery = Pick<Query, 'filters' | 'others' | 'sort' | 'namesReceived'>

export const NO_PAGE: Pick<Query, 'page' | 'fields'> = parseQuery([], { parameters: 0, pageSize: 1 })

type Part = readonly number[]
type NextPart = (turn: Turn) => Promise<Part | undefined>

/**
 * The whole result of a query, in order, part by part. Memory between two parts does not grow with the result, except
 * for one bit per item if an index returns items in another order.
 */
export class ResultCursor {
  readonly #snapshot: CollectionSnapshot
  readonly #query: Query
  #next: NextPart | undefined

  constructor(snapshot: CollectionSnapshot, query: UnpagedQuery) {
    this.#snapshot = snapshot
    const { page, fields } = NO_PAGE
    this.#query = { ...query, page, fields }
  }

  /** The places of the next items, possibly none; undefined after the last. After an error the cursor is unchanged. */
  async next(turn: Turn): Promise<Part | undefined> {
    this.#next ??= await this.#plan(turn)
    return this.#next(turn)
  }

  async #plan(turn: Turn): Promise<NextPart> {
    const plan = await planOf(this.#snapshot, new AccessPaths(this.#query), turn)
    if (plan?.isInOrder) return this.#partsInIndexOrder(plan)
    if (this.#query.sort.length > 0) return this.#sortedParts(plan)
    return this.#scannedParts(plan && (await this.#placesOf(plan, turn)))
  }

  /** Each part is a page of matching places after those of the earlier parts. An empty page is the end. */
  #partsInIndexOrder(plan: IndexPlan): NextPart {
    const { items } = this.#snapshot
    const query = this.#query
    let offset = 0
    return async (turn: Turn) => {
      const page = { ...query.page, offset, size: INDEX_PLACES }
      const { places } = await placesInOrder(items, { ...query, page }, plan, turn)
      offset += places.length
      return places.length > 0 ? places : undefined
    }
  }

  /** Each part scans all items that may match. */
  #sortedParts(plan: IndexPlan | undefined): NextPart {
    const { items } = this.#snapshot
    const query = this.#query
    let last: SortEntry | undefined
    return async (turn: Turn) => {
      turn.estimatedMs = (plan?.cost ?? items.size) * ITEM_MS
      const { found } = await nextMatches(items, query, plan, SORTED_PLACES, last, new HighWaterMark(turn), turn)
      last = found.at(-1) ?? last
      return found.length > 0 ? found.map(({ place }) => place) : undefined
    }
  }

  /** The matching items of a set of places, or of all, in the order of the collection. */
  #scannedParts(places: PlaceSet | undefined): NextPart {
    const { items } = this.#snapshot
    const query = this.#query
    const areAll = query.filters.length + query.others.length === 0
    const seek = (place: number): number => (places ? (places.nextFrom(place) ?? items.places) : items.seek(place))
    let from = 0
    return async (turn: Turn) => {
      if (from >= items.places) return undefined
      const matcher = new ItemMatcher(items, query)
      const part: number[] = []
      let place = seek(from)
      for (let scanned = 0; place < items.places && scanned < SCANNED_PLACES; scanned++) {
        if (turn.isOver) await turn.next()
        if (areAll || matcher.matchAt(place)) part.push(place)
        place = seek(place + 1)
      }
      from = place
      return part
    }
  }

  async #placesOf(plan: IndexPlan, turn: Turn): Promise<PlaceSet> {
    const { items } = this.#snapshot
    const places = PlaceSet.of(items, turn)
    let steps = 0
    for (const candidate of await candidatesOf(items, plan, turn)) {
      if (++steps % STEP === 0 && turn.isOver) await turn.next()
      if (candidate) places.add(candidate.place)
    }
    return places
  }
}
