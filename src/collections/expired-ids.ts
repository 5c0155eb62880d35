/*
 * Items that expired leave no record and no tombstone, so that the store does not grow with what has gone. Runs of integer
 * ids are in the rows of a collection: their revisions continue, and their events are found.
 *
 * | Bytes | The row of a block of integer ids |
 * |---|---|
 * | 6 | the position of the last expiry of one of them |
 * | 4 | CRC-32 of the rest, begun with the position |
 * | … | the runs, in the order of their first ids, none of which overlap |
 *
 * A run is six numbers of seven bits in each byte: its first id within the block, its length, the revision, the position
 * of the expiry, the position of the last event of the first item, and the difference of these positions from one item
 * to the next.
 *
 * Another id has a row of its own, with the key of its earlier events. After position and CRC it has three such numbers:
 * the revision, the position of the expiry, and that of the last event before.
 */

import { crc32 } from 'node:zlib'
import type { Position } from '../events/event.ts'
import { Corruption } from '../runtime/errors.ts'
import { MOST_NUMBER_BYTES, NumberReader, NumberWriter } from '../runtime/var-numbers.ts'
import { expiredIdsKey, keyedKey, positionOf, putPosition, type ScratchBytes, TAG } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { canonicalInteger } from './item.ts'

/** Ids in a block. */
const ID_BLOCK = 1024
const AT = { crc: 6, numbers: 10 } as const

/** The remains of an item that expired. */
export interface Expiry {
  /** That of its expiry. */
  readonly revision: number
  readonly position: Position
  /** The position of its last event before. */
  readonly prior: Position
}

interface IdRun {
  readonly first: number
  readonly count: number
  readonly revision: number
  readonly expired: Position
  readonly position: Position
  readonly step: number
}

/** The expired items of a collection, by key. */
export class ExpiredIds {
  readonly #store: Store
  readonly #collection: number
  /** Those that are not stored yet, by key. */
  readonly #unsaved = new Map<string, Expiry>()

  /** @param collection its number in the store */
  constructor(store: Store, collection: number) {
    this.#store = store
    this.#collection = collection
  }

  find(key: string, at: Position): Expiry | undefined {
    const unsaved = this.#unsaved.get(key)
    if (unsaved) return unsaved
    const id = canonicalInteger(key)
    const row = this.#store.read(this.#rowOf(key, id), at)
    if (!row) return undefined
    const numbers = this.#numbersIn(row)
    if (id === undefined) {
      const [revision = 0, position = 0, prior = 0] = numbers
      return { revision, position, prior }
    }
    const index = id % ID_BLOCK
    const run = runsIn(numbers).find(({ first, count }) => first <= index && index < first + count)
    return run && expiryIn(run, index)
  }

  /** Written by `save`, before the transaction ends. */
  add(key: string, expiry: Expiry): void {
    this.#unsaved.set(key, expiry)
  }

  save(): void {
    const blocks = new Map<number, Map<number, Expiry>>()
    for (const [key, expiry] of this.#unsaved) {
      const id = canonicalInteger(key)
      if (id === undefined) {
        const { revision, position, prior } = expiry
        this.#store.write(this.#rowOf(key, id), encoded([revision, position, prior], position))
        continue
      }
      const block = Math.floor(id / ID_BLOCK)
      blocks.set(block, (blocks.get(block) ?? new Map<number, Expiry>()).set(id % ID_BLOCK, expiry))
    }
    for (const [block, added] of blocks) {
      const key = expiredIdsKey(this.#collection, block)
      const row = this.#store.newest(key)
      const last = Math.max(...Array.from(added.values(), ({ position }) => position))
      this.#store.write(key, encoded(numbersOf(row ? runsIn(this.#numbersIn(row)) : [], added), last))
    }
    this.#unsaved.clear()
  }

  #rowOf(key: string, id: number | undefined): Buffer {
    if (id === undefined) return keyedKey(TAG.itemEvent, this.#collection, key)
    return expiredIdsKey(this.#collection, Math.floor(id / ID_BLOCK))
  }

  #numbersIn(row: ScratchBytes): readonly number[] {
    try {
      return decoded(row)
    } catch (error) {
      throw this.#store.damage(error as Error)
    }
  }
}

function expiryIn({ first, revision, expired, position, step }: IdRun, id: number): Expiry {
  return { revision, position: expired, prior: position + (id - first) * step }
}

/** @throws {Corruption} */
function decoded(row: ScratchBytes): readonly number[] {
  const bytes = Buffer.from(row as Buffer)
  if (bytes.length < AT.numbers || bytes.readUInt32BE(AT.crc) !== checksum(bytes)) {
    throw new Corruption(`The store has damaged expired ids, as of position ${positionOf(bytes)}.`)
  }
  const numbers: number[] = []
  for (const reader = new NumberReader(bytes, AT.numbers); !reader.isAtEnd; ) numbers.push(reader.next())
  return numbers
}

function encoded(numbers: readonly number[], position: Position): Buffer {
  const most = AT.numbers + MOST_NUMBER_BYTES * numbers.length
  const writer = new NumberWriter(Buffer.allocUnsafe(most), AT.numbers)
  for (const number of numbers) writer.put(number)
  const bytes = writer.written
  putPosition(bytes, 0, position)
  bytes.writeUInt32BE(checksum(bytes), AT.crc)
  return bytes
}

function checksum(bytes: Buffer): number {
  return crc32(bytes.subarray(AT.numbers), positionOf(bytes) >>> 0)
}

/** The numbers of a run. */
const NUMBERS = 6

function runsIn(numbers: readonly number[]): readonly IdRun[] {
  return Array.from({ length: numbers.length / NUMBERS }, (_, index) => {
    const from = index * NUMBERS
    const [first = 0, count = 0, revision = 0, expired = 0, position = 0, step = 0] = numbers.slice(
      from,
      from + NUMBERS,
    )
    return { first, count, revision, expired, position, step }
  })
}

/** The runs of a block after more of its ids have expired. */
function numbersOf(runs: readonly IdRun[], added: ReadonlyMap<number, Expiry>): readonly number[] {
  const byId = new Map<number, Expiry>()
  for (const run of runs) for (let id = run.first; id < run.first + run.count; id++) byId.set(id, expiryIn(run, id))
  for (const [id, expiry] of added) byId.set(id, expiry)
  const numbers: number[] = []
  const ids = [...byId.keys()].sort((a, b) => a - b)
  // Invariant: the ids before `at` are in the runs.
  for (let at = 0; at < ids.length; ) {
    const first = ids[at] as number
    const { revision, position, prior } = byId.get(first) as Expiry
    const step = Math.max(0, (byId.get(first + 1)?.prior ?? prior) - prior)
    let count = 1
    for (; count < ids.length - at; count++) {
      const next = byId.get(first + count)
      if (next?.revision !== revision || next.position !== position || next.prior !== prior + count * step) break
    }
    numbers.push(first, count, revision, position, prior, step)
    at += count
  }
  return numbers
}
