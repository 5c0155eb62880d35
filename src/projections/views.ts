import { Collection } from '../collections/collection.ts'
import { type CollectionWriter, storedCollections } from '../collections/collection-writer.ts'
import { ItemCache } from '../collections/item-cache.ts'
import type { KeyFields } from '../collections/natural-key.ts'
import { NaturalKeys } from '../collections/natural-keys.ts'
import type { CollectionFacts, PinnedCollection } from '../collections/stored-items.ts'
import type { DomainEvent, Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import type { Projection, StoredProjection } from '../events/projection.ts'
import { isOutOfSpace } from '../files/files.ts'
import { StoredIndexes } from '../query/index/stored-indexes.ts'
import { Refusal } from '../runtime/errors.ts'
import { TAG, tableKey } from '../store/keys.ts'
import { type Pin, Store } from '../store/store.ts'
import { Folding, type StoredState } from './store-fold.ts'

/** A snapshot of the collections at one position, by name, until closed. */
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

/** Releases the pin of a snapshot that was garbage-collected without close(). */
const forgotten = new FinalizationRegistry<Pin>((pin) => pin.release())

/** Delay before retrying while the disk is full. */
const FULL_MS = 500

/** Writes stored together while a journal is read. */
const REPLAYED_TOGETHER = 256

/** The collections as GET reads them: the fold of every durable event, in the store. */
export class Views implements Projection {
  readonly store: Store
  readonly indexes: StoredIndexes
  readonly #naturalKeys: NaturalKeys
  readonly #projections: StoredProjection[] = []
  readonly #folding: Folding
  /** By number, in the order of creation, including removed ones. */
  readonly #collections = new Map<number, Collection>()
  readonly #byName = new Map<string, Collection>()
  readonly #cache = new ItemCache()
  #shown: StoredState
  #replayed: Recorded[] = []
  #saveMark: (state: StoredState) => void = () => {}
  #isFull = false
  #isEnding = false

  /** `wants` says which events are of interest; without it all are. `keyFields` are the natural keys that commands look up. */
  constructor(store: Store, wants?: (event: DomainEvent) => boolean, keyFields: KeyFields = new Map()) {
    this.store = store
    this.#naturalKeys = new NaturalKeys(store, keyFields)
    this.indexes = new StoredIndexes(store, () => this.applied)
    this.#folding = new Folding({
      store,
      projections: this.#projections,
      indexes: this.indexes,
      naturalKeys: this.#naturalKeys,
      save: (state) => this.#saveMark(state),
      show: (writers) => this.#show(writers),
      wants,
    })
    this.#shown = this.#folding.state
    this.#cache.position = this.#shown.visible
    const tables = new Set<number>()
    for (const [number, facts] of storedCollections(store)) {
      this.#add(number, facts)
      tables.add(facts.table)
    }
    void this.#tidy(tables)
  }

  /** Removes the remains of a process that ended while it wrote or read. */
  async #tidy(tables: ReadonlySet<number>): Promise<void> {
    const { next } = this.#folding.state
    this.store.sweepSoon()
    await this.indexes.tidy(tables)
    for (let table = 1; table < next; table++) {
      if (!tables.has(table)) await this.#clearTable(table)
    }
  }

  /** Views in a temporary store, which disappears when it is garbage-collected. */
  static temporary(directory?: string, wants?: (event: DomainEvent) => boolean): Views {
    return new Views(Store.temporary(directory), wants)
  }

  /** The number of a collection in the store; undefined if it never existed. */
  numberOf(name: string): number | undefined {
    return this.#folding.numberOf(name)
  }

  /** Position of the last event that readers see. */
  get position(): Position {
    return this.#shown.visible
  }

  /** Position of the last event in the store; readers may be behind during a large write. */
  get applied(): Position {
    return this.#folding.state.applied
  }

  /** Position of the last event that created or removed a collection. */
  get namesPosition(): Position {
    return this.#shown.names
  }

  /** Whether the store waits for space on the disk. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Adds projections that are stored in the same transactions, in this order. */
  storeWith(...projections: readonly StoredProjection[]): void {
    this.#projections.push(...projections)
  }

  /** Sets a function that is called in each transaction, to store data that belongs to the state. */
  saveWith(save: (state: StoredState) => void): void {
    this.#saveMark = save
  }

  /** Stores durable writes, which become visible with `apply`. The next call must wait for the returned promise. */
  put(batch: readonly Recorded[]): void | Promise<void> {
    const folding = this.#folding.folding(batch, true)
    try {
      if (folding.next().done) return
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
      return this.#putLater(batch)
    }
    return this.#goOn(folding, batch)
  }

  /** Makes all stored writes visible. */
  apply(): void {
    this.#folding.show()
  }

  /** Stops waiting for space on the disk. */
  end(): void {
    this.#isEnding = true
    this.indexes.end()
    this.#naturalKeys.end()
  }

  /** Retries work until there is space on the disk. */
  async onceRoom(work: () => void | Promise<void>): Promise<void> {
    for (;;) {
      try {
        await work()
        this.#isFull = false
        return
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
      }
      await this.#fullDisk()
    }
  }

  /** Whether all natural keys are there to be looked up. */
  get hasNaturalKeys(): boolean {
    return this.#naturalKeys.isBuilt
  }

  /**
   * Builds the natural keys that are not there. Nothing may be written meanwhile.
   * @throws {Refusal} `Conflict` when two items have the same one.
   */
  buildNaturalKeys(): Promise<void> {
    return this.#naturalKeys.build(
      (name) => this.find(name),
      (work) => this.onceRoom(() => this.store.transaction(work)),
    )
  }

  /**
   * Stores the writes of a journal in batches, while there are no readers. `built` is called after each batch. On a full
   * disk it waits or fails.
   */
  async build(writes: AsyncIterable<Recorded>, onFull: 'wait' | 'fail', built = (): void => {}): Promise<void> {
    let batch: Recorded[] = []
    const put = async (): Promise<void> => {
      const putBatch = (): Promise<void> => stepwise(this.#folding.folding(batch, false))
      await (onFull === 'wait' ? this.onceRoom(putBatch) : putBatch())
      batch = []
      this.apply()
      built()
    }
    for await (const recorded of writes) {
      batch.push(recorded)
      if (batch.length === REPLAYED_TOGETHER) await put()
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
    for (const _ of this.#folding.folding(batch, false));
    this.apply()
  }

  /** All collections in the order of creation, including removed ones. */
  ever(): Iterable<Collection> {
    return this.#collections.values()
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

  #goOn(folding: Generator<undefined, void>, batch: readonly Recorded[]): Promise<void> {
    let begun: Generator<undefined, void> | undefined = folding
    return this.onceRoom(async () => {
      const steps = begun ?? this.#folding.folding(batch, true)
      begun = undefined
      await stepwise(steps)
    })
  }

  /** The events are durable in the journal and become visible as soon as there is space for them. */
  async #putLater(batch: readonly Recorded[]): Promise<void> {
    await this.#fullDisk()
    await this.#goOn(this.#folding.folding(batch, true), batch)
  }

  /** Waits before the next attempt. */
  async #fullDisk(): Promise<void> {
    this.#isFull = true
    await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS))
    if (this.#isEnding) {
      throw new Refusal('OutcomeUnknown', 'The server ends while its disk is full; the journal has what was written.')
    }
  }

  #show(writers: Iterable<readonly [number, CollectionWriter]>): void {
    this.#shown = this.#folding.state
    this.#cache.position = this.#shown.visible
    for (const [number, writer] of writers) {
      const known = this.#collections.get(number)
      if (!known) this.#add(number, writer.facts)
      else {
        if (known.facts.table !== writer.facts.table) this.#clearSoon(known.facts.table)
        known.show(writer.facts, writer.gaps, writer.changes)
      }
    }
  }

  #add(number: number, facts: CollectionFacts): void {
    const collection = new Collection(this.store, facts, () => this.#shown.visible, this.#cache, this.#naturalKeys)
    this.#collections.set(number, collection)
    this.#byName.set(facts.name, collection)
  }

  /** Removes rows of a former order once nobody reads them. */
  #clearSoon(table: number): void {
    void this.#clear(table)
  }

  async #clear(table: number): Promise<void> {
    const until = this.position
    for (;;) {
      const pinned = [...this.store.pinned]
      if (pinned.every((position) => position >= until)) break
      await new Promise<void>((resolve) => setTimeout(resolve, 1000).unref())
    }
    await this.#clearTable(table)
  }

  async #clearTable(table: number): Promise<void> {
    await this.indexes.dropTable(table)
    for (const tag of [TAG.item, TAG.place, TAG.gaps, TAG.changed]) await this.store.clear(tableKey(tag, table))
  }

  *#existing(): Generator<Collection> {
    for (const collection of this.#collections.values()) if (collection.exists) yield collection
  }
}

/** Runs all steps, and yields to the event loop before each. */
async function stepwise(steps: Generator<undefined, void>): Promise<void> {
  do await new Promise<void>((resolve) => setImmediate(resolve))
  while (!steps.next().done)
}

/** The collections after the events of these ranges of positions alone. */
export async function collectionsAt(
  directory: string,
  journal: Pick<Journal, 'read'>,
  ranges: readonly (readonly [Position, Position])[],
): Promise<Snapshot> {
  const past = Views.temporary(directory)
  await past.build(wanted(), 'fail')
  return past.snapshot()

  async function* wanted(): AsyncGenerator<Recorded> {
    for (const [from, to] of ranges) if (from <= to) yield* journal.read(from, to)
  }
}
