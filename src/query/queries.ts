import { Collection } from '../collections/collection.ts'
import type { Item } from '../collections/item.ts'
import type { ItemId, Position } from '../events/event.ts'
import type { Projection } from '../events/journal.ts'
import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { ChunkedList } from '../runtime/chunked-list.ts'
import { idBytes, textBytes } from '../runtime/memory.ts'
import { type Asker, type Turn, Turns, visitEach } from '../runtime/turns.ts'
import { groupPage } from './aggregate/group-query.ts'
import { type CollectionSnapshot, PresentSnapshot } from './collection-snapshot.ts'
import { embed, type Match, type RelatedSnapshot } from './embedding.ts'
import { type Conditions, meetsConditions } from './filter.ts'
import { IndexAdvisor, type IndexAdvisorOptions } from './index/advisor.ts'
import { findPlaces, visitMatches } from './index/finder.ts'
import { AccessPaths, type IndexPlan, ITEM_MS, planOf } from './index/plan.ts'
import type { IndexStatus, StoredIndex } from './index/stored-index.ts'
import type { StoredIndexes } from './index/stored-indexes.ts'
import { type ItemText, type Page, pageOfItems } from './page.ts'
import type { Query } from './query.ts'
import { NO_PAGE, ResultCursor } from './result-cursor.ts'

export type { IndexStatus }

interface QueriesOptions {
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
  readonly collections?: IndexAdvisorOptions['collections']
  readonly turns?: Turns
  /** No index is built or dropped. */
  readonly isReadOnly?: boolean
}

export type PresentCollection = Collection

/** The queried data: a collection, which is pinned when the work begins, or a snapshot, which the caller releases. */
export type QuerySource = Collection | CollectionSnapshot

/** The items of a page, all of them in memory, at one position. */
export interface PageItems extends Pick<CollectionSnapshot, 'at'> {
  readonly items: readonly Item[]
  /** Number of matching items on all pages. */
  readonly total: number
}

/** The ids of the items that match filters at one position. */
interface MatchingIds {
  readonly position: Position
  readonly ids: ChunkedList<ItemId>
  /** Whether an item that was written since matches. */
  readonly matches: (item: JsonObject) => boolean
}

/** Approximate memory of an item besides its text. */
const ITEM_BYTES = 120

/**
 * Answers queries as of the position at which they arrive. Long work takes turns and reads at that position until its
 * end. A useful index is built when it is wanted a second time.
 */
export class Queries implements Projection {
  readonly #options: QueriesOptions
  readonly #turns: Turns
  readonly #advisor: IndexAdvisor

  constructor(options: QueriesOptions) {
    this.#options = options
    this.#turns = options.turns ?? new Turns()
    const { views, bytes, collections = {} } = options
    const { indexes, any } = views
    this.#advisor = new IndexAdvisor({ indexes, bytes, collections, any })
    this.apply()
  }

  /** A write may have created a collection, or given it a new table. */
  apply(): void {
    this.#advisor.buildConfigured()
  }

  /** Executes a query, then `use` with its page in the same task. Throws when the client has disconnected. */
  page<Result>(
    snapshot: CollectionSnapshot,
    query: Query,
    use: (page: Page, turn: Turn) => Promise<Result>,
    asker?: Asker,
  ): Promise<Result> {
    return this.#turns.run(async (turn) => {
      const plan = await this.#planOf(snapshot, query, turn)
      turn.estimatedMs = itemsToRead(snapshot, query, plan) * ITEM_MS
      return use(await pageOf(snapshot, query, plan, turn), turn)
    }, asker)
  }

  /** The items of a page of the present, or of a snapshot, which the caller releases. */
  async find(source: QuerySource, query: Query, asker?: Asker): Promise<PageItems> {
    const snapshot = source instanceof Collection ? this.hold(source) : source
    try {
      return await this.#turns.run(async (turn) => {
        const { places, total } = await findPlaces(snapshot, query, await this.#planOf(snapshot, query, turn), turn)
        return { items: await readItems(snapshot, places, turn), total, at: snapshot.at }
      }, asker)
    } finally {
      if (snapshot !== source) snapshot.release()
    }
  }

  /** The texts of items, of which `fields` are shown, with related ones in them: at most so many in all. */
  embed(
    items: readonly Item[],
    fields: Query['fields'],
    related: readonly RelatedSnapshot[],
    most: number,
    asker?: Asker,
  ): Promise<readonly ItemText[]> {
    const match: Match = async ({ snapshot }, wanted, each, turn) => {
      const query = { ...NO_PAGE, ...wanted }
      await visitMatches(snapshot, query, await this.#planOf(snapshot, query, turn), each, turn)
    }
    return this.#turns.run((turn) => embed(items, fields, related, most, match, turn), asker)
  }

  /** Pins the current collection for a ResultCursor. The caller must release it. */
  hold(collection: Collection): PresentSnapshot {
    return new PresentSnapshot(collection, this.#options.views.indexes.of(collection.facts.table))
  }

  /** The items that match now. Throws when it takes longer than the limit. */
  async select(collection: Collection, conditions: Conditions, asker?: Asker): Promise<MatchingIds> {
    const snapshot = this.hold(collection)
    try {
      const ids = await this.#turns.run((turn) => findIds(snapshot, conditions, turn), asker)
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

  /** The most helpful index, if any. Queries of the past do not count towards the indexes of the present. */
  async #planOf(snapshot: CollectionSnapshot, query: Query, turn: Turn): Promise<IndexPlan | undefined> {
    const accessPaths = new AccessPaths(query)
    const plan = await planOf(snapshot, accessPaths, turn)
    const present = snapshot instanceof PresentSnapshot ? this.#options.views.find(snapshot.items.name) : undefined
    if (present && !this.#options.isReadOnly) this.#advisor.note(present, accessPaths, plan)
    return plan
  }
}

async function pageOf(
  snapshot: CollectionSnapshot,
  query: Query,
  plan: IndexPlan | undefined,
  turn: Turn,
): Promise<Page> {
  const { grouping, fields } = query
  if (grouping) return groupPage(snapshot, query, grouping, plan, turn)
  const { places, total } = await findPlaces(snapshot, query, plan, turn)
  return pageOfItems(snapshot.items, places, total, fields)
}

async function readItems(
  { items }: CollectionSnapshot,
  places: readonly number[],
  turn: Turn,
): Promise<readonly Item[]> {
  const read: Item[] = []
  await visitEach(places, turn, (place) => {
    const item = items.itemAt(place) as Item
    turn.hold(ITEM_BYTES + textBytes(item.text))
    read.push(item)
  })
  return read
}

/** About how many items, or the time of as many, a query takes. */
function itemsToRead({ items }: CollectionSnapshot, query: Query, plan: IndexPlan | undefined): number {
  const { filters, others, sort, grouping, page } = query
  const isPage = plan ? plan.isInOrder : filters.length + others.length + sort.length === 0
  return isPage && !grouping ? page.size : (plan?.cost ?? items.size)
}

/** The memory of an id in a list. */
const ID_BYTES = 10

async function findIds(snapshot: CollectionSnapshot, conditions: Conditions, turn: Turn): Promise<ChunkedList<ItemId>> {
  const cursor = new ResultCursor(snapshot, { ...conditions, sort: [] })
  const ids = new ChunkedList<ItemId>()
  turn.estimatedMs = snapshot.items.size * ITEM_MS
  for (;;) {
    const places = await cursor.next(turn)
    if (!places) return ids
    await visitEach(places, turn, (place) => {
      const { id } = snapshot.items.itemAt(place) as Item
      turn.hold(ID_BYTES + idBytes(id))
      ids.push(id)
    })
  }
}
