import { getHeapStatistics } from 'node:v8'
import { LRUCache } from 'lru-cache'
import type { ItemId, Position } from '../events/event.ts'
import { Corruption, type Refusal } from '../runtime/errors.ts'
import {
  expiryKey,
  HIGHEST,
  keyedKey,
  leastTimeKey,
  numberedKey,
  POSITION_BYTES,
  PREFIX_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type ScratchBytes,
  TAG,
  tableKey,
  tombstonesKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { BlockCache, BlockRows } from './block-rows.ts'
import { BLOCK_PLACES, type Block, itemBlockOf } from './blocks.ts'
import { mayHaveExpired } from './gaps.ts'
import {
  canonicalInteger,
  decodeItem,
  encodeRecord,
  encodeTombstone,
  type Item,
  type ItemRecord,
  idInRecord,
  isItem,
  isKeyOf,
  isTombstone,
  keyOf,
  RECORD_BYTES,
  recordIn,
  type Tombstone,
  type TombstoneAt,
  verifyRecord,
} from './item.ts'
import { NO_TOMBSTONES, sharesRow, tombstoneBlockOf, tombstonesIn, withTombstones } from './tombstones.ts'

/** Blocks whose new tombstones are held in memory. */
const MOST_UNSAVED = 64

interface RecordAt {
  readonly place: number
  /** Without its text if a block has it. */
  readonly record: ScratchBytes
  readonly block: Block | undefined
}

/** Records that were added to a block of places which is not full yet. */
interface Added {
  readonly block: number
  /** By their places in it. */
  readonly records: (ItemRecord | undefined)[]
}

/**
 * The rows of one collection in the store: the record at each place, and the place of each key. The last changes of a
 * transaction are held in memory until `save`; they are visible in this table.
 */
export class Table {
  readonly store: Store
  readonly number: number
  readonly #cache: ItemCache | undefined
  readonly #blocks: BlockRows
  #added: Added | undefined
  /** The integer at place 0, -1 for another key; undefined if it was not read yet. Its item may have expired. */
  firstId: number | undefined
  /** The tombstones that were read last, as of a position at which they do not change. */
  #shared:
    | { readonly block: number; readonly at: Position; readonly tombstones: ReadonlyMap<number, TombstoneAt> }
    | undefined
  /** Tombstones that are not stored yet, by block and place. */
  readonly #unsaved = new Map<number, Map<number, TombstoneAt>>()
  /** Places whose items have expired, which are not stored yet. */
  readonly #expired = new Set<number>()

  constructor(store: Store, number: number, cache?: ItemCache) {
    this.store = store
    this.number = number
    this.#cache = cache
    this.#blocks = new BlockRows(store, number, cache?.blocks ?? new BlockCache())
  }

  /** The place of a key's item, existing or deleted, and its record; `places` is above all places. */
  find(key: string, at: Position, places: number): RecordAt | undefined {
    const expected = this.#expectedPlace(key, at, places)
    const found = expected === undefined ? undefined : this.#unexpired(expected, this.headAt(expected, at))
    const hasKey = found !== undefined && isKeyOf(key, idInRecord(found.record))
    if (hasKey && !isTombstone(found.record)) return found
    const deleted = hasKey ? { ...found, record: Buffer.from(found.record as Buffer) } : undefined
    // An item that was deleted and created again has a row, and another place.
    const place = this.#placeInRow(key, at)
    if (place === undefined) return deleted
    const other = this.headAt(place, at)
    if (other && isKeyOf(key, idInRecord(other.record))) return other
    throw this.lostRecord(place)
  }

  placeOf(key: string, at: Position, places: number): number | undefined {
    return this.find(key, at, places)?.place
  }

  #placeInRow(key: string, at: Position): number | undefined {
    const row = keyedKey(TAG.place, this.number, key)
    // The row of an item that expired after this position has only a version.
    const found = this.store.read(row, at) ?? (at === HIGHEST ? undefined : this.store.versions.find(row, at))
    return found && positionOf(found, POSITION_BYTES)
  }

  /**
   * The place of an integer's item if integers are consecutive from place 0 on, as those of POST are. Such keys have no
   * row: a row takes 60 bytes, and as long to write as a short item.
   */
  #expectedPlace(key: string, at: Position, places: number): number | undefined {
    const integer = canonicalInteger(key)
    if (integer === undefined || places === 0) return undefined
    this.firstId ??= canonicalInteger(keyOf(idInRecord(this.#existingRecordAt(0, at)))) ?? -1
    const place = integer - this.firstId
    return this.firstId >= 0 && place >= 0 && place < places ? place : undefined
  }

  recordAt(place: number, at: Position): ScratchBytes | undefined {
    const block = this.#blockWith(place, at)
    return block ? this.#verified(() => block.recordAt(place % BLOCK_PLACES)) : this.#recordInRow(place, at)
  }

  /** The record at a place, without its text if a block has it. */
  headAt(place: number, at: Position): RecordAt | undefined {
    const block = this.#blockWith(place, at)
    const record = block ? this.#verified(() => block.headAt(place % BLOCK_PLACES)) : this.#recordInRow(place, at)
    return record && { place, record, block }
  }

  /** The block with the record of a place as of a position. */
  #blockWith(place: number, at: Position): Block | undefined {
    const block = this.#blocks.with(place)
    return block && block.positionAt(place % BLOCK_PLACES) <= at ? block : undefined
  }

  #recordInRow(place: number, at: Position): ScratchBytes | undefined {
    const added = this.#added?.block === itemBlockOf(place) ? this.#added.records[place % BLOCK_PLACES] : undefined
    if (added) return encodeRecord(added)
    const key = numberedKey(TAG.item, this.number, place)
    // An item that was deleted after this position has only a version.
    const record = this.store.read(key, at) ?? this.#tombstoneRecord(place, at) ?? this.store.versions.find(key, at)
    if (record && record.length < RECORD_BYTES) throw this.lostRecord(place)
    return record
  }

  #tombstoneRecord(place: number, at: Position): Buffer | undefined {
    const tombstone = this.sharedTombstones(place, at).get(place)
    return tombstone && encodeTombstone(tombstone)
  }

  /** The tombstones that share a row with that of a place, by their places. */
  sharedTombstones(place: number, at: Position): ReadonlyMap<number, TombstoneAt> {
    const block = tombstoneBlockOf(place)
    if (this.#shared?.block === block && this.#shared.at === at) return this.#shared.tombstones
    const row = this.store.read(tombstonesKey(this.number, block), at)
    const tombstones = row ? this.#verified(() => tombstonesIn(row, block)) : NO_TOMBSTONES
    const unsaved = this.#unsaved.get(block)
    if (unsaved) return new Map([...tombstones, ...unsaved])
    // The newest ones change.
    if (at !== HIGHEST) this.#shared = { block, at, tombstones }
    return tombstones
  }

  /** A verified copy of the record at a place, which must exist. */
  copyAt(place: number, at: Position): Buffer {
    const record = this.#existingRecordAt(place, at)
    this.#decoded(record)
    return Buffer.from(record)
  }

  /** Bypasses the cache, which items of pages and scans would fill: as old objects they cost a full garbage collection. */
  itemAt(place: number, at: Position): Item | undefined {
    const block = this.#blockWith(place, at)
    if (block) return this.#verified(() => block.itemAt(place % BLOCK_PLACES))
    const record = this.#unexpired(place, this.#recordInRow(place, at))
    const entry = record && this.#decoded(record)
    return isItem(entry) ? entry : undefined
  }

  /** The first place from `place` on with a record, in the newest state; undefined if there is none. */
  next(place: number): number | undefined {
    if (this.headAt(place, HIGHEST)) return place
    // Places without a record are in long runs, which are not visited one by one.
    const record = this.#nextRecord(place)
    const block = tombstoneBlockOf(place)
    const end = leastTimeKey(this.number, 0)
    const deleted = this.store
      .rows(tombstonesKey(this.number, block), end, { limit: 2 })
      .flatMap(({ key, value }) => [...tombstonesIn(value, positionOf(key, PREFIX_BYTES + 1)).keys()])
    const unsaved = Array.from(this.#unsaved.values()).flatMap((tombstones) => [...tombstones.keys()])
    const places = [...deleted, ...unsaved].filter((one) => one >= place)
    if (record !== undefined) places.push(record)
    return places.length > 0 ? Math.min(...places) : undefined
  }

  entryOf(key: string, at: Position, places: number): Item | Tombstone | undefined {
    const found = this.find(key, at, places)
    if (!found) return undefined
    const { place, record, block } = found
    const cached = this.#cache?.items.get(positionOf(record))
    if (cached) return cached
    const entry = block ? this.#verified(() => block.itemAt(place % BLOCK_PLACES)) : this.#decoded(record)
    if (isItem(entry)) this.#cache?.items.set(entry.position, entry)
    return entry
  }

  placeOfItem(id: ItemId, at: Position, places: number): number | undefined {
    const found = this.find(keyOf(id), at, places)
    return found && this.#holdsItem(found) ? found.place : undefined
  }

  /** The first place from `place` on with a record in a row or in a block. */
  #nextRecord(place: number): number | undefined {
    const end = prefixEnd(tableKey(TAG.item, this.number))
    const [row] = this.store.rows(numberedKey(TAG.item, this.number, place), end, { limit: 1 })
    const { block = 0, records = [] } = this.#added ?? {}
    const added = records.findIndex((record, offset) => record && block * BLOCK_PLACES + offset >= place)
    const places = [
      ...(row ? [positionOf(row.key, PREFIX_BYTES)] : []),
      ...(added >= 0 ? [block * BLOCK_PLACES + added] : []),
    ]
    const before = Math.min(...places)
    const packed = this.#blocks.next(place, before)
    return packed ?? (places.length > 0 ? before : undefined)
  }

  /** The first place from `from` to before `below` that has an item; `below` if there is none. */
  seek(from: number, below: number, at: Position): number {
    for (let place = from; place < below; place++) {
      if (this.sharedTombstones(place, at).has(place)) continue
      const found = this.#unexpired(place, this.headAt(place, at))
      if (found && this.#holdsItem(found)) return place
      // Places of expired items are in long runs. Earlier versions would be passed over.
      if (!found && this.store.versions.areNone) place = (this.#nextRecord(place) ?? below) - 1
    }
    return below
  }

  /** Records the place of a key's item, which may have had another one. */
  putPlace(key: string, place: number, hadPlace: boolean, since: Position): void {
    if (!hadPlace && this.#expectedPlace(key, since, place + 1) === place) return
    const value = Buffer.allocUnsafe(2 * POSITION_BYTES)
    putPosition(value, 0, since)
    putPosition(value, POSITION_BYTES, place)
    this.store.write(keyedKey(TAG.place, this.number, key), value)
  }

  /** For a place without a record: there is no version to keep. Written by `save`, before the transaction ends. */
  addRecord(place: number, record: ItemRecord): void {
    const block = itemBlockOf(place)
    if (this.#added?.block !== block) {
      this.#saveAdded()
      this.#added = { block, records: Array.from({ length: BLOCK_PLACES }) }
    }
    const { records } = this.#added as Added
    records[place % BLOCK_PLACES] = record
    // Items that are added together, as readings are, seldom change.
    if (place % BLOCK_PLACES === BLOCK_PLACES - 1 && records.every(Boolean)) {
      if (this.#blocks.write(block, records)) this.#added = undefined
    }
  }

  putRecord(place: number, record: ItemRecord): void {
    if (this.#replaceAdded(place, record)) return
    const key = numberedKey(TAG.item, this.number, place)
    if (this.#leaveBlock(place, record.position)) this.store.set(key, encodeRecord(record))
    else this.store.write(key, encodeRecord(record))
  }

  /** For an item that is deleted, before its tombstone is added. */
  removeRecord(place: number, position: Position): void {
    if (this.#replaceAdded(place, undefined) || this.#leaveBlock(place, position)) return
    this.store.removeAt(numberedKey(TAG.item, this.number, place), position)
  }

  /** Returns whether the record of a place was added and is not written yet. */
  #replaceAdded(place: number, record: ItemRecord | undefined): boolean {
    const offset = place % BLOCK_PLACES
    if (this.#added?.block !== itemBlockOf(place) || !this.#added.records[offset]) return false
    this.#added.records[offset] = record
    return true
  }

  /** Returns whether the item of a place was in a block, until an event at this position. */
  #leaveBlock(place: number, position: Position): boolean {
    const block = this.#blocks.with(place)
    if (!block) return false
    const key = numberedKey(TAG.item, this.number, place)
    this.store.versions.keep(key, position, () => this.#verified(() => block.recordAt(place % BLOCK_PLACES)))
    this.#blocks.leave(place)
    return true
  }

  /**
   * Moves the items at these places of a block from their rows into it, unless they are too long; returns whether it has
   * moved them. They may be read as of any position meanwhile. In a transaction of its own.
   */
  pack(number: number, places: readonly number[]): boolean {
    const records = this.#verified(() => this.#blocks.at(number)?.records() ?? [])
    for (const place of places) {
      const row = this.store.newest(numberedKey(TAG.item, this.number, place))
      if (!row) throw this.lostRecord(place)
      this.#verified(() => verifyRecord(row))
      records[place % BLOCK_PLACES] = recordIn(Buffer.from(row as Buffer))
    }
    const isPacked = this.#blocks.write(number, records)
    if (isPacked) for (const place of places) this.store.remove(numberedKey(TAG.item, this.number, place))
    return isPacked
  }

  /** The number of items that a block has. */
  sizeOfBlock(number: number): number {
    return this.#blocks.at(number)?.size ?? 0
  }

  /** For an item that expires. It leaves neither a record nor a tombstone. */
  removeExpired(key: string, place: number, position: Position): void {
    this.#expired.add(place)
    this.removeRecord(place, position)
    // An item at its expected place has a row, too, if it was deleted at another place before.
    const hasRow = this.#placeInRow(key, HIGHEST) !== undefined
    if (hasRow) this.store.removeAt(keyedKey(TAG.place, this.number, key), position)
  }

  /** For a place without a record. Written by `save`, before the transaction ends. */
  addTombstone(place: number, tombstone: TombstoneAt): void {
    if (!sharesRow(tombstone.id)) {
      this.store.set(numberedKey(TAG.item, this.number, place), encodeTombstone(tombstone))
      if (tombstone.position > tombstone.since) this.putChange(place, tombstone.position)
      return
    }
    const block = tombstoneBlockOf(place)
    const unsaved = this.#unsaved.get(block)
    if (unsaved) unsaved.set(place, tombstone)
    else this.#unsaved.set(block, new Map([[place, tombstone]]))
    if (this.#unsaved.size > MOST_UNSAVED) this.#saveTombstones()
  }

  /** Writes what is held in memory. */
  save(): void {
    this.#saveAdded()
    this.#blocks.save()
    this.#saveTombstones()
    this.#expired.clear()
  }

  #saveAdded(): void {
    const { block = 0, records = [] } = this.#added ?? {}
    this.#added = undefined
    for (const [offset, record] of records.entries()) {
      if (!record) continue
      this.store.set(numberedKey(TAG.item, this.number, block * BLOCK_PLACES + offset), encodeRecord(record))
    }
  }

  #saveTombstones(): void {
    for (const [block, tombstones] of this.#unsaved) {
      const [place, { position, since }] = Array.from(tombstones).at(-1) as [number, TombstoneAt]
      const key = tombstonesKey(this.number, block)
      const row = this.store.newest(key)
      const before = row && positionOf(row)
      // Those of a new order were deleted earlier.
      const written = this.#verified(() => withTombstones(row, tombstones, Math.max(position, since)))
      this.store.write(key, written)
      // They have one row of changes, too: that of the last deletion.
      if (before !== undefined) this.removeChange(before)
      if (position > since) this.putChange(place, position)
    }
    this.#unsaved.clear()
  }

  /** Indexes the change of an item by its position, to find changes. */
  putChange(place: number, position: Position): void {
    const value = Buffer.allocUnsafe(POSITION_BYTES)
    putPosition(value, 0, place)
    this.store.set(numberedKey(TAG.changed, this.number, position), value)
  }

  /** Indexes an expiry by its position, with the number of its items. */
  putExpiry(position: Position, count: number): void {
    const value = Buffer.allocUnsafe(4)
    value.writeUInt32BE(count)
    this.store.set(expiryKey(this.number, position), value)
  }

  /** The item was changed again after this position. */
  removeChange(position: Position): void {
    this.store.remove(numberedKey(TAG.changed, this.number, position))
  }

  /** Returns what was found at a place; undefined if its item has expired. */
  #unexpired<Found>(place: number, found: Found | undefined): Found | undefined {
    if (found || this.#expired.has(place) || mayHaveExpired(this.store, this.number, place)) return found
    throw this.lostRecord(place)
  }

  /** For a place whose item has not expired: a missing record was lost. */
  #existingRecordAt(place: number, at: Position): ScratchBytes {
    const record = this.recordAt(place, at)
    if (!record) throw this.lostRecord(place)
    return record
  }

  /** Deleted records are not verified further. */
  #holdsItem({ record }: RecordAt): boolean {
    return !isTombstone(record) || isItem(this.#decoded(record))
  }

  #decoded(record: ScratchBytes): Item | Tombstone {
    return this.#verified(() => decodeItem(record))
  }

  #verified<Result>(decode: () => Result): Result {
    try {
      return decode()
    } catch (error) {
      throw this.store.damage(error as Error)
    }
  }

  lostRecord(place: number): Refusal {
    return this.store.damage(new Corruption(`The store lacks an item at place ${place}, or has another one.`))
  }
}

/** Characters of cached items: fewer if V8's heap is small. */
const CACHED_CHARACTERS = Math.min(48 * 1024 * 1024, Math.floor(getHeapStatistics().heap_size_limit / 8))
/** Memory of an item besides its text, in characters. */
const OVERHEAD = 120

/** Caches what is read of the store's tables, with a bounded size. */
export interface ItemCache {
  /** Decoded items, with their entity tags, by the positions of their last events: none is ever out of date. */
  readonly items: LRUCache<Position, Item>
  readonly blocks: BlockCache
}

export function itemCache(): ItemCache {
  const items = new LRUCache<Position, Item>({
    maxSize: CACHED_CHARACTERS,
    sizeCalculation: ({ text }) => OVERHEAD + text.length,
  })
  return { items, blocks: new BlockCache() }
}
