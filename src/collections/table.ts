import { Corruption, type Refusal } from '../errors.ts'
import type { ItemId, Position } from '../events/event.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { keyedKey, numberedKey, TAG } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { canonicalInteger, type Gone, Item, keyOf } from './item.ts'
import type { ItemCache } from './item-cache.ts'
import { decodeItem, idOf, isGone, RECORD_BYTES } from './item-record.ts'

interface RecordAt {
  readonly place: number
  readonly record: Buffer
}

/** The rows of one collection in the store: what stands at which place, and where an item of a key stands. */
export class Table {
  readonly store: Store
  readonly number: number
  readonly #cache: ItemCache | undefined
  /** The integer at place 0, -1 for another key; undefined when it was not read yet. */
  #first: number | undefined

  constructor(store: Store, number: number, cache?: ItemCache) {
    this.store = store
    this.number = number
    this.#cache = cache
  }

  /** Where the item of a key is, or was last, and its record until the next call of anything; `places` is above all places. */
  find(key: string, at: Position, places: number): RecordAt | undefined {
    const expected = this.#expectedPlace(key, at, places)
    const record = expected === undefined ? undefined : this.#standingAt(expected, at)
    const hasKey = record !== undefined && keyOf(idOf(record)) === key
    if (hasKey && !isGone(record)) return { place: expected as number, record }
    // An item that was deleted and created again has a row, and stands elsewhere.
    const place = this.#placeInRow(key, at) ?? (hasKey ? expected : undefined)
    return place === undefined ? undefined : { place, record: this.#recordOf(key, place, at) }
  }

  placeOf(key: string, at: Position, places: number): number | undefined {
    return this.find(key, at, places)?.place
  }

  #placeInRow(key: string, at: Position): number | undefined {
    const found = this.store.read(keyedKey(TAG.place, this.number, key), at)
    return found && positionOf(found, POSITION_BYTES)
  }

  /**
   * Where the item of an integer is if all integers followed each other from place 0 on, as those of POST do. Such a key has no row:
   * a row takes 60 bytes and as long to write as a short item.
   */
  #expectedPlace(key: string, at: Position, places: number): number | undefined {
    const integer = canonicalInteger(key)
    if (integer === undefined || places === 0) return undefined
    this.#first ??= canonicalInteger(keyOf(idOf(this.#standingAt(0, at)))) ?? -1
    const place = integer - this.#first
    return this.#first >= 0 && place >= 0 && place < places ? place : undefined
  }

  /** The record at a place, until the next call of anything. */
  recordAt(place: number, at: Position): Buffer | undefined {
    const record = this.store.read(numberedKey(TAG.item, this.number, place), at)
    if (record && record.length < RECORD_BYTES) throw this.lacking(place)
    return record
  }

  /** The same of a place that has one, checked, to be kept or changed. */
  copyAt(place: number, at: Position): Buffer {
    const record = this.#standingAt(place, at)
    this.#decoded(record)
    return Buffer.from(record)
  }

  itemAt(place: number, at: Position): Item | undefined {
    const cached = this.#cachedAt(place, at)
    if (cached) return cached
    return itemOrNothing(this.#entry(this.#standingAt(place, at), place, at))
  }

  /** The same for whoever goes through all items: the cache is for those that are asked for again. */
  uncachedAt(place: number, at: Position): Item | undefined {
    return itemOrNothing(this.#decoded(this.#standingAt(place, at)))
  }

  entryOf(key: string, at: Position, places: number): Item | Gone | undefined {
    const expected = this.#expectedPlace(key, at, places)
    const cached = expected === undefined ? undefined : this.#cachedAt(expected, at)
    if (cached?.key === key) return cached
    const found = this.find(key, at, places)
    return found && this.#entry(found.record, found.place, at)
  }

  itemOf(key: string, at: Position, places: number): Item | undefined {
    return itemOrNothing(this.entryOf(key, at, places))
  }

  #recordOf(key: string, place: number, at: Position): Buffer {
    const record = this.recordAt(place, at)
    if (record && keyOf(idOf(record)) === key) return record
    throw this.lacking(place)
  }

  /** An item that has not changed since a position is the one of then. */
  #cachedAt(place: number, at: Position): Item | undefined {
    const cached = this.#cache?.get(this.number, place)
    return cached && cached.position <= at ? cached : undefined
  }

  /** What a record says that stands at a place. */
  #entry(record: Buffer, place: number, at: Position): Item | Gone {
    const entry = this.#decoded(record)
    if (entry instanceof Item && at === this.#cache?.position) this.#cache.set(this.number, place, entry)
    return entry
  }

  /** Where an item stands; undefined where there is none. */
  placeOfItem(id: ItemId, at: Position, places: number): number | undefined {
    const found = this.find(keyOf(id), at, places)
    return found && this.#isItem(found.record) ? found.place : undefined
  }

  /** The first place from here on, and below another, that has an item; the other when there is none. */
  seek(from: number, below: number, at: Position): number {
    let place = from
    while (place < below && !this.#isItem(this.#standingAt(place, at))) place++
    return place
  }

  /** Notes where the item of a key stands; `had` says whether it stood elsewhere before. */
  putPlace(key: string, place: number, had: boolean, since: Position): void {
    if (!had && this.#expectedPlace(key, since, place + 1) === place) return
    const value = Buffer.allocUnsafe(2 * POSITION_BYTES)
    putPosition(value, 0, since)
    putPosition(value, POSITION_BYTES, place)
    this.store.write(keyedKey(TAG.place, this.number, key), value)
  }

  /** At a place that never had a record: there is nothing to be kept for readers at a position before. */
  addRecord(place: number, record: Buffer): void {
    this.store.set(numberedKey(TAG.item, this.number, place), record)
  }

  putRecord(place: number, record: Buffer): void {
    this.store.write(numberedKey(TAG.item, this.number, place), record)
  }

  /** Every place has a record: one that is missing was lost. */
  #standingAt(place: number, at: Position): Buffer {
    const record = this.recordAt(place, at)
    if (!record) throw this.lacking(place)
    return record
  }

  /** Of one that is gone, nobody looks at the rest. */
  #isItem(record: Buffer): boolean {
    return !isGone(record) || this.#decoded(record) instanceof Item
  }

  #decoded(record: Buffer): Item | Gone {
    try {
      return decodeItem(record)
    } catch (error) {
      throw this.store.damage(error as Error)
    }
  }

  lacking(place: number): Refusal {
    return this.store.damage(new Corruption(`The store lacks an item at place ${place}, or has another one.`))
  }
}

function itemOrNothing(entry: Item | Gone | undefined): Item | undefined {
  return entry instanceof Item ? entry : undefined
}
