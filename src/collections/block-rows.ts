import { blockKey, POSITION_BYTES, positionOf, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { BLOCK_PLACES, Block, encodeBlock, itemBlockOf, MOST_BLOCK_BYTES, type Records } from './blocks.ts'
import { recordBytes } from './item.ts'

/** Blocks that items have left, until they are written again. */
const MOST_UNSAVED = 64

/** The rows of the blocks of a table. */
export class BlockRows {
  readonly #store: Store
  readonly #table: number
  readonly #cache: BlockCache
  /** The items that have left their blocks since `save`, by block: a bit for each. */
  readonly #left = new Map<number, number>()

  constructor(store: Store, table: number, cache: BlockCache) {
    this.#store = store
    this.#table = table
    this.#cache = cache
  }

  /** The block that has the newest record of a place; undefined if none has. @throws {Refusal} when it is damaged. */
  with(place: number): Block | undefined {
    const number = itemBlockOf(place)
    const offset = place % BLOCK_PLACES
    const block = this.at(number)
    if (!block?.has(offset)) return undefined
    return this.#left.size > 0 && ((this.#left.get(number) ?? 0) & (1 << offset)) !== 0 ? undefined : block
  }

  /** The block of a number, with the items that have left it since `save`. @throws {Refusal} when it is damaged. */
  at(number: number): Block | undefined {
    try {
      return this.#cache.read(this.#store, this.#table, number)
    } catch (error) {
      throw this.#store.damage(error as Error)
    }
  }

  /** The first place from one on, and before another, that a block has the newest record of; undefined if there is none. */
  next(place: number, before: number): number | undefined {
    const end = prefixEnd(tableKey(TAG.place, this.#table))
    for (let from = place; from < before; ) {
      const [row] = this.#store.rows(blockKey(this.#table, itemBlockOf(from)), end, { limit: 1 })
      if (!row) return undefined
      const first = positionOf(row.key, row.key.length - POSITION_BYTES) * BLOCK_PLACES
      for (let at = Math.max(place, first); at < Math.min(before, first + BLOCK_PLACES); at++)
        if (this.with(at)) return at
      from = first + BLOCK_PLACES
    }
    return undefined
  }

  /** The item of a place, which a block has, is no longer in it. In a transaction. */
  leave(place: number): void {
    const number = itemBlockOf(place)
    this.#left.set(number, (this.#left.get(number) ?? 0) | (1 << (place % BLOCK_PLACES)))
    if (this.#left.size > MOST_UNSAVED) this.#saveLeft()
  }

  /** Writes a block, replacing its row, if its records are short enough; returns whether they are. In a transaction. */
  write(number: number, records: Records): boolean {
    let bytes = 0
    for (const record of records) if (record) bytes += recordBytes(record)
    if (bytes > MOST_BLOCK_BYTES) return false
    this.#store.set(blockKey(this.#table, number), encodeBlock(records))
    return true
  }

  /** Writes the blocks that items have left. In a transaction. */
  save(): void {
    this.#saveLeft()
    // The blocks of a writer are seldom needed again.
    this.#cache.clear()
  }

  #saveLeft(): void {
    for (const [number, left] of this.#left) {
      const row = this.at(number)?.without(left)
      if (row) this.#store.set(blockKey(this.#table, number), row)
      else this.#store.remove(blockKey(this.#table, number))
    }
    this.#left.clear()
  }
}

/** Blocks in a cache. Those of readings take 3 KiB each, and a day of 20 sensors fits; the longest take 32 KiB. */
const CACHED_BLOCKS = 1024

/** The block of a number, undefined if it does not exist, as of a number of changes of the store. */
interface CachedBlock {
  readonly table: number
  readonly number: number
  changes: number
  block: Block | undefined
}

/** The newest blocks that were read last, so that a scan reads each once. Each has one slot, in which others replace it. */
export class BlockCache {
  #slots: (CachedBlock | undefined)[] = []

  /** @throws {Corruption} */
  read(store: Store, table: number, number: number): Block | undefined {
    const slot = (table + number) % CACHED_BLOCKS
    let cached = this.#slots[slot]
    if (cached?.number !== number || cached.table !== table) {
      cached = { table, number, changes: -1, block: undefined }
      this.#slots[slot] = cached
    }
    if (cached.changes === store.placeChanges) return cached.block
    const row = store.newest(blockKey(table, number))
    if (!row) cached.block = undefined
    else if (!cached.block?.row.equals(row as Buffer)) cached.block = new Block(Buffer.from(row as Buffer))
    cached.changes = store.placeChanges
    return cached.block
  }

  clear(): void {
    this.#slots = []
  }
}
