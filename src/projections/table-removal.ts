import type { Position } from '../events/event.ts'
import type { StoredIndexes } from '../query/index/stored-indexes.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/** How often to check whether a table is still being read. */
const READERS_MS = 1000

/** Removes tables that no collection has any more, in the background. */
export class TableRemoval {
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
