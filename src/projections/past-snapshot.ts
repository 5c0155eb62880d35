import type { Collection } from '../collections/collection.ts'
import { BLOCK, blockOf } from '../collections/gaps.ts'
import { Item, keyOf } from '../collections/item.ts'
import type { CollectionItems, PinnedCollection } from '../collections/stored-items.ts'
import type { DomainEvent, ItemId, Position } from '../events/event.ts'
import { mergeSort } from '../json/merge-sort.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import { keysAt, type StoredIndex } from '../query/index/stored-index.ts'
import { lowerBound } from '../runtime/chunked-list.ts'
import { Corruption } from '../runtime/errors.ts'
import { type Memory, textBytes } from '../runtime/memory.ts'
import type { Turn } from '../runtime/turns.ts'
import { expiryKey, HIGHEST } from '../store/keys.ts'
import { MergedTree } from '../store/merged-tree.ts'
import type { OrderedKeys } from '../store/tree.ts'
import {
  changePosition,
  changesBetween,
  type EarlierVersions,
  earlierVersions,
  type VersionSources,
} from './earlier-versions.ts'

/** Highest number of characters of changed items with which one state is held in memory. Those that expired are not counted. */
const MOST_CHARACTERS = 64 * 1024 * 1024
/** The memory of a key of an index. */
const KEY_BYTES = 200

interface PastSources extends VersionSources {
  /** The indexes of the present collection. */
  readonly indexes: readonly StoredIndex[]
  /** Other states of the same table. Those at close positions have most of the same versions. */
  readonly others: readonly PastSnapshot[]
}

/**
 * An earlier state of a collection: the present one without later items, and with the earlier versions of changed ones.
 * Later events do not change it until it is released.
 */
export class PastSnapshot implements CollectionSnapshot, CollectionItems {
  readonly at: Position
  readonly position: Position
  readonly exists = true
  readonly size: number
  readonly places: number
  readonly indexes: readonly StoredIndex[]
  readonly #now: PinnedCollection
  /** Earlier versions of changed items, by place. */
  readonly #changed: ReadonlyMap<number, Item>
  /** Places of items deleted or expired since, in order. */
  readonly #gone: readonly number[]
  /** These places by the items' keys. */
  #goneByKey: Map<string, number> | undefined
  readonly #keys = new Map<StoredIndex, OrderedKeys>()
  /** No present item has a place from `from` to before `to`. */
  #sought = { from: HIGHEST, to: 0 }
  readonly #memory: Memory

  private constructor(
    at: Position,
    now: PinnedCollection,
    places: number,
    position: Position,
    { changed, gone }: ChangesSince,
    { indexes, memory }: PastSources,
  ) {
    this.at = at
    this.#now = now
    this.places = places
    this.position = position
    this.#changed = changed
    this.#gone = gone
    this.#memory = memory
    this.size = now.itemsBefore(places) + this.#gone.length
    this.indexes = indexes.filter((index) => index.isReadableAt(now.at))
    for (const index of this.indexes) index.readers++
  }

  /**
   * The collection right after an event; undefined if too much has changed since, or its order has.
   * @throws {Refusal} when the memory is not free; `Gone` when too many items have expired since.
   */
  static async at(
    collection: Collection,
    at: Position,
    sources: PastSources,
    turn: Turn,
  ): Promise<PastSnapshot | undefined> {
    if (at < collection.facts.ordered) return undefined
    const now = collection.held()
    try {
      const places = placesAt(now, at)
      // Read first: these rows move when their items change again.
      const unchanged = lastUnchanged(now, at, places, sources)
      const since = await changesSince(now, at, sources, turn)
      if (since) {
        const last = Math.max(unchanged, since.last)
        return new PastSnapshot(at, now, places, last, since, sources)
      }
    } catch (error) {
      now.release()
      throw error
    }
    now.release()
    return undefined
  }

  /** The number of items right after an event, which are not read; undefined as with `at`. */
  static async sizeAt(
    collection: Collection,
    at: Position,
    sources: VersionSources,
    turn: Turn,
  ): Promise<number | undefined> {
    if (at < collection.facts.ordered) return undefined
    const now = collection.held()
    try {
      const places = placesAt(now, at)
      const found = await earlierVersions(now, at, sources, turn)
      return found && now.itemsBefore(places) + found.gone.length
    } finally {
      now.release()
    }
  }

  /** Whether items of the collection have expired after a position. */
  static hasExpiredSince({ facts }: Collection, at: Position, { store }: Pick<PastSources, 'store'>): boolean {
    return store.rows(expiryKey(facts.table, at + 1), expiryKey(facts.table, HIGHEST), { limit: 1 }).length > 0
  }

  /** Whether it has the same places as the present collection. */
  isOf({ facts: { table } }: Collection): boolean {
    return this.#now.facts.table === table
  }

  /** Whether it holds the version of the item at a place that an event made. */
  hasVersion(place: number, position: Position): boolean {
    return this.#changed.get(place)?.position === position
  }

  get items(): this {
    return this
  }

  itemAt(place: number): Item | undefined {
    return this.#changed.get(place) ?? this.#now.itemAt(place)
  }

  placeOf(id: ItemId): number | undefined {
    const place = this.#now.placeOf(id)
    // An item that was deleted and created again has another place, beyond those of the past.
    if (place !== undefined && place < this.places) return place
    this.#goneByKey ??= new Map(this.#gone.map((gone) => [(this.#changed.get(gone) as Item).key, gone]))
    return this.#goneByKey.get(keyOf(id))
  }

  item(key: string): Item | undefined {
    const place = this.placeOf(key)
    return place === undefined ? undefined : this.itemAt(place)
  }

  seek(place: number): number {
    const gone = this.#gone[lowerBound(this.#gone, place)] ?? HIGHEST
    return gone === place ? place : Math.min(this.places, gone, this.#seekNow(place))
  }

  /** The present has long runs of places whose items have expired, so the last result is kept. */
  #seekNow(place: number): number {
    const { from, to } = this.#sought
    if (place < from || place > to) this.#sought = { from: place, to: this.#now.seek(place) }
    return this.#sought.to
  }

  nth(nth: number): number {
    if (nth >= this.size) return this.places
    let low = 0
    let high = blockOf(this.places) + 1
    // Invariant: the nth item is in one of the blocks from `low` to before `high`.
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (this.#itemsBefore(middle) <= nth) low = middle
      else high = middle
    }
    let place = this.seek(low * BLOCK)
    for (let passed = this.#itemsBefore(low); passed < nth; passed++) place = this.seek(place + 1)
    return place
  }

  /** The number of items before a block; the present does not count those that are gone. */
  #itemsBefore(block: number): number {
    const place = block * BLOCK
    return this.#now.itemsBefore(place) + lowerBound(this.#gone, place)
  }

  async keysOf(index: StoredIndex, turn: Turn): Promise<OrderedKeys> {
    const known = this.#keys.get(index)
    if (known) return known
    let held = 0
    const keysIn = (item: Item | undefined, place: number): readonly string[] => {
      const keys = keysAt(item, index, place)
      this.#memory.hold(KEY_BYTES * keys.length)
      held += KEY_BYTES * keys.length
      return keys
    }
    try {
      const without: string[] = []
      const added: string[] = []
      for (const [place, item] of this.#changed) {
        const isGone = this.#gone[lowerBound(this.#gone, place)] === place
        for (const key of isGone ? [] : keysIn(this.#now.itemAt(place), place)) without.push(key)
        for (const key of keysIn(item, place)) added.push(key)
        if (turn.isOver) await turn.next()
      }
      // The present keys of items that were there then, except those of changed items, which have their earlier keys.
      const tree = index.tree.at(this.#now.at, this.places)
      const keys = MergedTree.of(tree, await sortedKeys(without, turn), await sortedKeys(added, turn))
      // Another reader may have had the same idea.
      if (!this.#keys.has(index)) held = 0
      this.#keys.set(index, keys)
      return keys
    } finally {
      this.#memory.count(-held)
    }
  }

  release(): void {
    for (const index of this.indexes) index.readers--
    this.#now.release()
  }
}

/** The place of the first present item that had none at a position. Places are assigned in order. */
function placesAt(now: PinnedCollection, at: Position): number {
  // Invariant: items before `low` had their places by then; those from `high` on had not.
  let low = 0
  let high = now.places
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const place = now.seek(middle)
    if (place < high && now.metadataAt(place).since <= at) low = place + 1
    else high = middle
  }
  return now.seek(low)
}

interface ChangesSince extends Pick<EarlierVersions, 'gone' | 'last'> {
  /** Earlier versions of the changed items, by place. */
  readonly changed: ReadonlyMap<number, Item>
}

/** Reads the earlier versions of the items that changed after `at`; undefined if there are too many. */
async function changesSince(
  now: PinnedCollection,
  at: Position,
  sources: PastSources,
  turn: Turn,
): Promise<ChangesSince | undefined> {
  const found = await earlierVersions(now, at, sources, turn)
  if (!found) return undefined
  const { versions, expired, gone } = found
  const changed = new Map<number, Item>()
  let { last } = found
  let characters = 0
  const add = (place: number, item: Item): void => {
    sources.memory.hold(textBytes(item.text))
    changed.set(place, item)
    last = Math.max(last, item.position)
    if (!expired.has(place)) characters += item.text.length
  }
  const unknown: Position[] = []
  for (const [position, place] of versions) {
    if (turn.isOver) await turn.next()
    const other = sources.others.find((one) => one.hasVersion(place, position))
    if (other) add(place, other.itemAt(place) as Item)
    else unknown.push(position)
  }
  for await (const recorded of sources.journal.at(Array.from(Float64Array.from(unknown).sort()))) {
    const timeMs = Date.parse(recorded.time)
    let { position } = recorded
    for (const event of recorded.events) {
      if (turn.isOver) await turn.next()
      add(versions.get(position) as number, itemAfter(event, position, timeMs))
      position++
    }
    if (characters > MOST_CHARACTERS) return undefined
  }
  return { changed, gone, last }
}

function itemAfter(event: DomainEvent, position: Position, timeMs: number): Item {
  if (!('item' in event))
    throw new Corruption(`The journal has no item at position ${position}, where the store has a version of one.`)
  return new Item(event.id, event.item, event.revision, position, timeMs)
}

/** The position of the collection's last event up to `at`, apart from those of items that changed since. */
function lastUnchanged(now: PinnedCollection, at: Position, places: number, { store, history }: PastSources): Position {
  const { table, ordered } = now.facts
  const [row] = changesBetween(store, table, 0, at, { limit: 1, reverse: true })
  let last = Math.max(ordered, history.lifeOf(now.name, at) ?? 0)
  if (row) last = Math.max(last, changePosition(row))
  const range = { limit: 1, reverse: true }
  const [expiry] = store.rows(expiryKey(table, 0), expiryKey(table, at), range)
  if (expiry) last = Math.max(last, changePosition(expiry))
  const place = now.seekBack(places)
  if (place !== undefined) last = Math.max(last, now.metadataAt(place).since)
  return last
}

async function sortedKeys(keys: string[], turn: Turn): Promise<readonly Buffer[]> {
  return Array.from(await mergeSort(keys, turn), (key) => Buffer.from(key, 'latin1'))
}
