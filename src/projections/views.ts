import { setImmediate } from 'node:timers/promises'
import { Collection } from '../collections/collection.ts'
import { type CollectionWriter, storedCollections } from '../collections/collection-writer.ts'
import { type ExpiryTime, LeastTimes } from '../collections/least-times.ts'
import { type KeyFields, NaturalKeys } from '../collections/natural-keys.ts'
import { Packing } from '../collections/packing.ts'
import type { CollectionFacts, PinnedCollection } from '../collections/stored-items.ts'
import { itemCache } from '../collections/table.ts'
import type { DomainEvent, Position } from '../events/event.ts'
import { bytesOfEvent, type Journal, type Projection, type Recorded, type StoredProjection } from '../events/journal.ts'
import { isOutOfSpace } from '../files/files.ts'
import type { Path } from '../json/paths.ts'
import { StoredIndexes } from '../query/index/stored-indexes.ts'
import { Refusal } from '../runtime/errors.ts'
import { SpaceRetry } from '../store/disk-space.ts'
import { TAG, tableKey } from '../store/keys.ts'
import { type Pin, Store } from '../store/store.ts'
import { EventCounts } from './event-counts.ts'
import { SHORT_MICROSECONDS, type StoredState, StoreFold, storedState } from './store-fold.ts'

/**
 * Writes stored together while a journal is read, and the memory of their events. With 256 a rebuild takes up to twice as
 * long; with 4096 it is not faster, and blocks the event loop for 100 ms.
 */
const REPLAYED_TOGETHER = 1024
const REPLAYED_BYTES = 4 * 1024 * 1024

export interface ViewsOptions {
  /** Which events are of interest; without it all are. */
  readonly wants?: (event: DomainEvent) => boolean
  /** The natural keys that commands look up. */
  readonly keyFields?: KeyFields
  /** The times by which items expire, by collection. */
  readonly expiryTimes?: ReadonlyMap<string, ExpiryTime>
  /** The field of the event time, by collection. */
  readonly times?: ReadonlyMap<string, Path>
  /** Nothing is written, not even to tidy up. */
  readonly isReadOnly?: boolean
}

interface BuildOptions {
  /** On a full disk it waits; otherwise it fails. */
  readonly waits: boolean
  /** No requests are served that long transactions would delay. */
  readonly isAlone: boolean
  /** Called after each batch. */
  readonly built?: () => void
}

/** Beside requests, for one of them. */
export const FOR_A_REQUEST: BuildOptions = { waits: false, isAlone: false }

/**
 * The collections as GET reads them: the fold of every durable event, in the store.
 *
 * | A write is | By | `applied` | `position` | Who sees it |
 * |---|---|---|---|---|
 * | durable | the journal, which then calls `put` | before it | before it | nobody |
 * | being stored | `put`, in several transactions if it is large | within it | before it | stored projections and indexes, in the same transactions |
 * | stored | the last transaction | its last event | before it | nobody else |
 * | visible | `apply` | its last event | its last event | GET and queries, then the projections after the views |
 *
 * A transaction that fails leaves the phase as it was, and is repeated. A process that ends while a write is being stored
 * continues with the rest of it at its next start; until then readers see the state before it.
 */
export class Views implements Projection {
  readonly store: Store
  readonly indexes: StoredIndexes
  readonly eventCounts: EventCounts
  readonly leastTimes: LeastTimes
  /** The field of the event time, by collection. */
  readonly times: ReadonlyMap<string, Path>
  readonly #naturalKeys: NaturalKeys
  readonly #projections: StoredProjection[] = []
  readonly #fold: StoreFold
  /** By number, in the order of creation, including removed ones. */
  readonly #collections = new Map<number, Collection>()
  readonly #byName = new Map<string, Collection>()
  readonly #cache = itemCache()
  #shown: StoredState
  #replayed: Recorded[] = []
  #saveCheckpoint: (state: StoredState) => void = () => {}
  readonly #space = new SpaceRetry()
  readonly #removal: TableRemoval
  readonly #packing: Packing

  constructor(
    store: Store,
    { wants, keyFields = new Map(), expiryTimes = new Map(), times = new Map(), isReadOnly = false }: ViewsOptions = {},
  ) {
    this.store = store
    this.times = times
    this.leastTimes = new LeastTimes(store, expiryTimes)
    this.indexes = new StoredIndexes(store, () => this.applied, times)
    this.#naturalKeys = new NaturalKeys(store, keyFields, this.indexes)
    this.eventCounts = new EventCounts(store, storedState(store).applied)
    this.#fold = new StoreFold({
      store,
      counts: this.eventCounts,
      projections: this.#projections,
      indexes: this.indexes,
      naturalKeys: this.#naturalKeys,
      leastTimes: this.leastTimes,
      save: (state) => this.#saveCheckpoint(state),
      show: (writers) => this.#show(writers),
      wants,
    })
    this.#removal = new TableRemoval(store, this.indexes)
    const tables = (): CollectionFacts[] => Array.from(this.#collections.values(), ({ facts }) => facts)
    this.#packing = new Packing(store, tables, () => this.applied)
    this.#shown = this.#fold.state
    const known = new Set<number>()
    for (const [number, facts] of storedCollections(store)) {
      this.#add(number, facts)
      known.add(facts.table)
    }
    if (!isReadOnly) void this.#removal.tidy(known, this.#shown.next)
  }

  /** Views in a temporary store, which disappears when it is garbage-collected. */
  static temporary(directory?: string, options?: ViewsOptions): Views {
    return new Views(Store.temporary(directory), options)
  }

  /** The number of a collection in the store; undefined if it never existed. */
  numberOf(name: string): number | undefined {
    return this.#fold.numberOf(name)
  }

  /** The name of the collection with a number. */
  nameOf(number: number): string | undefined {
    return this.#collections.get(number)?.name
  }

  /** Position of the last event that readers see. */
  get position(): Position {
    return this.#shown.visible
  }

  /** Position of the last event in the store; readers may be behind during a large write. */
  get applied(): Position {
    return this.#fold.state.applied
  }

  /** Position of the last event that created or removed a collection. */
  get namesPosition(): Position {
    return this.#shown.names
  }

  /** When something was received last, and whether that time has jumped. */
  get receipt(): Pick<StoredState, 'receivedMs' | 'jump'> {
    return this.#shown
  }

  /** Whether the store waits for space on the disk. */
  get isFull(): boolean {
    return this.#space.isFull
  }

  /** Adds projections that are stored in the same transactions, in this order. */
  storeWith(...projections: readonly StoredProjection[]): void {
    this.#projections.push(...projections)
  }

  /** Sets a function that is called in each transaction, to store data that belongs to the state. */
  saveWith(save: (state: StoredState) => void): void {
    this.#saveCheckpoint = save
  }

  /**
   * Stores durable writes, which become visible with `apply`: at once, or later if they take several transactions or
   * there is no space on the disk. The next call must wait for the returned promise.
   */
  put(batch: readonly Recorded[]): void | Promise<void> {
    // Most writes take one transaction, and no promise.
    let begun: Generator<undefined, void> | undefined = this.#fold.storeRead(batch)
    try {
      if (begun.next().done) return this.store.rest()
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
      begun = undefined
    }
    return this.onceRoom(async () => {
      // A repetition after a full disk skips what the store already has.
      const steps = begun ?? this.#fold.storeRead(batch)
      begun = undefined
      // The first transaction ran in a callback of I/O, in whose iteration immediates still follow.
      await setImmediate()
      await this.#stepwise(steps)
    }, begun === undefined)
  }

  /** Makes all stored writes visible. */
  apply(): void {
    this.#fold.show()
    this.#packing.note()
  }

  /** Packs items in the background from now on. Resolves at the end of the first pass over them. */
  pack(): Promise<void> {
    return this.#packing.begin()
  }

  /** Stops waiting for space on the disk. */
  end(): void {
    this.#space.end()
    this.indexes.end()
    this.eventCounts.end()
    this.#packing.end()
    this.#naturalKeys.end()
  }

  /**
   * Retries work until there is space on the disk.
   * @throws {Refusal} `OutcomeUnknown` at the end, if there is none.
   */
  async onceRoom(work: () => void | Promise<void>, hasFailed = false): Promise<void> {
    if (await this.#space.run(work, hasFailed)) return
    throw new Refusal('OutcomeUnknown', 'The server ends while its disk is full; the journal has what was written.')
  }

  /** Whether all natural keys are there to be looked up. */
  get hasNaturalKeys(): boolean {
    return this.#naturalKeys.isBuilt
  }

  /**
   * Builds the natural keys that are not there, and the indexes that find them. Nothing may be written meanwhile. `progress`
   * gets the number of places that were read, and that of all in their collection.
   * @throws {Refusal} `Conflict` when two items have the same one.
   */
  buildNaturalKeys(progress?: (places: number, of: number) => void): Promise<void> {
    return this.#naturalKeys.build(this.any, (work) => this.onceRoom(() => this.store.transaction(work)), progress)
  }

  /** From now on all writes are decided with the same natural keys. */
  trustDecisions(): void {
    this.#naturalKeys.trustDecisions()
  }

  /** Removes natural keys that the settings do not want, in the background. */
  tidyNaturalKeys(): Promise<void> {
    return this.#naturalKeys.tidy()
  }

  /** Counts the events that an earlier version stored, in the background. Does nothing if there are none. */
  countEarlier(journal: Pick<Journal, 'read'>): Promise<void> {
    return this.eventCounts.countEarlier(
      journal,
      (name) => this.numberOf(name),
      (work) => this.onceRoom(() => this.store.transaction(work)),
    )
  }

  /** Stores the writes of a journal in batches, while there are no readers. */
  async build(writes: AsyncIterable<Recorded>, { waits, isAlone, built = () => {} }: BuildOptions): Promise<void> {
    const most = isAlone ? Number.POSITIVE_INFINITY : SHORT_MICROSECONDS
    let batch: Recorded[] = []
    let bytes = 0
    const put = async (): Promise<void> => {
      const putBatch = (): Promise<void> => this.#stepwise(this.#fold.store(batch, most))
      await (waits ? this.onceRoom(putBatch) : putBatch())
      batch = []
      bytes = 0
      this.apply()
      built()
    }
    for await (const recorded of writes) {
      batch.push(recorded)
      for (const event of recorded.events) bytes += bytesOfEvent(event)
      if (batch.length === REPLAYED_TOGETHER || bytes >= REPLAYED_BYTES) await put()
    }
    if (batch.length > 0) await put()
  }

  /** Synchronous `build`, which blocks the event loop. Call `replayed` after the last write. */
  replay(recorded: Recorded): void {
    this.#replayed.push(recorded)
    if (this.#replayed.length >= REPLAYED_TOGETHER) this.replayed()
  }

  replayed(): void {
    const batch = this.#replayed
    this.#replayed = []
    for (const _ of this.#fold.store(batch, Number.POSITIVE_INFINITY));
    this.apply()
  }

  /** The collection, also if it was removed: its ids are remembered. */
  readonly any = (name: string): Collection | undefined => this.#byName.get(name)

  /** The collection, if it exists. */
  find(name: string): Collection | undefined {
    const collection = this.#byName.get(name)
    return collection?.exists ? collection : undefined
  }

  /** In the order of creation. */
  names(): string[] {
    return Array.from(this.#existing(), (collection) => collection.name)
  }

  /** In the order of creation, including removed ones. */
  namesEver(): string[] {
    return Array.from(this.#collections.values(), ({ name }) => name)
  }

  /** Numbers of existing collections and of their items. */
  counts(): { readonly collections: number; readonly items: number } {
    let collections = 0
    let items = 0
    for (const { size } of this.#existing()) {
      collections++
      items += size
    }
    return { collections, items }
  }

  /** A snapshot of the collections, which later events do not change until it is closed. */
  snapshot(): Snapshot {
    const pin = this.store.pin(this.position)
    return new Snapshot(
      pin,
      Array.from(this.#existing(), (collection) => [collection.name, collection.pinned(pin)]),
    )
  }

  #show(writers: Iterable<readonly [number, CollectionWriter]>): void {
    this.#shown = this.#fold.state
    for (const [number, writer] of writers) {
      const known = this.#collections.get(number)
      const facts = { ...writer.facts }
      if (!known) this.#add(number, facts)
      else {
        if (known.facts.table !== facts.table) void this.#removal.removeUnread(known.facts.table, this.position)
        known.show(facts, writer.gaps)
      }
    }
  }

  #add(number: number, facts: CollectionFacts): void {
    const collection = new Collection(
      this.store,
      number,
      facts,
      () => this.#shown.visible,
      this.#cache,
      this.#naturalKeys,
    )
    this.#collections.set(number, collection)
    this.#byName.set(facts.name, collection)
  }

  /** Runs all steps, and yields to the event loop before each. */
  async #stepwise(steps: Generator<undefined, void>): Promise<void> {
    do await (this.store.rest() ?? setImmediate())
    while (!steps.next().done)
  }

  *#existing(): Generator<Collection> {
    for (const collection of this.#collections.values()) if (collection.exists) yield collection
  }
}

/** How often to check whether a table is still being read. */
const READERS_MS = 1000

/** Removes tables that no collection has any more, in the background. */
class TableRemoval {
  readonly #store: Store
  readonly #indexes: StoredIndexes

  constructor(store: Store, indexes: StoredIndexes) {
    this.#store = store
    this.#indexes = indexes
  }

  /** Removes what an interrupted process left: old versions, and all tables below `next` other than `tables`. */
  async tidy(tables: ReadonlySet<number>, next: number): Promise<void> {
    this.#store.versions.sweepSoon()
    await this.#indexes.tidy(tables)
    for (let table = 1; table < next; table++) {
      if (!tables.has(table)) await this.#remove(table)
    }
  }

  /** Removes a table once nobody reads at a position before `replacedAt`. */
  async removeUnread(table: number, replacedAt: Position): Promise<void> {
    while (Math.min(...this.#store.versions.pinned) < replacedAt) {
      await new Promise<void>((resolve) => setTimeout(resolve, READERS_MS).unref())
    }
    await this.#remove(table)
  }

  async #remove(table: number): Promise<void> {
    await this.#indexes.dropTable(table)
    for (const tag of [TAG.item, TAG.place, TAG.gaps, TAG.changed]) await this.#store.clear(tableKey(tag, table))
  }
}

/** The collections at one position, by name, until closed. */
export class Snapshot extends Map<string, PinnedCollection> {
  readonly position: Position
  readonly #pin: Pin

  constructor(pin: Pin, collections: Iterable<readonly [string, PinnedCollection]>) {
    super(collections)
    this.position = pin.position
    this.#pin = pin
    forgotten.register(this, pin)
  }

  close(): void {
    this.#pin.release()
  }
}

/** Releases the pin of a snapshot that was garbage-collected without `close`. */
const forgotten = new FinalizationRegistry<Pin>((pin) => pin.release())
