import { Corruption, type Refusal } from '../errors.ts'
import type { ItemId, Position } from '../events/event.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { keyedKey, numberedKey, TAG } from '../store/keys.ts'
import type { Row, Store } from '../store/store.ts'
import { canonicalInteger, type Gone, Item, keyOf } from './item.ts'
import { decodeItem, idOf, isGone, RECORD_BYTES } from './item-record.ts'

/** Above all places. */
const NEVER = 2 ** 48 - 1
/** Rows that are read together when items are gone through. */
const READ_TOGETHER = 64

/** The rows of one collection in the store: what stands at which place, and where an item of a key stands. */
export class Table {
  readonly store: Store
  readonly number: number
  /** Integer ids mostly follow each other, as POST gives them: how much the last one was ahead of its place. */
  #ahead = 0

  constructor(store: Store, number: number) {
    this.store = store
    this.number = number
  }

  /** Where the item of a key stands, or stood last. */
  placeOf(key: string, at: Position): number | undefined {
    const found = this.store.read(keyedKey(TAG.place, this.number, key), at)
    return found && positionOf(found, POSITION_BYTES)
  }

  /** The record at a place, until the next call of anything. */
  recordAt(place: number, at: Position): Buffer | undefined {
    const record = this.store.read(numberedKey(TAG.item, this.number, place), at)
    if (record && record.length < RECORD_BYTES) throw this.#lacking(place)
    return record
  }

  /** The same of a place that has one, checked, to be kept or changed. */
  copyAt(place: number, at: Position): Buffer {
    const record = this.recordAt(place, at)
    if (!record) throw this.#lacking(place)
    this.#decoded(record)
    return Buffer.from(record)
  }

  itemAt(place: number, at: Position): Item | undefined {
    const record = this.recordAt(place, at)
    if (!record) throw this.#lacking(place)
    return this.#isThere(record) ? (this.#decoded(record) as Item) : undefined
  }

  entryOf(key: string, at: Position): Item | Gone | undefined {
    const place = this.placeOf(key, at)
    return place === undefined ? undefined : this.#decoded(this.recordOf(key, place, at))
  }

  /** The record of a key, at the place that the key has. */
  recordOf(key: string, place: number, at: Position): Buffer {
    const record = this.recordAt(place, at)
    if (record && keyOf(idOf(record)) === key) return record
    throw this.#lacking(place)
  }

  itemOf(key: string, at: Position): Item | undefined {
    const integer = canonicalInteger(key)
    const guessed = integer === undefined ? undefined : this.#guessed(integer, at)
    if (guessed) return guessed
    const place = this.placeOf(key, at)
    if (place === undefined) return undefined
    const record = this.recordOf(key, place, at)
    if (!this.#isThere(record)) return undefined
    if (integer !== undefined) this.#ahead = integer - place
    return this.#decoded(record) as Item
  }

  /** The item of an id, if it stands where the last one that was looked for would let expect it; then no key is looked up. */
  #guessed(id: number, at: Position): Item | undefined {
    const place = id - this.#ahead
    const record = place < 0 || place > NEVER ? undefined : this.recordAt(place, at)
    if (!record || isGone(record) || idOf(record) !== id) return undefined
    const found = this.#decoded(record)
    return found instanceof Item ? found : undefined
  }

  /** Where an item stands; undefined where there is none. */
  placeOfItem(id: ItemId, at: Position): number | undefined {
    const key = keyOf(id)
    const place = this.placeOf(key, at)
    return place !== undefined && this.#isThere(this.recordOf(key, place, at)) ? place : undefined
  }

  /** The items at places from one on and below another, with their places. */
  *items(from: number, below: number, at: () => Position): Generator<readonly [number, Item]> {
    for (let start = from; start < below; start += READ_TOGETHER) {
      for (const { key, value } of this.#rowsAt(start, Math.min(below, start + READ_TOGETHER), at())) {
        if (this.#isThere(value)) yield [placeIn(key), this.#decoded(value) as Item]
      }
    }
  }

  /** The first place from here on, and below another, that has an item; the other when there is none. */
  seek(from: number, below: number, at: Position): number {
    const record = from < below ? this.recordAt(from, at) : undefined
    if (record && this.#isThere(record)) return from
    for (let start = from; start < below; start += READ_TOGETHER) {
      for (const { key, value } of this.#rowsAt(start, Math.min(below, start + READ_TOGETHER), at)) {
        if (this.#isThere(value)) return placeIn(key)
      }
    }
    return below
  }

  putPlace(key: string, place: number, since: Position): void {
    const value = Buffer.allocUnsafe(2 * POSITION_BYTES)
    putPosition(value, 0, since)
    putPosition(value, POSITION_BYTES, place)
    this.store.write(keyedKey(TAG.place, this.number, key), value)
  }

  putRecord(place: number, record: Buffer): void {
    this.store.write(numberedKey(TAG.item, this.number, place), record)
  }

  #decoded(record: Buffer): Item | Gone {
    try {
      return decodeItem(record)
    } catch (error) {
      throw this.store.damage(error as Error)
    }
  }

  /** Whether it is an item; of one that is gone nobody looks at the rest. */
  #isThere(record: Buffer): boolean {
    return !isGone(record) || this.#decoded(record) instanceof Item
  }

  #lacking(place: number): Refusal {
    return this.store.damage(new Corruption(`The store lacks an item at place ${place}, or has another one.`))
  }

  /** Every place has a record: one that is missing was lost. */
  #rowsAt(from: number, below: number, at: Position): Row[] {
    const start = Buffer.from(numberedKey(TAG.item, this.number, from))
    const end = Buffer.from(numberedKey(TAG.item, this.number, below))
    const rows = this.store.rowsAt(start, end, at)
    const last = rows.at(-1)?.key
    if (rows.length !== below - from || (last && placeIn(last) !== below - 1)) {
      throw this.#lacking(from)
    }
    return rows
  }
}

function placeIn(key: Buffer): number {
  return positionOf(key, key.length - POSITION_BYTES)
}
