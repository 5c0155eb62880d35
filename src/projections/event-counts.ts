import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type DomainEvent, EVENT_TYPES, type Position } from '../events/event.ts'
import { type Journal, lastPosition, positioned, type Recorded } from '../events/journal.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import {
  HIGHEST,
  numberedKey,
  POSITION_BYTES,
  PREFIX_BYTES,
  positionOf,
  putPosition,
  TAG,
  tableKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/** A length of the buckets of time in which events are counted, in milliseconds, with the table of its rows. */
export interface Bucket {
  readonly ms: number
  readonly table: number
}

/** The local clocks of all time zones are whole quarters of an hour from UTC. */
export const BUCKETS = {
  minute: { ms: 60_000, table: 1 },
  quarter: { ms: 15 * 60_000, table: 2 },
} as const satisfies Readonly<Record<string, Bucket>>

/** A longer actor is replaced by its hash in the key, and follows the counts. */
const MOST_ACTOR_BYTES = 256
/** Behind the start of the bucket in a key: the number of the collection and the type. */
const GROUP_BYTES = 5
/** The value: the position of the last event, and the number of events. */
const VALUE_BYTES = 2 * POSITION_BYTES
const ROWS_AT_ONCE = 256
/** Earlier events are read for so long, then their counts are stored. */
const STEP_MS = 5

/** The events of one group in one bucket. */
export interface EventCount {
  /** When the bucket begins, in milliseconds since 1970. */
  readonly startMs: number
  /** The number of the collection in the store. */
  readonly collection: number
  readonly type: DomainEvent['type']
  readonly actor: string
  readonly count: number
}

/** Events that are not counted: those after one position, up to another one. */
interface Uncounted {
  readonly after: Position
  readonly upTo: Position
}

/**
 * The numbers of events by time, collection, type and actor, in the transactions that store the events. The rows have
 * versions, so that a reader sees the counts at a pinned position. A store of format 6 has none: its events are counted
 * in the background.
 *
 * | Events | By | Counted |
 * |---|---|---|
 * | being stored | `add` | with `save`, at the end of their transaction, or not at all after `rollBack` |
 * | stored by an earlier version | `countEarlier`, in the background | in steps; `check` throws until the last one |
 */
export class EventCounts {
  readonly #store: Store
  #gathered = new Gathered()
  #uncounted: Uncounted
  /** Whether the store has `#uncounted`. */
  #isSaved: boolean
  #isEnded = false

  /** @param applied the position of the last event in the store */
  constructor(store: Store, applied: Position) {
    this.#store = store
    const saved = store.newest(UNCOUNTED)
    this.#isSaved = saved !== undefined
    this.#uncounted = saved
      ? { after: positionOf(saved), upTo: positionOf(saved, POSITION_BYTES) }
      : { after: 0, upTo: applied }
  }

  /** The number of events that are to be counted. */
  get left(): number {
    return this.#uncounted.upTo - this.#uncounted.after
  }

  /** Whether all stored events are counted. */
  get isComplete(): boolean {
    return this.left === 0
  }

  /** @throws {Refusal} `Unavailable` until all events are counted */
  check(): void {
    if (this.isComplete) return
    const { after, upTo } = this.#uncounted
    throw new Refusal('Unavailable', `The events are being counted for the first time: ${after} of ${upTo} are.`)
  }

  /** Counts an event of the collection with this number. */
  add(event: DomainEvent, collection: number, position: Position, { actor }: Recorded, timeMs: number): void {
    this.#gathered.add(event.type, collection, position, actor, timeMs)
  }

  /** In a transaction. */
  save(): void {
    if (!this.#isSaved) this.#saveUncounted(this.#uncounted)
    this.#write(this.#gathered)
    this.#isSaved = true
    this.#gathered = new Gathered()
  }

  /** The transaction failed. Its events are added again. */
  rollBack(): void {
    this.#gathered = new Gathered()
    this.#isSaved = this.#store.newest(UNCOUNTED) !== undefined
  }

  /** Counts the events that an earlier version stored. `transact` runs a transaction, and waits for space on the disk. */
  async countEarlier(
    journal: Pick<Journal, 'read'>,
    numberOf: (collection: string) => number | undefined,
    transact: (work: () => void) => Promise<void>,
  ): Promise<void> {
    const { after, upTo } = this.#uncounted
    if (this.isComplete) return
    let gathered = new Gathered()
    let began = performance.now()
    const store = async (counted: Position): Promise<void> => {
      if (this.#isEnded) throw new Ended()
      await transact(() => {
        this.#write(gathered)
        this.#saveUncounted({ after: counted, upTo })
      })
      this.#uncounted = { after: counted, upTo }
      this.#isSaved = true
      gathered = new Gathered()
      await (this.#store.rest() ?? setImmediate())
      began = performance.now()
    }
    for await (const recorded of journal.read(after + 1, upTo)) {
      const timeMs = Date.parse(recorded.time)
      for (const [position, event] of positioned(recorded)) {
        gathered.add(event.type, numberOf(event.collection) as number, position, recorded.actor, timeMs)
      }
      if (performance.now() - began >= STEP_MS) await store(lastPosition(recorded))
    }
    await store(upTo)
  }

  /** `countEarlier` ends soon. */
  end(): void {
    this.#isEnded = true
  }

  /** The counts of the buckets that begin from one instant to before another, in order, at a pinned position. */
  *between(bucket: Bucket, fromMs: number, toMs: number, at: Position): Generator<EventCount> {
    const start = Math.min(Math.max(0, fromMs), HIGHEST)
    const end = Math.min(Math.max(start, toMs), HIGHEST)
    const behind = numberedKey(TAG.time, bucket.table, end)
    for (let from = numberedKey(TAG.time, bucket.table, start); ; ) {
      const rows = this.#store.rows(from, behind, { limit: ROWS_AT_ONCE })
      for (const { key, value } of rows) {
        const seen = positionOf(value) <= at ? value : this.#store.versions.find(key, at)
        if (seen) yield countOf(key, seen)
      }
      const last = rows.at(-1)
      if (!last || rows.length < ROWS_AT_ONCE) return
      from = Buffer.concat([last.key, Buffer.alloc(1)])
    }
  }

  #write(gathered: Gathered): void {
    for (const one of gathered.all()) for (const bucket of Object.values(BUCKETS)) this.#increase(bucket, one)
  }

  #increase(bucket: Bucket, { startMs, collection, type, actor, count, position }: GatheredCount): void {
    const text = Buffer.from(actor)
    const isLong = text.length > MOST_ACTOR_BYTES
    const start = numberedKey(TAG.time, bucket.table, startOf(bucket, startMs))
    const group = Buffer.allocUnsafe(GROUP_BYTES)
    group.writeUInt32BE(collection)
    group[GROUP_BYTES - 1] = EVENT_TYPES.indexOf(type)
    const key = Buffer.concat([start, group, isLong ? hash('sha256', text, 'buffer') : text])
    const before = this.#store.newest(key)
    const value = Buffer.allocUnsafe(VALUE_BYTES)
    // Earlier events may be counted after later ones.
    putPosition(value, 0, Math.max(position, before ? positionOf(before) : 0))
    putPosition(value, POSITION_BYTES, count + (before ? positionOf(before, POSITION_BYTES) : 0))
    this.#store.write(key, isLong ? Buffer.concat([value, text]) : value)
  }

  #saveUncounted({ after, upTo }: Uncounted): void {
    const row = Buffer.allocUnsafe(2 * POSITION_BYTES)
    putPosition(row, 0, after)
    putPosition(row, POSITION_BYTES, upTo)
    this.#store.set(UNCOUNTED, row)
  }
}

/** The row of `Uncounted`. */
const UNCOUNTED = tableKey(TAG.state, 2)

/** Where the group begins in a key: behind the start of the bucket. */
const GROUP_AT = PREFIX_BYTES + POSITION_BYTES

/** The number of the collection in the key of a count. */
export function collectionOf(key: Buffer): number {
  return key.readUInt32BE(GROUP_AT)
}

/** The key of the same count in a store where the collection has another number. */
export function withCollection(key: Buffer, number: number): Buffer {
  const other = Buffer.from(key)
  other.writeUInt32BE(number, GROUP_AT)
  return other
}

export function startOf({ ms }: Bucket, timeMs: number): number {
  return Math.floor(timeMs / ms) * ms
}

function countOf(key: Buffer, value: Buffer): EventCount {
  const isLong = value.length > VALUE_BYTES
  return {
    startMs: positionOf(key, PREFIX_BYTES),
    collection: collectionOf(key),
    type: EVENT_TYPES[key[GROUP_AT + GROUP_BYTES - 1] as number] as DomainEvent['type'],
    actor: isLong ? value.toString('utf8', VALUE_BYTES) : key.toString('utf8', GROUP_AT + GROUP_BYTES),
    count: positionOf(value, POSITION_BYTES),
  }
}

interface GatheredCount extends EventCount {
  count: number
  /** That of the last event. */
  position: Position
}

/** Counts by minute that are not stored yet. */
class Gathered {
  readonly #counts = new Map<string, GatheredCount>()
  /** The last count, since most events are of the same group as the one before. */
  #last: GatheredCount | undefined

  add(type: DomainEvent['type'], collection: number, position: Position, actor: string, timeMs: number): void {
    // No key is negative.
    const startMs = startOf(BUCKETS.minute, Math.max(0, timeMs))
    const last = this.#last
    const isSame = last?.startMs === startMs && last.type === type && last.collection === collection
    const found = isSame && last.actor === actor ? last : this.#find(type, collection, actor, startMs)
    found.count++
    found.position = position
    this.#last = found
  }

  all(): Iterable<GatheredCount> {
    return this.#counts.values()
  }

  #find(type: DomainEvent['type'], collection: number, actor: string, startMs: number): GatheredCount {
    const name = `${startMs} ${collection} ${type} ${actor}`
    const known = this.#counts.get(name) ?? { startMs, collection, type, actor, count: 0, position: 0 }
    this.#counts.set(name, known)
    return known
  }
}
