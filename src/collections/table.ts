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
import { mayHaveExpired } from './gaps.ts'
import {
  canonicalInteger,
  decodeItem,
  encodeTombstone,
  type Item,
  idInRecord,
  isItem,
  isKeyOf,
  isTombstone,
  keyOf,
  RECORD_BYTES,
  type Tombstone,
  type TombstoneAt,
} from './item.ts'
import { NO_TOMBSTONES, sharesRow, tombstoneBlockOf, tombstonesIn, withTombstones } from './tombstones.ts'

/** Blocks whose new tombstones are held in memory. */
const MOST_UNSAVED = 64

interface RecordAt {
  readonly place: number
  readonly record: ScratchBytes
}

/** The rows of one collection in the store: the record at each place, and the place of each key. */
export class Table {
  readonly store: Store
  readonly number: number
  readonly #cache: ItemCache | undefined
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
  }

  /** The place of a key's item, existing or deleted, and its record; `places` is above all places. */
  find(key: string, at: Position, places: number): RecordAt | undefined {
    const expected = this.#expectedPlace(key, at, places)
    const record = expected === undefined ? undefined : this.#unexpiredRecordAt(expected, at)
    const hasKey = record !== undefined && isKeyOf(key, idInRecord(record))
    if (hasKey && !isTombstone(record)) return { place: expected as number, record }
    const deleted = hasKey ? { place: expected as number, record: Buffer.from(record as Buffer) } : undefined
    // An item that was deleted and created again has a row, and another place.
    const place = this.#placeInRow(key, at)
    return place === undefined ? deleted : { place, record: this.#existingRecordOf(key, place, at) }
  }

  #existingRecordOf(key: string, place: number, at: Position): ScratchBytes {
    const record = this.recordAt(place, at)
    if (record && isKeyOf(key, idInRecord(record))) return record
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
    const record = this.#unexpiredRecordAt(place, at)
    const entry = record && this.#decoded(record)
    return isItem(entry) ? entry : undefined
  }

  /** The first place from `place` on with a record, in the newest state; undefined if there is none. */
  next(place: number): number | undefined {
    if (this.recordAt(place, HIGHEST)) return place
    // Places without a record are in long runs, which are not visited one by one.
    const row = this.#nextRow(place)
    const block = tombstoneBlockOf(place)
    const end = leastTimeKey(this.number, 0)
    const deleted = this.store
      .rows(tombstonesKey(this.number, block), end, { limit: 2 })
      .flatMap(({ key, value }) => [...tombstonesIn(value, positionOf(key, PREFIX_BYTES + 1)).keys()])
    const unsaved = Array.from(this.#unsaved.values()).flatMap((tombstones) => [...tombstones.keys()])
    const places = [...deleted, ...unsaved].filter((one) => one >= place)
    if (row !== undefined) places.push(row)
    return places.length > 0 ? Math.min(...places) : undefined
  }

  entryOf(key: string, at: Position, places: number): Item | Tombstone | undefined {
    const found = this.find(key, at, places)
    if (!found) return undefined
    const cached = this.#cache?.get(positionOf(found.record))
    if (cached) return cached
    const entry = this.#decoded(found.record)
    if (isItem(entry)) this.#cache?.set(entry.position, entry)
    return entry
  }

  placeOfItem(id: ItemId, at: Position, places: number): number | undefined {
    const found = this.find(keyOf(id), at, places)
    return found && this.#holdsItem(found.record) ? found.place : undefined
  }

  /** The first place from `place` on that has a record of its own. */
  #nextRow(place: number): number | undefined {
    const end = prefixEnd(tableKey(TAG.item, this.number))
    const [row] = this.store.rows(numberedKey(TAG.item, this.number, place), end, { limit: 1 })
    return row && positionOf(row.key, PREFIX_BYTES)
  }

  /** The first place from `from` to before `below` that has an item; `below` if there is none. */
  seek(from: number, below: number, at: Position): number {
    for (let place = from; place < below; place++) {
      if (this.sharedTombstones(place, at).has(place)) continue
      const record = this.#unexpiredRecordAt(place, at)
      if (record && this.#holdsItem(record)) return place
      // Places of expired items are in long runs. Earlier versions would be passed over.
      if (!record && this.store.versions.areNone) place = (this.#nextRow(place) ?? below) - 1
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

  /** For a place without a record: there is no version to keep. */
  addRecord(place: number, record: Buffer): void {
    this.store.set(numberedKey(TAG.item, this.number, place), record)
  }

  putRecord(place: number, record: Buffer): void {
    this.store.write(numberedKey(TAG.item, this.number, place), record)
  }

  /** For an item that is deleted, before its tombstone is added. */
  removeRecord(place: number, position: Position): void {
    this.store.removeAt(numberedKey(TAG.item, this.number, place), position)
  }

  /** For an item that expires. It leaves neither a record nor a tombstone. */
  removeExpired(key: string, place: number, position: Position): void {
    this.#expired.add(place)
    this.removeRecord(place, position)
    const row = keyedKey(TAG.place, this.number, key)
    if (this.#expectedPlace(key, position, place + 1) !== place) this.store.removeAt(row, position)
  }

  /** For a place without a record. Written by `saveTombstones`, before the transaction ends. */
  addTombstone(place: number, tombstone: TombstoneAt): void {
    if (!sharesRow(tombstone.id)) {
      this.addRecord(place, encodeTombstone(tombstone))
      if (tombstone.position > tombstone.since) this.putChange(place, tombstone.position)
      return
    }
    const block = tombstoneBlockOf(place)
    const unsaved = this.#unsaved.get(block)
    if (unsaved) unsaved.set(place, tombstone)
    else this.#unsaved.set(block, new Map([[place, tombstone]]))
    if (this.#unsaved.size > MOST_UNSAVED) this.saveTombstones()
  }

  saveTombstones(): void {
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
    this.#expired.clear()
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

  /** The record at a place; undefined if its item has expired. */
  #unexpiredRecordAt(place: number, at: Position): ScratchBytes | undefined {
    const record = this.recordAt(place, at)
    if (record || this.#expired.has(place) || mayHaveExpired(this.store, this.number, place)) return record
    throw this.lostRecord(place)
  }

  /** For a place whose item has not expired: a missing record was lost. */
  #existingRecordAt(place: number, at: Position): ScratchBytes {
    const record = this.recordAt(place, at)
    if (!record) throw this.lostRecord(place)
    return record
  }

  /** Deleted records are not verified further. */
  #holdsItem(record: ScratchBytes): boolean {
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

/** Decoded items, with their entity tags, by the positions of their last events: none is ever out of date. */
export type ItemCache = LRUCache<Position, Item>

export function itemCache(): ItemCache {
  return new LRUCache({ maxSize: CACHED_CHARACTERS, sizeCalculation: ({ text }) => OVERHEAD + text.length })
}
