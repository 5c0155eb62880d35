/*
 * Finds the earlier versions of the items of a collection that were changed or deleted, or have expired, since a position.
 */

import { keyOf } from '../collections/item.ts'
import type { PinnedCollection } from '../collections/stored-items.ts'
import { type ExpiredItem, expiredItems, type ItemId, type Position } from '../events/event.ts'
import { type Journal, positioned } from '../events/journal.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import type { Memory } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import {
  expiryKey,
  HIGHEST,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  type Row,
  type RowsOptions,
  TAG,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { History } from './history.ts'

/** Highest number of changed items with which one state is held in memory. Those that have expired are not counted. */
const MOST_CHANGED = 50_000
/** The memory of a changed item besides its text. */
const CHANGED_BYTES = 320
/** Rows read at a time: a few lookups for each. */
const ROWS = 32

export interface VersionSources {
  readonly store: Store
  readonly journal: Pick<Journal, 'at'>
  readonly history: History
  readonly memory: Memory
  /** Highest number of items that have expired since. */
  readonly mostExpired: number
}

export interface EarlierVersions {
  /** The places of the changed items, by the positions of their earlier versions. */
  readonly versions: ReadonlyMap<Position, number>
  /** Places of items deleted or expired since, in order. */
  readonly gone: readonly number[]
  /** Those that have expired. */
  readonly expired: ReadonlySet<number>
  /** The position of the last event that is not later, among those of the items found. */
  readonly last: Position
}

/** Finds where the earlier versions of changed items are in the journal; undefined if there are too many. */
export async function earlierVersions(
  now: PinnedCollection,
  at: Position,
  sources: VersionSources,
  turn: Turn,
): Promise<EarlierVersions | undefined> {
  const { store } = sources
  const { table } = now.facts
  const found = new VersionSearch(now, at, sources)
  // Invariant: the rows before `start` were read. There is one for each changed item, and one for the deleted items of a
  // block, at the position of the last change. It moves to a higher position with the next change, so none is missed, and
  // one may come twice.
  for (let start = at + 1, isLast = false; !isLast; ) {
    const rows = changesBetween(store, table, start, HIGHEST, { limit: ROWS })
    for (const row of rows) {
      start = changePosition(row) + 1
      for (const place of now.placesChangedWith(positionOf(row.value))) found.addPlace(place)
      if (turn.isOver) await turn.next()
    }
    if (found.versions.size > MOST_CHANGED) return undefined
    isLast = rows.length < ROWS
  }
  // The rows of items that expired meanwhile were removed, so those of expiries are read after them.
  for await (const recorded of sources.journal.at(expiriesAfter(now, at, sources))) {
    for (const [position, event] of positioned(recorded)) {
      for (const item of expiredItems(event)) {
        // After the present was pinned, where it is an item like any other.
        if (position > now.at) found.addPlace(item.place)
        else found.addExpired(item)
        if (turn.isOver) await turn.next()
      }
    }
  }
  for await (const recorded of sources.journal.at(found.uncertain))
    for (const [position, event] of positioned(recorded)) if (!('item' in event)) found.remove(position)
  return found.end()
}

/** @throws {Refusal} `Gone` when too many items have expired. */
function expiriesAfter(
  { name, facts }: PinnedCollection,
  at: Position,
  { store, mostExpired }: VersionSources,
): Position[] {
  const expiries: Position[] = []
  let left = mostExpired
  for (let start = at + 1, isLast = false; !isLast; ) {
    const rows = store.rows(expiryKey(facts.table, start), expiryKey(facts.table, HIGHEST), { limit: ROWS })
    for (const row of rows) {
      const count = row.value.readUInt32BE(0)
      start = changePosition(row) + 1
      left -= count
      if (left < 0) throw tooManyExpired(name, at, mostExpired)
      if (count > 0) expiries.push(changePosition(row))
    }
    isLast = rows.length < ROWS
  }
  return expiries
}

function tooManyExpired(name: string, at: Position, most: number): Refusal {
  const why = `More than ${most} items of ${JSON.stringify(name)} (Limits.PastItems) have expired since position ${at}`
  const how = `recollect replay --to ${at} --out <file> writes the state as a data file`
  return new Refusal('Gone', `${why}. ${how}; single items and /events can be read at any position.`)
}

/** Collects the earlier versions of items that were changed, deleted or have expired since a position. */
class VersionSearch {
  readonly versions = new Map<Position, number>()
  readonly #gone = new Set<number>()
  readonly #expired = new Set<number>()
  readonly #uncertain = new Set<Position>()
  readonly #now: PinnedCollection
  readonly #at: Position
  readonly #sources: VersionSources
  #last = 0

  constructor(now: PinnedCollection, at: Position, sources: VersionSources) {
    this.#now = now
    this.#at = at
    this.#sources = sources
  }

  /** The item at a place was changed or deleted, or others of its block were deleted. */
  addPlace(place: number): void {
    const { id, position, prior, since, isTombstone } = this.#now.metadataAt(place)
    if (since > this.#at) return
    if (position <= this.#at) {
      // It was deleted before another one of its block, or changed only after the present was pinned.
      this.#last = Math.max(this.#last, position)
      return
    }
    // If the item changed once since then, `prior` is its event before that; otherwise the history finds it.
    const version = prior <= this.#at ? prior : this.#earlierOf(id)
    if (version === undefined) {
      const what = `${this.#now.name}/${id} up to position ${this.#at}`
      throw this.#sources.store.damage(new Corruption(`The store has no event of ${what}.`))
    }
    this.#add(version, place, isTombstone)
  }

  /** The item at a place has expired. */
  addExpired({ id, place, position }: ExpiredItem): void {
    const version = position <= this.#at ? position : this.#earlierOf(id)
    // It was created later, or has been there before, at another place.
    if (version === undefined || this.versions.has(version)) return
    this.#expired.add(place)
    if (position > this.#at) this.#uncertain.add(version)
    this.#add(version, place, true)
  }

  /** The versions that are a deletion if their items were deleted at that moment and created again, in order. */
  get uncertain(): readonly Position[] {
    return Array.from(this.#uncertain).sort((a, b) => a - b)
  }

  remove(version: Position): void {
    const place = this.versions.get(version) as number
    this.versions.delete(version)
    this.#gone.delete(place)
    this.#expired.delete(place)
  }

  end(): EarlierVersions {
    const gone = Array.from(this.#gone).sort((a, b) => a - b)
    return { versions: this.versions, gone, expired: this.#expired, last: this.#last }
  }

  #earlierOf(id: ItemId): Position | undefined {
    return this.#sources.history.earlierOf(this.#now.name, keyOf(id), this.#at)
  }

  #add(version: Position, place: number, isGone: boolean): void {
    if (this.versions.has(version)) return
    this.#sources.memory.hold(CHANGED_BYTES)
    this.versions.set(version, place)
    if (isGone) this.#gone.add(place)
  }
}

/** The rows of changed places, by the positions of their last changes. Backwards, `to` is included. */
export function changesBetween(store: Store, table: number, from: Position, to: Position, options: RowsOptions) {
  return store.rows(numberedKey(TAG.changed, table, from), numberedKey(TAG.changed, table, to), options)
}

export function changePosition({ key }: Row): Position {
  return positionOf(key, key.length - POSITION_BYTES)
}
