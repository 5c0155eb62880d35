import type { TableChange, TableObserver } from '../../collections/collection-writer.ts'
import type { KeyIndexes } from '../../collections/natural-keys.ts'
import type { Position } from '../../events/event.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import { numberedKey, PREFIX_BYTES, positionOf, prefixEnd, TAG, tableKey } from '../../store/keys.ts'
import type { Store } from '../../store/store.ts'
import { NodeCache, StoredTree } from '../../store/stored-tree.ts'
import { IndexBuild } from './build.ts'
import { type IndexedItem, type IndexFacts, indexName, StoredIndex } from './stored-index.ts'
import { type IndexFields, LONG_ITEM } from './tuples.ts'

/** How often to check whether an index to be removed is still being read. */
const READERS_MS = 100

interface RunningBuild {
  readonly build: IndexBuild
  readonly done: Promise<void>
}

/**
 * The indexes in the store, updated in the transactions that change their items.
 *
 * | State | Stored | Readable | A change of an item | Next state |
 * |---|---|---|---|---|
 * | building | facts without `since` | never | goes into the tree if its old keys are there, else `IndexBuild` applies it or reads it later | complete: with the last transaction of the build; dropped: by `drop`, or by the next start |
 * | complete | facts with `since` | as of `since` and later | goes into the tree | dropped: by `drop` |
 * | dropped | facts | by those who already read it | is left out | removed, when its last reader has ended |
 *
 * | Call in a transaction | Its changes are | `rollBack` |
 * |---|---|---|
 * | `changed` | collected | forgets them |
 * | `save` | applied to the tree, and written to the store | forgets the new nodes |
 * | `commit`, after it | what readers at its position and later ones see | is no longer possible |
 */
export class StoredIndexes implements TableObserver, KeyIndexes {
  readonly #store: Store
  readonly #cache = new NodeCache()
  readonly #byTable = new Map<number, StoredIndex[]>()
  /** Indexes of the last start whose keys were made with another event time. */
  readonly #outdated: StoredIndex[] = []
  readonly #builds = new Map<StoredIndex, RunningBuild>()
  /** Those of empty tables, since the last commit. */
  readonly #begun: StoredIndex[] = []
  #next = 1
  /** Above the numbers of all trees that existed at the start. */
  readonly #first: number
  readonly #applied: () => Position
  readonly #times: ReadonlyMap<string, Path> | undefined
  #isEnded = false

  /**
   * Incomplete indexes are built again when needed. `applied` is the position of the last event in the store, `times` are
   * the paths of the event times by collection; undefined: those that the stored indexes were built with.
   */
  constructor(store: Store, applied: () => Position, times?: ReadonlyMap<string, Path>) {
    this.#store = store
    this.#times = times
    this.#applied = applied
    const tag = Buffer.from([TAG.index])
    for (const { key, value } of store.rows(tag, prefixEnd(tag))) {
      const number = positionOf(key, PREFIX_BYTES)
      const facts = JSON.parse(value.toString()) as IndexFacts
      this.#next = Math.max(this.#next, number + 1)
      const index = new StoredIndex(store, key.readUInt32BE(1), this.#treeOf(number), facts)
      if (index.isBuilt && this.#isOutdated(index)) {
        index.isDropped = true
        this.#outdated.push(index)
      }
      this.#add(index)
    }
    const trees = Buffer.from([TAG.tree])
    for (const { key } of store.rows(trees, prefixEnd(trees)))
      this.#next = Math.max(this.#next, key.readUInt32BE(1) + 1)
    this.#first = this.#next
  }

  of(table: number): readonly StoredIndex[] {
    return this.#byTable.get(table) ?? []
  }

  get all(): readonly StoredIndex[] {
    return [...this.#byTable.values()].flat()
  }

  isObserved(table: number): boolean {
    return this.#byTable.has(table)
  }

  changed({ table, place, before, after }: TableChange): void {
    const [old, now] = [parsed(before), parsed(after)]
    for (const index of this.of(table)) index.changed(place, old, now)
  }

  save(position: Position): void {
    for (const index of this.all) index.save(position, index.isReadableAt(position))
  }

  commit(): void {
    for (const index of this.all) index.commit()
    this.#begun.length = 0
  }

  rollBack(): void {
    for (const index of this.all) index.rollBack()
    for (const index of this.#begun.splice(0)) this.#remove(index)
  }

  find(table: number, paths: readonly Path[]): StoredIndex | undefined {
    const name = indexName(paths)
    return this.of(table).find((index) => index.name === name && index.isBuilt && !index.isDropped)
  }

  /** Marks indexes of a table as configured. */
  fix(table: number, all: readonly (readonly Path[])[]): void {
    const names = new Set(all.map(indexName))
    for (const index of this.of(table)) if (names.has(index.name)) index.isFixed = true
  }

  begin(table: number, collection: string, paths: readonly Path[], since: Position): void {
    const index = this.#newIndex(table, collection, paths, since)
    index.tree.clear()
    index.saveFacts(since)
    this.#begun.push(index)
  }

  /** The fields of an index of these paths. */
  fieldsOf(collection: string, paths: readonly Path[]): IndexFields {
    const time = this.#times?.get(collection)
    return { paths, timePart: time ? paths.map(formatPath).indexOf(formatPath(time)) : -1 }
  }

  /** Whether an index was built with another event time. */
  #isOutdated({ collection, paths, timePart }: StoredIndex): boolean {
    return this.#times !== undefined && this.fieldsOf(collection, paths).timePart !== timePart
  }

  /**
   * Builds an index of a table in the background. Resolves when it is complete or abandoned. `progress` gets the number of
   * places that were read.
   */
  build(table: number, collection: string, paths: readonly Path[], progress?: (places: number) => void): Promise<void> {
    if (this.#isEnded) return Promise.resolve()
    const known = this.of(table).find(({ name }) => name === indexName(paths))
    const running = known ? this.#builds.get(known) : this.#begin(table, collection, paths)
    if (running && progress) running.build.progress = progress
    return running?.done ?? Promise.resolve()
  }

  #begin(table: number, collection: string, paths: readonly Path[]): RunningBuild {
    const index = this.#newIndex(table, collection, paths, undefined)
    const build = new IndexBuild(this.#store, index, this.#applied)
    const running = { build, done: build.run().finally(() => this.#builds.delete(index)) }
    this.#builds.set(index, running)
    return running
  }

  #newIndex(table: number, collection: string, paths: readonly Path[], since: Position | undefined): StoredIndex {
    const facts: IndexFacts = { collection, ...this.fieldsOf(collection, paths), since }
    const index = new StoredIndex(this.#store, table, this.#treeOf(this.#next++), facts)
    this.#add(index)
    return index
  }

  /** Makes an index unavailable, and removes its rows in the background. */
  async drop(index: StoredIndex): Promise<void> {
    index.isDropped = true
    this.#remove(index)
    const building = this.#builds.get(index)
    if (building) {
      building.build.end()
      await building.done
    }
    while (index.readers > 0 && !this.#isEnded)
      await new Promise<void>((resolve) => setTimeout(resolve, READERS_MS).unref())
    await this.#store.clear(numberedKey(TAG.index, index.table, index.tree.number))
    await this.#clear(index.tree.number)
  }

  async dropTable(table: number): Promise<void> {
    for (const index of this.of(table)) await this.drop(index)
  }

  /**
   * Removes incomplete indexes, and the remains of indexes and tables that no longer exist. Builds outdated
   * indexes again.
   */
  async tidy(tables: ReadonlySet<number>): Promise<void> {
    const known = new Set(this.all.map(({ tree }) => tree.number))
    const useless = this.all.filter((index) => !tables.has(index.table) || !index.isBuilt || index.isDropped)
    // All become unavailable at once: one that is configured is built again before their rows are removed.
    await Promise.all(useless.map((index) => this.drop(index)))
    for (const { table, collection, paths } of this.#outdated.splice(0)) {
      if (tables.has(table)) await this.build(table, collection, paths)
    }
    if (this.#isEnded) return
    const trees = Buffer.from([TAG.tree])
    for (const { key } of this.#store.rows(trees, prefixEnd(trees))) {
      const number = key.readUInt32BE(1)
      if (!known.has(number) && number < this.#first) await this.#clear(number)
    }
  }

  /** Stops all builds. */
  end(): void {
    this.#isEnded = true
    for (const { build } of this.#builds.values()) build.end()
  }

  #treeOf(number: number): StoredTree {
    return new StoredTree(this.#store, number, this.#cache)
  }

  #add(index: StoredIndex): void {
    this.#byTable.set(index.table, [...this.of(index.table), index])
  }

  #remove(index: StoredIndex): void {
    const left = this.of(index.table).filter((one) => one !== index)
    if (left.length > 0) this.#byTable.set(index.table, left)
    else this.#byTable.delete(index.table)
  }

  async #clear(tree: number): Promise<void> {
    await this.#store.clear(tableKey(TAG.node, tree))
    await this.#store.clear(tableKey(TAG.tree, tree))
  }
}

/** The item, which is parsed once for all indexes. */
function parsed(item: IndexedItem | undefined): IndexedItem | undefined {
  return item && { text: item.text, value: item.text.length > LONG_ITEM ? undefined : item.value }
}
