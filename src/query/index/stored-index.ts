import type { Position } from '../../events/event.ts'
import { formatPath, type Path } from '../../json/paths.ts'
import type { JsonObject } from '../../json/value.ts'
import { numberedKey, TAG } from '../../store/keys.ts'
import type { Store } from '../../store/store.ts'
import type { StoredTree } from '../../store/stored-tree.ts'
import { Tree } from '../../store/tree.ts'
import { type IndexFields, KIND, LONG_ITEM, tupleKeys } from './tuples.ts'

/** Approximate bytes of a node on disk. */
const NODE_BYTES = 4096

/** The prefix of keys of items that the index orders. */
const SINGLE = String.fromCharCode(KIND.single)

/** An index of one table: the keys of all its items, in the store. */
export class StoredIndex implements IndexFields {
  readonly table: number
  readonly collection: string
  readonly paths: readonly Path[]
  readonly timePart: number
  readonly name: string
  readonly tree: StoredTree
  readonly #store: Store
  /** Keys that `apply` inserts (true) or removes, as latin1. */
  readonly #changes = new Map<string, boolean>()
  /** The tree with the changes that were applied. */
  readonly #current: Tree
  /** The place that changed last, and its keys now. */
  #last: { readonly place: number; readonly keys: readonly string[] } | undefined
  #since: Position | undefined
  /** Recent uses. */
  uses = 0
  /** Number of queries that are reading it. */
  readers = 0
  /** It is configured in the settings. */
  isFixed = false
  /** Its rows are being removed, or will be when its readers have ended; it gets no others. */
  isDropped = false
  /** While it is built: the number of places read, and what happens with a change (build.ts). */
  building: { readonly read: number; noteChange(place: number, before: readonly string[]): boolean } | undefined

  constructor(store: Store, table: number, tree: StoredTree, { collection, paths, timePart = -1, since }: IndexFacts) {
    this.#store = store
    this.table = table
    this.collection = collection
    this.paths = paths
    this.timePart = timePart
    this.name = indexName(paths)
    this.tree = tree
    this.#current = new Tree((number) => tree.get(number))
    this.#since = since
  }

  get isBuilt(): boolean {
    return this.#since !== undefined
  }

  /** Whether it can be read as of a position. */
  isReadableAt(position: Position): boolean {
    return this.#since !== undefined && position >= this.#since && !this.isDropped
  }

  get bytes(): number {
    return this.tree.nodes * NODE_BYTES
  }

  get status(): IndexStatus {
    const { collection, name, bytes, uses, building } = this
    return { collection, path: name, entries: this.tree.size, bytes, uses, built: building?.read }
  }

  /** The item at a place was created, replaced or removed. Called in the same transaction. */
  changed(place: number, before: IndexedItem | undefined, after: IndexedItem | undefined): void {
    const oldKeys = keysAt(before, this, place)
    if (this.building && !this.building.noteChange(place, oldKeys)) return
    const keys = keysAt(after, this, place)
    this.#last = { place, keys }
    this.replace(oldKeys, keys)
  }

  /** Notes that a place has other keys now; `apply` makes the changes in the tree. Called in a transaction. */
  replace(oldKeys: readonly string[], newKeys: readonly string[]): void {
    // The removal and the insertion of the same key cancel each other.
    for (const key of oldKeys) this.#change(key, false)
    for (const key of newKeys) this.#change(key, true)
  }

  /** Makes the changes in the tree. In a transaction. */
  apply(): void {
    const removed: Buffer[] = []
    const inserted: Buffer[] = []
    for (const key of [...this.#changes.keys()].sort())
      (this.#changes.get(key) ? inserted : removed).push(Buffer.from(key, 'latin1'))
    this.tree.remove(removed)
    this.tree.insert(inserted)
    this.#changes.clear()
  }

  /** Writes the tree with all changes. `isRead`: old versions may be needed by pins. In a transaction. */
  save(position: Position, isRead: boolean): void {
    this.apply()
    this.tree.save(position, isRead)
  }

  /** Called after the transaction has committed. */
  commit(): void {
    this.tree.commit()
  }

  /** Drops the changes since the last commit. */
  rollBack(): void {
    this.#changes.clear()
    this.tree.rollBack()
  }

  placeUnder(tuple: string, isWanted: (place: number) => boolean): number | undefined {
    // Only in a transaction are there changes.
    if (this.#changes.size > 0) this.apply()
    const prefix = Buffer.from(SINGLE + tuple, 'latin1')
    const cursor = this.#current.first(prefix)
    for (; cursor.beginsWith(prefix); cursor.next()) if (isWanted(cursor.place)) return cursor.place
    return undefined
  }

  hasChangedTo(tuple: string, place: number): boolean {
    return this.#last?.place === place && isUnder(tuple, this.#last.keys)
  }

  #change(key: string, isThere: boolean): void {
    if (this.#changes.get(key) === !isThere) this.#changes.delete(key)
    else this.#changes.set(key, isThere)
  }

  /** Stores the properties; with `since` when the index is complete. In a transaction. */
  saveFacts(since: Position | undefined): void {
    const facts: IndexFacts = { collection: this.collection, paths: this.paths, timePart: this.timePart, since }
    this.#store.set(numberedKey(TAG.index, this.table, this.tree.number), Buffer.from(JSON.stringify(facts)))
  }

  /** Marks the index as complete from a position on. */
  markComplete(position: Position): void {
    this.#since = position
    this.building = undefined
  }
}

/** The stored properties of an index. */
export interface IndexFacts extends Partial<Pick<IndexFields, 'timePart'>> {
  readonly collection: string
  readonly paths: readonly Path[]
  /** The index is complete from this position on; undefined while it is being built. */
  readonly since: Position | undefined
}

/** The public properties of an index. */
export interface IndexStatus {
  readonly collection: string
  /** Dotted; several separated by commas. */
  readonly path: string
  readonly entries: number
  /** Approximate size on disk. */
  readonly bytes: number
  readonly uses: number
  /** Undefined if it is complete; otherwise the progress. */
  readonly built?: number | undefined
}

/** The keys of the item at a place; none if there is no item. */
export function keysAt(item: IndexedItem | undefined, fields: IndexFields, place: number): readonly string[] {
  return item ? tupleKeys(item.text.length > LONG_ITEM ? undefined : item.value, fields, place) : []
}

/** Whether `placeUnder` finds the item by the beginning of a tuple. */
export function isFoundUnder(tuple: string, item: IndexedItem | undefined, fields: IndexFields): boolean {
  return isUnder(tuple, keysAt(item, fields, 0))
}

function isUnder(tuple: string, [key]: readonly string[]): boolean {
  return key?.startsWith(SINGLE + tuple) === true
}

export interface IndexedItem {
  readonly text: string
  /** Undefined if the item is too long to be parsed while it is written. */
  readonly value: JsonObject | undefined
}

export function indexName(paths: readonly Path[]): string {
  return paths.map(formatPath).join(',')
}
