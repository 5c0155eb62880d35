import { Collection } from '../../collections/collection.ts'
import { IdList } from '../../collections/id-list.ts'
import type { ItemId, Position } from '../../events/event.ts'
import type { Path } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { type Asker, type Limit, Slices, type Steps } from '../../slices.ts'
import type { Views } from '../views.ts'
import { groupedAnswer } from './aggregate/grouped.ts'
import { type Answer, textOf } from './answer.ts'
import { type Conditions, passing } from './filter.ts'
import { AccessPaths } from './index/access.ts'
import { type Found, finding } from './index/finding.ts'
import { FEW, type Lead, leadOf } from './index/plan.ts'
import { HeldReading, type Reading } from './index/reading.ts'
import { type IndexStatus, indexedOf, keysAt, nameOf, type StoredIndex } from './index/stored-index.ts'
import { KIND } from './index/tuples.ts'
import type { Query } from './query.ts'
import { ResultCursor } from './result-cursor.ts'

export interface QueriesOptions {
  /** Of the present. */
  readonly views: Pick<Views, 'any' | 'indexes'>
  /** That all indexes together may take; 0: half of what the items of each collection take. */
  readonly bytes: number
  /** By name. */
  readonly collections?: Readonly<Record<string, CollectionOptions>>
  readonly slices?: Slices
}

export interface CollectionOptions {
  /** The paths of each index that the collection is to have in any case. */
  readonly indexes: readonly (readonly Path[])[]
  /** The field of the event time. */
  readonly time?: Path
}

/** What a query is answered from: a collection as it is when the work begins, or a reading of it, which the caller releases. */
export type QuerySource = Collection | Reading

type State = Pick<Reading, 'at' | 'position' | 'exists'>
type Answering<Result> = (reading: Reading, lead: Lead | undefined) => Steps<Result>

export interface FoundAt extends Found, State {}
export interface AnsweredAt extends Answer, State {}

/** The items that filters select, as they were at one position. */
export interface Selection {
  readonly position: Position
  readonly ids: Iterable<ItemId | undefined>
  /** Whether the filters select an item that was written since. */
  readonly matches: (item: JsonObject) => Steps<boolean>
}

/** A collection may have so many indexes. */
const MOST_INDEXES = 16
/** Combinations of paths that are remembered to have been asked for. */
const REMEMBERED = 100
/** An index is built when a combination of its paths is asked for so often. */
const OFTEN = 2
/** Bytes that a key takes beside its own, */
const KEY_BYTES = 2
/** and how full nodes are, about. */
const FILLED = 0.8
/** Bytes that the store takes for an item beside its text. */
const ITEM_BYTES = 130
/** Items that are looked at to guess how large an index will be. */
const SAMPLE = 16
/** The indexes of a collection may take so much, however small its items are. */
const LEAST_BYTES = 64 * 1024 * 1024
/** After so many queries what was counted before them counts half. */
const HALF_LIFE = 10_000

interface Asked {
  readonly paths: readonly Path[]
  times: number
  /** When it was asked for so often, it is seen whether an index of them can be built. */
  next: number
}

/**
 * Answers queries, as of the position at which they came. What takes long is done in slices, and read at that position until
 * it is answered. An index that would help is built when it is wanted a second time.
 */
export class Queries {
  readonly #options: QueriesOptions
  readonly #slices: Slices
  /** By collection and paths, the one that was asked for longest ago first. */
  readonly #asked = new Map<string, Asked>()
  #queries = 0
  /** The tables of collections whose fixed indexes there are, or are being built. */
  readonly #fixed = new Map<string, number>()

  constructor(options: QueriesOptions) {
    this.#options = options
    this.#slices = options.slices ?? new Slices()
    for (const name of Object.keys(options.collections ?? {})) this.#fix(options.views.any(name))
  }

  /** The page that a query asks for, as text. Refuses when nobody waits for it any more. */
  answer(source: QuerySource, query: Query, asker?: Asker): AnsweredAt | Promise<AnsweredAt> {
    return this.#slices.run(() => this.#answering(source, query), asker)
  }

  /** What a query finds. */
  find(source: QuerySource, query: Query, asker?: Asker): FoundAt | Promise<FoundAt> {
    return this.#slices.run(() => this.#finding(source, query), asker)
  }

  /** The collection as it is now, for a ResultCursor. It is to be released. */
  hold(collection: Collection): HeldReading {
    this.#fix(collection)
    return new HeldReading(collection, this.#options.views.indexes.of(collection.facts.table))
  }

  /** The items that filters select now. Refuses when it takes longer than the limit. */
  async select(collection: Collection, conditions: Conditions, limit: Limit | undefined): Promise<Selection> {
    const reading = this.hold(collection)
    try {
      const ids = await this.#slices.run(() => idsOf(reading, conditions), { isGone: () => false, limit })
      return { position: reading.at, ids, matches: (item) => passing(item, conditions) }
    } finally {
      reading.release()
    }
  }

  /** The field of the event time of a collection's items. */
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

  /** Makes an answer with the index that helps most; undefined where none helps. */
  *#led<Result>(source: QuerySource, query: Query, answer: Answering<Result>): Steps<Result & State> {
    if (!(source instanceof Collection)) return yield* this.#ledIn(source, query, answer)
    const reading = this.hold(source)
    try {
      return yield* this.#ledIn(reading, query, answer, source)
    } finally {
      reading.release()
    }
  }

  /** `now` is the collection, where its present is read: what queries of it ask for decides about its indexes. */
  *#ledIn<Result>(reading: Reading, query: Query, answer: Answering<Result>, now?: Collection): Steps<Result & State> {
    const { at, position, exists } = reading
    const accessPaths = yield* AccessPaths.of(query.grouping ? { ...query, sort: [] } : query)
    const lead = yield* leadOf(reading, accessPaths)
    if (now) this.#note(now, accessPaths, lead)
    return { ...(yield* answer(reading, lead)), at, position, exists }
  }

  /** Takes note of the index that was used, and of the one that would have helped more. */
  #note(collection: Collection, accessPaths: AccessPaths, lead: Lead | undefined): void {
    this.#count()
    if (lead) lead.index.uses++
    if (lead?.isInOrder || (lead?.size ?? collection.size) <= FEW) return
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

  /** Builds the indexes that the settings want, one after the other. */
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
    // While one is built, others wait.
    if (of.some(({ isBuilt }) => !isBuilt) || of.some(({ name }) => name === nameOf(paths))) return
    const dropped = this.#roomFor(collection, paths, times)
    asked.next = dropped ? OFTEN : 2 * times
    if (!dropped) return
    const { indexes } = this.#options.views
    for (const index of dropped) void indexes.drop(index)
    void indexes.build(collection.facts.table, collection.name, paths)
  }

  /** The indexes that are to give way to another; undefined where there is no room for it, or it would not be of use. */
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
      // One that is asked for more often would soon take its place again.
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

/** What an index of these paths would take for each item, from some of them. */
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
