import {
  changeOfItem,
  type DomainEvent,
  existsAfter,
  type ItemChange,
  OBJECT_ID,
  type Position,
} from '../events/event.ts'
import { type Journal, positioned, type Recorded, recordAt, type StoredProjection, slice } from '../events/journal.ts'
import { Corruption, type Refusal } from '../runtime/errors.ts'
import {
  HIGHEST,
  itemEventKey,
  numberedKey,
  POSITION_BYTES,
  positionOf,
  putPosition,
  type Row,
  type RowsOptions,
  TAG,
} from '../store/keys.ts'
import type { Views } from './views.ts'

/** Positions of an item's events that are looked up together. */
const AT_ONCE = 64

/** One of so many events has a row with its time. */
const TIMED_EVENTS = 16
const NOTHING = Buffer.alloc(0)

const LIFE = { removed: Buffer.from([0]), created: Buffer.from([1]) }

/**
 * Finds the events of each item, and the lifetime of each collection. The item itself, existing, deleted or expired, has the
 * positions of its last two events. Earlier ones have rows (collection-writer.ts), each with the position of the next event. Format 5 has a row for
 * the last but one, too, which is not read.
 */
export class History implements StoredProjection {
  readonly #views: Views

  constructor(views: Views) {
    this.#views = views
  }

  store(event: DomainEvent, position: Position, { time }: Recorded): void {
    const { store } = this.#views
    if (position % TIMED_EVENTS === 0) store.set(timeKey(Date.parse(time), position), NOTHING)
    const exists = event.type === 'IdsReset' ? this.existed(event.collection, position) : existsAfter(event)
    if (exists === undefined) return
    const number = this.#views.numberOf(event.collection) as number
    store.set(lifeKey(number, position), exists ? LIFE.created : LIFE.removed)
  }

  /**
   * A position up to which no event is later than an instant, and one after which all are: less than TIMED_EVENTS apart,
   * except where an earlier version has stored events without their times.
   */
  around(ms: number): { readonly low: Position; readonly high: Position } {
    // No key is negative.
    if (ms < 0) return { low: 0, high: HIGHEST }
    const { store } = this.#views
    const [before] = store.rows(timeKey(0, 0), timeKey(ms, HIGHEST), { reverse: true, limit: 1 })
    const [after] = store.rows(timeKey(ms + 1, 0), timeKey(HIGHEST, HIGHEST), { limit: 1 })
    return { low: before ? keyPosition(before) : 0, high: after ? keyPosition(after) - 1 : HIGHEST }
  }

  existed(collection: string, at: Position): boolean {
    return this.#lifeAt(collection, at)?.value.equals(LIFE.created) === true
  }

  /** Whether it was a single object right after an event. It must have existed. */
  wasObject(collection: string, at: Position): boolean {
    const last = this.#lastEvents(collection, OBJECT_ID)?.position ?? 0
    const position = last <= at ? last : (this.earlierOf(collection, OBJECT_ID, at) ?? 0)
    return position > 0 && position >= (this.lifeOf(collection, at) ?? 0)
  }

  /** The last position up to `at` at which a collection was created or removed, or its ids were reset. */
  lifeOf(collection: string, at: Position): Position | undefined {
    const life = this.#lifeAt(collection, at)
    return life && keyPosition(life)
  }

  /** The positions of a collection's first and last event; undefined if it never existed. */
  reachOf(collection: string): { readonly first: Position; readonly last: Position } | undefined {
    const number = this.#views.numberOf(collection)
    const last = this.#views.any(collection)?.position
    if (number === undefined || last === undefined) return undefined
    const [life] = this.#views.store.rows(lifeKey(number, 0), lifeKey(number, HIGHEST), { limit: 1 })
    return life && { first: keyPosition(life), last }
  }

  /** The collections that ever had an item with this key. */
  collectionsOf(key: string): readonly string[] {
    return this.#views.namesEver().filter((name) => this.#views.any(name)?.get(key))
  }

  /** The events of an item between two positions, both inclusive, in order, each with its own position. */
  async *eventsOf(
    journal: Pick<Journal, 'at'>,
    collection: string,
    key: string,
    from: Position,
    to: Position,
  ): AsyncGenerator<Recorded> {
    /** The position of the event before. */
    let before: Position | undefined
    for (let next = from, isLast = false; !isLast; ) {
      const positions = this.#positions(collection, key, next, to)
      for await (const found of journal.at(positions)) {
        for (const [position] of positioned(found)) {
          const one = slice(found, position, position)
          const { prior } = itemChangeIn(one, key)
          if (prior >= Math.max(1, from) && prior !== before) throw this.#lostEvent(collection, key, prior)
          yield one
          before = position
        }
      }
      next = (positions.at(-1) ?? to) + 1
      isLast = positions.length < AT_ONCE
    }
  }

  /** Where an item's last events up to a position begin, at most so many; undefined if there is none. */
  startOfLast(collection: string, key: string, count: number, at: Position): Position | undefined {
    const item = this.#lastEvents(collection, key)
    if (!item) return undefined
    const most = Math.min(count, AT_ONCE)
    const last = [item.position, item.prior].filter((position) => position > 0 && position <= at).slice(0, most)
    const limit = most - last.length
    // Downwards, the first bound is inclusive.
    const end = Math.min(at, item.prior - 1)
    const earlier = limit > 0 && end > 0 ? this.#rows(collection, key, 0, end, { reverse: true, limit }) : []
    const start = earlier.at(-1)
    return start ? keyPosition(start) : last.at(-1)
  }

  /** An item's last event up to a position. */
  async lastEventOf(
    journal: Pick<Journal, 'at'>,
    collection: string,
    key: string,
    at: Position,
  ): Promise<{ readonly event: ItemChange; readonly position: Position } | undefined> {
    const last = this.#lastEvents(collection, key)?.position
    if (last === undefined) return undefined
    const position = last <= at ? last : this.earlierOf(collection, key, at)
    if (position !== undefined) return { event: itemChangeIn(await recordAt(journal, position), key), position }
    // The next event must be the item's first one.
    const [next = last] = this.#positions(collection, key, at + 1, last)
    const { prior } = itemChangeIn(await recordAt(journal, next), key)
    if (prior > 0) throw this.#lostEvent(collection, key, prior)
    return undefined
  }

  /** The position of the last event up to `at` of an item that changed after it; undefined if there is none. */
  earlierOf(collection: string, key: string, at: Position): Position | undefined {
    const prior = this.#lastEvents(collection, key)?.prior ?? 0
    if (prior === 0) return undefined
    if (prior <= at) return prior
    // Downwards, the first bound is inclusive.
    const [row] = this.#rows(collection, key, 0, at, { reverse: true, limit: 1 })
    if (!row) return undefined
    const next = positionOf(row.value)
    if (next <= at) throw this.#lostEvent(collection, key, next)
    return keyPosition(row)
  }

  /** The positions of an item's first events between two positions, both inclusive: at most AT_ONCE. */
  #positions(collection: string, key: string, from: Position, to: Position): readonly Position[] {
    const item = this.#lastEvents(collection, key)
    if (!item || item.position < from) return []
    const { prior, position } = item
    // A write that is being stored in parts has rows that are not to be seen yet.
    const end = Math.min(to + 1, prior)
    const earlier = from < end ? this.#rows(collection, key, from, end, { limit: AT_ONCE }).map(keyPosition) : []
    const last = [prior, position].filter((one) => one > 0 && one >= from && one <= to)
    return [...earlier, ...last].slice(0, AT_ONCE)
  }

  #rows(collection: string, key: string, start: Position, end: Position, options: RowsOptions): readonly Row[] {
    const number = this.#views.numberOf(collection)
    if (number === undefined) return []
    return this.#views.store.rows(itemEventKey(number, key, start), itemEventKey(number, key, end), options)
  }

  #lostEvent(collection: string, key: string, position: Position): Refusal {
    return this.#views.store.damage(
      new Corruption(`The store lacks the event of ${collection}/${key} at position ${position}.`),
    )
  }

  #lastEvents(collection: string, key: string): { readonly position: Position; readonly prior: Position } | undefined {
    return this.#views.any(collection)?.lastEventsOf(key)
  }

  #lifeAt(collection: string, at: Position): Row | undefined {
    const number = this.#views.numberOf(collection)
    if (number === undefined) return undefined
    const [life] = this.#views.store.rows(lifeKey(number, 0), lifeKey(number, at), { reverse: true, limit: 1 })
    return life
  }
}

/** The position with which the key of a row ends. */
function keyPosition({ key }: Row): Position {
  return positionOf(key, key.length - POSITION_BYTES)
}

function positionBytes(position: Position): Buffer {
  const bytes = Buffer.allocUnsafe(POSITION_BYTES)
  putPosition(bytes, 0, position)
  return bytes
}

function timeKey(ms: number, position: Position): Buffer {
  const time = Math.min(Math.max(0, ms), HIGHEST)
  return Buffer.concat([numberedKey(TAG.time, 0, time), positionBytes(position)])
}

function lifeKey(collection: number, position: Position): Buffer {
  return numberedKey(TAG.life, collection, position)
}

/** The effect of a record, which has a single event, on an item. */
function itemChangeIn({ events }: Recorded, key: string): ItemChange {
  return changeOfItem(events.at(0) as DomainEvent, key) as ItemChange
}
