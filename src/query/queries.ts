import { Collection } from '../collections/collection.ts'
import { IdList } from '../collections/id-list.ts'
import type { Item } from '../collections/item.ts'
import type { ItemId, Position } from '../events/event.ts'
import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { type Asker, type Limit, Slices, type Steps } from '../runtime/time-slices.ts'
import { groupedAnswer } from './aggregate/grouped.ts'
import { type Answer, textOf } from './answer.ts'
import { type Each, embedding, type ItemText, type Match, type RelatedReading } from './embedding.ts'
import { type Conditions, passing } from './filter.ts'
import { AccessPaths } from './index/access.ts'
import { type Found, finding, matches } from './index/finder.ts'
import { FEW, type Lead, leadOf } from './index/plan.ts'
import { HeldReading, type Reading } from './index/reading.ts'
import { type IndexStatus, indexedOf, keysAt, nameOf, type StoredIndex } from './index/stored-index.ts'
import type { StoredIndexes } from './index/stored-indexes.ts'
import { KIND } from './index/tuples.ts'
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
  /** The field of the event time. */
  readonly time?: Path
}

export type PresentCollection = Collection

/** The queried data: a collection, which is pinned when the work begins, or a reading, which the caller releases. */
export type QuerySource = Collection | Reading

type State = Pick<Reading, 'at' | 'position' | 'exists'>
type Answering<Result> = (reading: Reading, lead: Lead | undefined) => Steps<Result>

export interface FoundAt extends Found, State {}
export interface AnsweredAt extends Answer, State {}

/** The ids of the items that match filters at one position. */
export interface Selection {
  readonly position: Position
  readonly ids: Iterable<ItemId | undefined>
  /** Whether an item that was written since matches. */
  readonly matches: (item: JsonObject) => Steps<boolean>
}

/** Highest number of indexes of a collection. */
const MOST_INDEXES = 16
/** Highest number of remembered combinations of paths. */
const REMEMBERED = 100
/** An index is built when its combination of paths is queried this often. */
const OFTEN = 2
/** Bytes of an entry besides its key. */
const KEY_BYTES = 2
/** Estimated fill factor of nodes. */
const FILLED = 0.8
/** Bytes of an item in the store besides its text. */
const ITEM_BYTES = 130
/** Items read to estimate the size of an index. */
const SAMPLE = 16
/** The indexes of a collection may always take this size, however small its items are. */
const LEAST_BYTES = 64 * 1024 * 1024
/** After this number of queries, earlier counts are halved. */
const HALF_LIFE = 10_000

interface Asked {
  readonly paths: readonly Path[]
  times: number
  /** The count at which the building of an index is considered next. */
  next: number
}

/**
 * Answers queries as of the position at which they arrive. Long work is time-sliced and reads at that position until
 * its end. A useful index is built when it is wanted a second time.
 */
export class Queries {
  readonly #options: QueriesOptions
  readonly #slices: Slices
  /** By collection and paths, the least recently used first. */
  readonly #asked = new Map<string, Asked>()
  #queries = 0
  /** Tables of collections whose configured indexes exist or are being built. */
  readonly #fixed = new Map<string, number>()

  constructor(options: QueriesOptions) {
    this.#options = options
    this.#slices = options.slices ?? new Slices()
    for (const name of Object.keys(options.collections ?? {})) this.#fix(options.views.any(name))
  }

  /** The requested page as text. Throws when the client has disconnected. */
  answer(source: QuerySource, query: Query, asker?: Asker): AnsweredAt | Promise<AnsweredAt> {
    return this.#slices.run(() => this.#answering(source, query), asker)
  }

  find(source: QuerySource, query: Query, asker?: Asker): FoundAt | Promise<FoundAt> {
    return this.#slices.run(() => this.#finding(source, query), asker)
  }

  /** The texts of items, of which `fields` are shown, with related ones in them: at most so many in all. */
  embed(
    items: readonly Item[],
    fields: Query['fields'],
    related: readonly RelatedReading[],
    most: number,
    asker?: Asker,
  ): readonly ItemText[] | Promise<readonly ItemText[]> {
    const match: Match = (one, wanted, each) => this.#matching(one, { ...NO_PAGE, ...wanted }, each)
    return this.#slices.run(() => embedding(items, fields, related, most, match), asker)
  }

  /** Pins the current collection for a ResultCursor. The caller must release it. */
  hold(collection: Collection): HeldReading {
    this.#fix(collection)
    return new HeldReading(collection, this.#options.views.indexes.of(collection.facts.table))
  }

  /** The items that match now. Throws when it takes longer than the limit. */
  async select(collection: Collection, conditions: Conditions, limit: Limit | undefined): Promise<Selection> {
    const reading = this.hold(collection)
    try {
      const ids = await this.#slices.run(() => idsOf(reading, conditions), { isGone: () => false, limit })
      return { position: reading.at, ids, matches: (item) => passing(item, conditions) }
    } finally {
      reading.release()
    }
  }

  /** The field of the event time of a collection. */
  timeOf(name: string): Path | undefined {
    const { collections = {} } = this.#options
    return Object.hasOwn(collections, name) ? collections[name]?.time : undefined
  }

  list(): readonly IndexStatus[] {
    const { indexes } = this.#options.views
    const isOfNow = ({ table, collection }: StoredIndex) => this.#options.views.any(collection)?.facts.table === table
    return indexes.all.filter(isOfNow).map(({ status }) => {
      const places = this.#options.views.any(status.collection)?.places
      return status.built === undefined ? status : { ...status, built: Math.min(1, status.built / (places || 1)) }
    })
  }

  *#answering(source: QuerySource, query: Query): Steps<AnsweredAt> {
    return yield* this.#led(source, query, (reading, lead) => answerOf(reading, query, lead))
  }

  *#finding(source: QuerySource, query: Query): Steps<FoundAt> {
    return yield* this.#led(source, query, (reading, lead) => finding(reading, query, lead))
  }

  *#matching({ collection, reading }: RelatedReading, query: Query, each: Each): Steps<void> {
    const answer = (of: Reading, lead: Lead | undefined) => matchingAll(of, query, lead, each)
    // Queries of the past do not count towards the indexes of the present.
    const now = reading instanceof HeldReading ? this.#options.views.find(collection) : undefined
    yield* this.#ledIn(reading, query, answer, now)
  }

  /** Creates an answer with the most helpful index, if any. */
  *#led<Result>(source: QuerySource, query: Query, answer: Answering<Result>): Steps<Result & State> {
    if (!(source instanceof Collection)) return yield* this.#ledIn(source, query, answer)
    const reading = this.hold(source)
    try {
      return yield* this.#ledIn(reading, query, answer, source)
    } finally {
      reading.release()
    }
  }

  /** `now` is the collection if its present is read; only such queries influence its indexes. */
  *#ledIn<Result>(reading: Reading, query: Query, answer: Answering<Result>, now?: Collection): Steps<Result & State> {
    const { at, position, exists } = reading
    const accessPaths = yield* AccessPaths.of(query)
    const lead = yield* leadOf(reading, accessPaths)
    if (now) this.#note(now, accessPaths, lead)
    return { ...(yield* answer(reading, lead)), at, position, exists }
  }

  /** Counts the use of an index, and the demand for a better one. */
  #note(collection: Collection, accessPaths: AccessPaths, lead: Lead | undefined): void {
    this.#count()
    if (lead) lead.index.uses++
    if (lead?.isInOrder || (lead?.size ?? collection.size) <= FEW) return
    if (lead?.access.covered && accessPaths.isCoveredWellBy(lead.index.paths)) return
    const paths = accessPaths.ideal
    if (paths.length === 0 || lead?.index.name === nameOf(paths)) return
    const key = JSON.stringify([collection.name, nameOf(paths)])
    const asked = this.#asked.get(key) ?? { paths, times: 0, next: OFTEN }
    this.#asked.delete(key)
    asked.times++
    this.#asked.set(key, asked)
    if (this.#asked.size > REMEMBERED) this.#asked.delete(this.#asked.keys().next().value as string)
    if (asked.times >= asked.next) this.#build(collection, asked)
  }

  /** Builds the configured indexes, one after the other. */
  #fix(collection: Collection | undefined): void {
    const { collections = {}, views } = this.#options
    const wanted = collection && Object.hasOwn(collections, collection.name) && collections[collection.name]
    if (!wanted || this.#fixed.get(collection.name) === collection.facts.table) return
    const { name, facts } = collection
    this.#fixed.set(name, facts.table)
    const build = async (): Promise<void> => {
      for (const paths of wanted.indexes) {
        const built = views.indexes.build(facts.table, name, paths)
        for (const index of views.indexes.of(facts.table)) if (index.name === nameOf(paths)) index.isFixed = true
        await built
      }
    }
    void build()
  }

  #build(collection: Collection, asked: Asked): void {
    const { paths, times } = asked
    const of = this.#options.views.indexes.of(collection.facts.table)
    // Only one index of a collection is built at a time.
    if (of.some(({ isBuilt }) => !isBuilt) || of.some(({ name }) => name === nameOf(paths))) return
    const dropped = this.#roomFor(collection, paths, times)
    asked.next = dropped ? OFTEN : 2 * times
    if (!dropped) return
    const { indexes } = this.#options.views
    for (const index of dropped) void indexes.drop(index)
    void indexes.build(collection.facts.table, collection.name, paths)
  }

  /** The indexes to drop for a new one; undefined if there is no room for it, or it would be useless. */
  #roomFor(collection: Collection, paths: readonly Path[], times: number): readonly StoredIndex[] | undefined {
    const { keyBytes, itemBytes, isOfUse } = sampled(collection, paths)
    if (!isOfUse) return undefined
    const { bytes, views } = this.#options
    const all = this.#options.views.indexes.of(collection.facts.table)
    const most = bytes > 0 ? bytes : Math.max(LEAST_BYTES, (itemBytes * collection.size) / 2)
    let left = most - keyBytes * collection.size
    for (const index of bytes > 0 ? views.indexes.all : all) left -= index.bytes
    const dropped: StoredIndex[] = []
    const leastUsed = [...all].filter(({ isFixed }) => !isFixed).sort((a, b) => a.uses - b.uses)
    while (left < 0 || all.length - dropped.length >= MOST_INDEXES) {
      const index = leastUsed.shift()
      // A more frequently used index would soon be built again.
      if (!index || index.uses >= times) return undefined
      dropped.push(index)
      left += index.bytes
    }
    return dropped
  }

  #count(): void {
    if (++this.#queries % HALF_LIFE > 0) return
    for (const index of this.#options.views.indexes.all) index.uses /= 2
    for (const asked of this.#asked.values()) {
      asked.times /= 2
      asked.next = Math.max(OFTEN, asked.next / 2)
    }
  }
}

function* answerOf(reading: Reading, query: Query, lead: Lead | undefined): Steps<Answer> {
  const { grouping } = query
  if (grouping) return yield* groupedAnswer(reading, query, grouping, lead)
  const { items, total } = yield* finding(reading, query, lead)
  return { text: yield* textOf(items, query.fields), total }
}

function* matchingAll(reading: Reading, query: Query, lead: Lead | undefined, each: Each): Steps<object> {
  yield* matches(reading, query, lead, each)
  return {}
}

function* idsOf(reading: Reading, conditions: Conditions): Steps<IdList> {
  const cursor = new ResultCursor(reading, { ...conditions, sort: [] })
  const ids = new IdList()
  for (;;) {
    const places = yield* cursor.next()
    if (!places) return ids
    for (const place of places) {
      ids.push(reading.items.uncachedAt(place)?.id)
      yield
    }
  }
}

/** Estimates the size of an index per item from a sample. */
function sampled(collection: Collection, paths: readonly Path[]) {
  let keyBytes = 0
  let itemBytes = 0
  let useful = 0
  const places = collection.places / SAMPLE
  for (let at = 0; at < SAMPLE; at++) {
    const place = collection.seek(Math.floor(at * places))
    const item = collection.itemAt(place)
    const keys = keysAt(indexedOf(item), paths, place)
    itemBytes += ITEM_BYTES + (item?.text.length ?? 0)
    for (const key of keys) keyBytes += (KEY_BYTES + key.length) / FILLED
    if (keys[0]?.charCodeAt(0) !== KIND.unknown) useful++
  }
  return { keyBytes: keyBytes / SAMPLE, itemBytes: itemBytes / SAMPLE, isOfUse: useful > SAMPLE / 2 }
}

export type { IndexStatus }
