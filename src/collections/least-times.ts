import { crc32 } from 'node:zlib'
import { eventTime } from '../json/instant.ts'
import { formatPath, type Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { HIGHEST, leastTimeKey, POSITION_BYTES, positionOf, putPosition } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { TableChange, TableObserver } from './collection-writer.ts'
import { BLOCK, blockOf } from './gaps.ts'

/** The field by which items expire. */
export interface ExpiryTime {
  /** Undefined: by the time of receipt. */
  readonly path: Path | undefined
  /** An event time that is further ahead of its receipt is not valid; then the time of receipt counts. */
  readonly maxAheadMs: number
}

/** The time by which an item expires, in milliseconds since 1970; `receivedMs` is the time of its last event. */
export function expiryTimeOf(value: () => JsonObject, receivedMs: number, { path, maxAheadMs }: ExpiryTime): number {
  const ms = path && eventTime(value(), path)
  return ms === undefined || ms > receivedMs + maxAheadMs ? receivedMs : ms
}

const ROW_BYTES = POSITION_BYTES + 4

/**
 * The least expiry time of the items in each block of places, or an earlier one, so that items that expire are found without
 * reading the others. Only of collections with a rule. A block without a row, or with one for another field, was not read yet.
 */
export class LeastTimes implements TableObserver {
  readonly #store: Store
  readonly #times: ReadonlyMap<string, ExpiryTime>
  /** Least times of changed items that are not stored yet, by table and block. */
  readonly #unsaved = new Map<
    string,
    { table: number; block: number; collection: string; ms: number; isNew: boolean }
  >()

  constructor(store: Store, times: ReadonlyMap<string, ExpiryTime>) {
    this.#store = store
    this.#times = times
  }

  isObserved(_table: number, collection: string): boolean {
    return this.#times.has(collection)
  }

  changed({ table, collection, place, after, timeMs }: TableChange): void {
    if (!after) return
    const ms = expiryTimeOf(() => after.value, timeMs, this.#times.get(collection) as ExpiryTime)
    const block = blockOf(place)
    const key = `${table} ${block}`
    const known = this.#unsaved.get(key)
    const isNew = place % BLOCK === 0 || known?.isNew === true
    this.#unsaved.set(key, { table, block, collection, ms: Math.min(ms, known?.ms ?? ms), isNew })
  }

  /** In the transaction of the changes. */
  save(): void {
    for (const { table, block, collection, ms, isNew } of this.#unsaved.values()) {
      const before = this.of(table, collection, block)
      if (before === undefined ? isNew : ms < before) this.set(table, collection, block, ms)
    }
    this.#unsaved.clear()
  }

  rollBack(): void {
    this.#unsaved.clear()
  }

  /** Undefined if the block was not read yet. */
  of(table: number, collection: string, block: number): number | undefined {
    const row = this.#store.newest(leastTimeKey(table, block))
    return row && row.readUInt32BE(POSITION_BYTES) === this.#fieldOf(collection) ? positionOf(row) : undefined
  }

  /** In a transaction. */
  set(table: number, collection: string, block: number, ms: number): void {
    const row = Buffer.allocUnsafe(ROW_BYTES)
    putPosition(row, 0, Math.floor(Math.min(Math.max(0, ms), HIGHEST)))
    row.writeUInt32BE(this.#fieldOf(collection), POSITION_BYTES)
    this.#store.set(leastTimeKey(table, block), row)
  }

  #fieldOf(collection: string): number {
    const { path, maxAheadMs } = this.#times.get(collection) as ExpiryTime
    return crc32(path ? `${formatPath(path)} ${maxAheadMs}` : '')
  }
}
