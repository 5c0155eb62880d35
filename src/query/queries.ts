import { Collection } from '../collections/collection.ts'
import { IdList } from '../collections/id-list.ts'
import type { Item } from '../collections/item.ts'
import type { ItemId, Position } from '../events/event.ts'
import type { Projection } from '../events/projection.ts'
import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { type Asker, type Limit, Slices, type Steps } from '../runtime/time-slices.ts'
import { groupText } from './aggregate/group-query.ts'
import { type CollectionSnapshot, PresentSnapshot } from './collection-snapshot.ts'
import { type Each, embed, type ItemText, type Match, type RelatedSnapshot } from './embedding.ts'
import { type Conditions, meetsConditions } from './filter.ts'
import { AccessPaths } from './index/access.ts'
import { IndexAdvisor } from './index/advisor.ts'
import { findPage, matches, type PageItems } from './index/finder.ts'
import { type IndexPlan, planOf } from './index/plan.ts'
import type { IndexStatus, StoredIndex } from './index/stored-index.ts'
import type { StoredIndexes } from './index/stored-indexes.ts'
import { type PageText, textOf } from './page-text.ts'
import type { Query } from './query.ts'
import { NO_PAGE, ResultCursor } from './result-cursor.ts'

export interface QueriesOptions {
  /** The views of the present. */
  readonly views: {
    /** The collection, also if it was removed. */
    readonly any: (name: string) => Collection | undefined
    /** The collection, if it exists. */
    readonly find: (name: string) => Collection | undefined
    readonly indexes: StoredIndexes
    readonly times: ReadonlyMap<string, Path>
  }
  /** Highest size of all indexes; 0: half of the size of each collection's items. */
  readonly bytes: number
  /** By name. */
  readonly collections?: Readonly<Record<string, CollectionOptions>>
  readonly slices?: Slices
}

export interface CollectionOptions {
  /** The paths of each index from the settings. */
  readonly indexes: readonly (readonly Path[])[]
}

export type PresentCollection = Collection

/** The queried data: a collection, which is pinned when the work begins, or a snapshot, which the caller releases. */
export type QuerySource = Collection | CollectionSnapshot

type State = Pick<CollectionSnapshot, 'at' | 'position' | 'exists'>
type Answering<Result> = (snapshot: CollectionSnapshot, plan: IndexPlan | undefined) => Steps<Result>

export interface PageItemsAt extends PageItems, State {}
export interface PageTextAt extends PageText, State {}

/** The ids of the items that match filters at one position. */
export interface MatchingIds {
  readonly position: Position
  readonly ids: Iterable<ItemId | undefined>
  /** Whether an item that was written since matches. */
  readonly matches: (item: JsonObject) => Steps<boolean>
}

/**
 * Answers queries as of the position at which they arrive. Long work is time-sliced and reads at that position until
 * its end. A useful index is built when it is wanted a second time.
 */
export class Queries implements Projection {
  readonly #options: QueriesOptions
  readonly #slices: Slices
  readonly #advisor: IndexAdvisor

  constructor(options: QueriesOptions) {
    this.#options = options
    this.#slices = options.slices ?? new Slices()
    const { views, bytes, collections = {} } = options
    const { indexes, any } = views
    this.#advisor = new IndexAdvisor({ indexes, bytes, collections, any })
    this.apply()
  }

  /** A write may have created a collection, or given it a new table. */
  apply(): void {
    this.#advisor.buildConfigured()
  }

  /** The requested page as text. Throws when the client has disconnected. */
  answer(source: QuerySource, query: Query, asker?: Asker): PageTextAt | Promise<PageTextAt> {
    return this.#slices.run(() => this.#answering(source, query), asker)
  }

  find(source: QuerySource, query: Query, asker?: Asker): PageItemsAt | Promise<PageItemsAt> {
    return this.#slices.run(() => this.#finding(source, query), asker)
  }

  /** The texts of items, of which `fields` are shown, with related ones in them: at most so many in all. */
  embed(
    items: readonly Item[],
    fields: Query['fields'],
    related: readonly RelatedSnapshot[],
    most: number,
    asker?: Asker,
  ): readonly ItemText[] | Promise<readonly ItemText[]> {
    const match: Match = (one, wanted, each) => this.#matching(one, { ...NO_PAGE, ...wanted }, each)
    return this.#slices.run(() => embed(items, fields, related, most, match), asker)
  }

  /** Pins the current collection for a ResultCursor. The caller must release it. */
  hold(collection: Collection): PresentSnapshot {
    return new PresentSnapshot(collection, this.#options.views.indexes.of(collection.facts.table))
  }

  /** The items that match now. Throws when it takes longer than the limit. */
  async select(collection: Collection, conditions: Conditions, limit: Limit | undefined): Promise<MatchingIds> {
    const snapshot = this.hold(collection)
    try {
      const ids = await this.#slices.run(() => idsOf(snapshot, conditions), { isGone: () => false, limit })
      return { position: snapshot.at, ids, matches: (item) => meetsConditions(item, conditions) }
    } finally {
      snapshot.release()
    }
  }

  /** The field of the event time of a collection. */
  timeOf(name: string): Path | undefined {
    return this.#options.views.times.get(name)
  }

  list(): readonly IndexStatus[] {
    const { indexes } = this.#options.views
    const isOfNow = ({ table, collection }: StoredIndex) => this.#options.views.any(collection)?.facts.table === table
    return indexes.all.filter(isOfNow).map(({ status }) => {
      const places = this.#options.views.any(status.collection)?.places
      return status.built === undefined ? status : { ...status, built: Math.min(1, status.built / (places || 1)) }
    })
  }

  *#answering(source: QuerySource, query: Query): Steps<PageTextAt> {
    return yield* this.#led(source, query, (snapshot, plan) => answerOf(snapshot, query, plan))
  }

  *#finding(source: QuerySource, query: Query): Steps<PageItemsAt> {
    return yield* this.#led(source, query, (snapshot, plan) => findPage(snapshot, query, plan))
  }

  *#matching({ snapshot }: RelatedSnapshot, query: Query, each: Each): Steps<void> {
    const answer = (of: CollectionSnapshot, plan: IndexPlan | undefined) => matchingAll(of, query, plan, each)
    yield* this.#ledIn(snapshot, query, answer, this.#presentOf(snapshot))
  }

  /** Queries of the past do not count towards the indexes of the present. */
  #presentOf(snapshot: CollectionSnapshot): Collection | undefined {
    return snapshot instanceof PresentSnapshot ? this.#options.views.find(snapshot.items.name) : undefined
  }

  /** Creates an answer with the most helpful index, if any. */
  *#led<Result>(source: QuerySource, query: Query, answer: Answering<Result>): Steps<Result & State> {
    if (!(source instanceof Collection)) return yield* this.#ledIn(source, query, answer, this.#presentOf(source))
    const snapshot = this.hold(source)
    try {
      return yield* this.#ledIn(snapshot, query, answer, source)
    } finally {
      snapshot.release()
    }
  }

  /** `now` is the collection if its present is read; only such queries influence its indexes. */
  *#ledIn<Result>(
    snapshot: CollectionSnapshot,
    query: Query,
    answer: Answering<Result>,
    now?: Collection,
  ): Steps<Result & State> {
    const { at, position, exists } = snapshot
    const accessPaths = yield* AccessPaths.of(query)
    const plan = yield* planOf(snapshot, accessPaths)
    if (now) this.#advisor.note(now, accessPaths, plan)
    return { ...(yield* answer(snapshot, plan)), at, position, exists }
  }
}

function* answerOf(snapshot: CollectionSnapshot, query: Query, plan: IndexPlan | undefined): Steps<PageText> {
  const { grouping } = query
  if (grouping) return yield* groupText(snapshot, query, grouping, plan)
  const { items, total } = yield* findPage(snapshot, query, plan)
  return { text: yield* textOf(items, query.fields), total }
}

function* matchingAll(
  snapshot: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  each: Each,
): Steps<object> {
  yield* matches(snapshot, query, plan, each)
  return {}
}

function* idsOf(snapshot: CollectionSnapshot, conditions: Conditions): Steps<IdList> {
  const cursor = new ResultCursor(snapshot, { ...conditions, sort: [] })
  const ids = new IdList()
  for (;;) {
    const places = yield* cursor.next()
    if (!places) return ids
    for (const place of places) {
      ids.push(snapshot.items.uncachedAt(place)?.id)
      yield
    }
  }
}

export type { IndexStatus }
