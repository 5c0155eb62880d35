import type { Collection } from '../../collections/collection.ts'
import type { Path } from '../../json/paths.ts'
import { type AccessPaths, FEW, type IndexPlan } from './plan.ts'
import { indexName, keysAt, type StoredIndex } from './stored-index.ts'
import type { StoredIndexes } from './stored-indexes.ts'
import { type IndexFields, KIND } from './tuples.ts'

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

export interface IndexAdvisorOptions {
  readonly indexes: StoredIndexes
  /** Highest size of all indexes; 0: half of the size of each collection's items. */
  readonly bytes: number
  /** The paths of each index from the settings, by name of the collection. */
  readonly collections: Readonly<Record<string, { readonly indexes: readonly (readonly Path[])[] }>>
  /** The collection, also if it was removed. */
  readonly any: (name: string) => Collection | undefined
}

/** The demand for an index. */
interface Demand {
  readonly collection: string
  readonly paths: readonly Path[]
  /** How often queries had to do without it. */
  times: number
  /** The count at which the building of the index is considered next. */
  next: number
}

/** Decides which indexes are built and dropped: those from the settings, and those that queries need often. */
export class IndexAdvisor {
  readonly #options: IndexAdvisorOptions
  /** By collection and paths, the least recently used first. */
  readonly #demands = new Map<string, Demand>()
  #queries = 0
  /** Tables of collections whose configured indexes exist or are being built. */
  readonly #configured = new Map<string, number>()

  constructor(options: IndexAdvisorOptions) {
    this.#options = options
  }

  /** Builds the configured indexes of each collection whose table has none, one after the other. */
  buildConfigured(): void {
    const { collections, any } = this.#options
    for (const [name, { indexes }] of Object.entries(collections)) {
      const collection = any(name)
      if (!collection || this.#configured.get(name) === collection.facts.table) continue
      this.#configured.set(name, collection.facts.table)
      void this.#buildAll(collection, indexes)
    }
  }

  async #buildAll(collection: Collection, all: readonly (readonly Path[])[]): Promise<void> {
    const { indexes } = this.#options
    const { table } = collection.facts
    // Natural keys rest on some of those that exist.
    indexes.fix(table, all)
    for (const paths of all) {
      // Meanwhile a new order has given the collection another table.
      if (collection.facts.table !== table) return
      const built = indexes.build(table, collection.name, paths)
      indexes.fix(table, [paths])
      await built
    }
    this.#buildWanted(collection)
  }

  /** Counts the use of an index by a query, and the demand for a better one. */
  note(collection: Collection, accessPaths: AccessPaths, plan: IndexPlan | undefined): void {
    this.#countQuery()
    if (plan) plan.index.uses++
    if (plan?.isInOrder || (plan?.size ?? collection.size) <= FEW) return
    if (plan?.access.covered && accessPaths.isCoveredWellBy(plan.index.paths)) return
    const paths = accessPaths.ideal
    if (paths.length === 0 || plan?.index.name === indexName(paths)) return
    const key = demandKey(collection.name, indexName(paths))
    const demand = this.#demands.get(key) ?? { collection: collection.name, paths, times: 0, next: OFTEN }
    this.#demands.delete(key)
    demand.times++
    this.#demands.set(key, demand)
    if (this.#demands.size > REMEMBERED) this.#demands.delete(this.#demands.keys().next().value as string)
    if (demand.times >= demand.next) this.#buildWanted(collection)
  }

  /** Builds the index with the highest demand. Only one index of a collection is built at a time. */
  #buildWanted(collection: Collection): void {
    const { indexes } = this.#options
    const { name, facts } = collection
    const existing = indexes.of(facts.table)
    if (collection.size <= FEW || existing.some(({ isBuilt }) => !isBuilt)) return
    const names = new Set(existing.map(({ name }) => name))
    let wanted: Demand | undefined
    for (const demand of this.#demands.values()) {
      const isWanted = demand.collection === name && demand.times >= demand.next && !names.has(indexName(demand.paths))
      if (isWanted && demand.times > (wanted?.times ?? 0)) wanted = demand
    }
    if (!wanted) return
    const dropped = this.#indexesToDrop(collection, wanted)
    wanted.next = dropped ? wanted.times + OFTEN : 2 * wanted.times
    if (!dropped) return
    for (const index of dropped) void indexes.drop(index)
    void indexes.build(facts.table, name, wanted.paths).then(() => this.#buildWanted(collection))
  }

  /** The indexes to drop for a new one; undefined if there is no room for it, or it would be useless. */
  #indexesToDrop(collection: Collection, { paths, times }: Demand): readonly StoredIndex[] | undefined {
    const { bytes, indexes } = this.#options
    const { keyBytes, itemBytes, isUseful } = estimateIndex(collection, indexes.fieldsOf(collection.name, paths))
    if (!isUseful) return undefined
    const existing = indexes.of(collection.facts.table)
    const most = bytes > 0 ? bytes : Math.max(LEAST_BYTES, (itemBytes * collection.size) / 2)
    let freeBytes = most - keyBytes * collection.size
    for (const index of bytes > 0 ? indexes.all : existing) freeBytes -= index.bytes
    const dropped: StoredIndex[] = []
    const leastUsed = existing
      .filter(({ isFixed }) => !isFixed)
      .sort((one, other) => this.#demandFor(one) - this.#demandFor(other))
    while (freeBytes < 0 || existing.length - dropped.length >= MOST_INDEXES) {
      const index = leastUsed.shift()
      // An index with a higher demand would soon be built again.
      if (!index || this.#demandFor(index) >= times) return undefined
      dropped.push(index)
      freeBytes += index.bytes
    }
    return dropped
  }

  /** How often queries have used an index, or had to do without it before it was built. */
  #demandFor({ collection, name, uses }: StoredIndex): number {
    return uses + (this.#demands.get(demandKey(collection, name))?.times ?? 0)
  }

  /** Halves all counts from time to time, so that recent queries count more. */
  #countQuery(): void {
    if (++this.#queries % HALF_LIFE > 0) return
    for (const index of this.#options.indexes.all) index.uses /= 2
    for (const demand of this.#demands.values()) {
      demand.times /= 2
      demand.next = Math.max(OFTEN, demand.next / 2)
    }
  }
}

function demandKey(collection: string, index: string): string {
  return JSON.stringify([collection, index])
}

/** Estimates the size of an index and of the items, per item, from a sample. */
function estimateIndex(collection: Collection, fields: IndexFields) {
  let keyBytes = 0
  let itemBytes = 0
  let indexable = 0
  // The items before it have expired.
  const first = collection.seek(0)
  const places = (collection.places - first) / SAMPLE
  for (let at = 0; at < SAMPLE; at++) {
    const place = collection.seek(first + Math.floor(at * places))
    const item = collection.itemAt(place)
    const keys = keysAt(item, fields, place)
    itemBytes += ITEM_BYTES + (item?.text.length ?? 0)
    for (const key of keys) keyBytes += (KEY_BYTES + key.length) / FILLED
    if (keys[0]?.charCodeAt(0) !== KIND.unknown) indexable++
  }
  return { keyBytes: keyBytes / SAMPLE, itemBytes: itemBytes / SAMPLE, isUseful: indexable > SAMPLE / 2 }
}
