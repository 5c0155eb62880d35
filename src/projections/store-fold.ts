import { evolve, evolveItem } from '../collections/collection.ts'
import { CollectionWriter, storedCollections, type TableObserver } from '../collections/collection-writer.ts'
import { decodeItem, isItem } from '../collections/item.ts'
import type { LeastTimes } from '../collections/least-times.ts'
import type { NaturalKeys } from '../collections/natural-keys.ts'
import type { Checkpoint } from '../events/checkpoint.ts'
import {
  type DomainEvent,
  existsAfter,
  type ItemChange,
  isCreation,
  itemChanges,
  type Position,
} from '../events/event.ts'
import { lastPosition, type Recorded, type StoredProjection } from '../events/journal.ts'
import type { SegmentSpan } from '../events/segment.ts'
import { Document } from '../json/document.ts'
import type { StoredIndexes } from '../query/index/stored-indexes.ts'
import { numberedKey, POSITION_BYTES, positionOf, prefixEnd, putPosition, TAG, tableKey } from '../store/keys.ts'
import type { Pin, Store } from '../store/store.ts'
import type { EventCounts } from './event-counts.ts'

/** The progress of the store. */
export interface StoredState {
  /** Position of the last stored event; its write may have more. */
  readonly applied: Position
  /** Position of the last event that readers see: the last one of a write. */
  readonly visible: Position
  /** Position of the last event that created or removed a collection. */
  readonly names: Position
  /** The number of the next collection or table. */
  readonly next: number
  /** The time of the last write that received something: one that is not an expiry. In milliseconds since 1970. */
  readonly receivedMs?: number
  /** Since a jump of that time by more than JUMP_MS, until the next expiry, or confirmation of one. */
  readonly jump?: TimeJump | undefined
}

/** A jump of the time of receipt, in milliseconds since 1970: the clock was wrong, or nothing was received meanwhile. */
export interface TimeJump {
  readonly fromMs: number
  readonly toMs: number
}

export const JUMP_MS = 24 * 60 * 60 * 1000

interface StoreFoldOptions {
  readonly store: Store
  readonly projections: readonly StoredProjection[]
  readonly indexes: StoredIndexes
  readonly naturalKeys: NaturalKeys
  readonly leastTimes: LeastTimes
  readonly counts: EventCounts
  /** Stores additional data with the state, in its transaction. */
  readonly save: (state: StoredState) => void
  readonly wants?: ((event: DomainEvent) => boolean) | undefined
  /** Called after a commit to make changes visible. */
  readonly show: (writers: Iterable<readonly [number, CollectionWriter]>) => void
}

const BEGINNING: StoredState = { applied: 0, visible: 0, names: 0, next: 1 }

/**
 * Processor time that a transaction may take, in µs, while requests wait. Larger ones are cheaper: events that follow
 * each other change the same pages and nodes, and readers need versions of what a write changes in several of them.
 */
export const SHORT_MICROSECONDS = 10_000
/** The approximate cost of storing an item, and what each index of its collection adds. */
const MICROSECONDS = {
  created: { item: 4, index: 5 },
  changed: { item: 16, index: 21 },
  deleted: { item: 14, index: 5 },
}
/** Characters of an item that take a microsecond more. */
const CHARACTERS = 256

export function storedState(store: Store): StoredState {
  const found = store.newest(tableKey(TAG.state, 0))
  return found ? (JSON.parse(found.toString('utf8', 0, found.length)) as StoredState) : BEGINNING
}

/** Applies the writes of the journal to the collections in the store. */
export class StoreFold {
  readonly #options: StoreFoldOptions
  readonly #observers: readonly TableObserver[]
  /** The last committed state. */
  #state: StoredState
  /** The state after the events that were stored since. */
  #now: { -readonly [Key in keyof StoredState]: StoredState[Key] }
  /** The numbers of the collections, by name. */
  readonly #numbers = new Map<string, number>()
  /** By number of the collection. */
  readonly #writers = new Map<number, CollectionWriter>()
  /** Those with changes that are not visible yet. */
  readonly #touched = new Map<number, CollectionWriter>()
  #pin: Pin | undefined
  /** Position of the last event that readers see. */
  #shown: Position

  constructor(options: StoreFoldOptions) {
    this.#options = options
    // Natural keys ask the indexes about the same change.
    this.#observers = [options.indexes, options.naturalKeys, options.leastTimes]
    this.#state = storedState(options.store)
    this.#now = { ...this.#state }
    this.#shown = this.#state.visible
    this.#reset()
  }

  get state(): StoredState {
    return this.#state
  }

  numberOf(name: string): number | undefined {
    return this.#numbers.get(name)
  }

  /**
   * Stores writes, one transaction per step, of at most so many microseconds each; they become visible with `show`.
   * Skips what the store already has, so that it can be repeated after a failure.
   */
  *store(batch: readonly Recorded[], most: number): Generator<undefined, void> {
    const steps = this.#steps(batch)
    while (!this.#transaction(steps, most)) yield
  }

  /** As `store`, with readers: between two transactions they see the state before the batch. */
  *storeRead(batch: readonly Recorded[]): Generator<undefined, void> {
    if (this.#takesSeveral(batch)) this.#pin ??= this.#options.store.pin(this.#shown)
    yield* this.store(batch, SHORT_MICROSECONDS)
  }

  /** Makes all stored writes visible. */
  show(): void {
    this.#shown = this.#state.visible
    this.#options.show(this.#touched)
    for (const writer of this.#touched.values()) writer.markVisible()
    this.#touched.clear()
    this.#pin?.release()
    this.#pin = undefined
  }

  /** Returns whether it was the last transaction. */
  #transaction(steps: Generator<number, void>, most: number): boolean {
    const { store, save, indexes, naturalKeys, leastTimes, counts } = this.#options
    let isDone = false
    let state = this.#state
    try {
      store.transaction(() => {
        // The bound is that of `#takesSeveral`: only several transactions are pinned.
        for (let microseconds = 0; microseconds <= most && !isDone; ) {
          const step = steps.next()
          isDone = step.done === true
          microseconds += step.value ?? 0
        }
        for (const writer of this.#touched.values()) writer.save()
        leastTimes.save()
        state = { ...this.#now }
        naturalKeys.save()
        indexes.save(state.applied)
        counts.save()
        store.set(tableKey(TAG.state, 0), Buffer.from(JSON.stringify(state)))
        save(state)
      })
    } catch (error) {
      naturalKeys.rollBack()
      indexes.rollBack()
      leastTimes.rollBack()
      counts.rollBack()
      this.#reset()
      throw error
    }
    this.#state = state
    indexes.commit()
    return isDone
  }

  /** Each step makes a small change and yields about how many microseconds it takes. */
  *#steps(batch: readonly Recorded[]): Generator<number, void> {
    const { projections, wants, counts } = this.#options
    for (const recorded of batch) {
      const last = lastPosition(recorded)
      // An earlier attempt has stored it, or, further below, a part of it.
      if (last <= this.#now.applied) continue
      const timeMs = Date.parse(recorded.time)
      let position = recorded.position - 1
      for (const event of recorded.events) {
        position++
        if (position <= this.#now.applied || wants?.(event) === false) continue
        const writer = this.#writerOf(event.collection)
        if (event.type === 'CollectionOrdered') yield* this.#reorder(writer, event, position, timeMs)
        else if (event.type === 'ItemsExpired') {
          // An expiry that was stored in part is stored again: items that are gone are passed over.
          for (const change of itemChanges(event)) {
            evolveItem(writer.facts, writer, change, position, timeMs)
            yield this.#microsecondsOf(change, writer)
          }
          writer.noteExpiry(event, position)
        } else {
          if (existsAfter(event) !== undefined) this.#now.names = position
          evolve(writer.facts, writer, event, position, timeMs)
        }
        writer.facts.position = position
        counts.add(event, this.#numbers.get(event.collection) as number, position, recorded, timeMs)
        for (const projection of projections) projection.store(event, position, recorded)
        this.#now.applied = position
        if (position < last) yield this.#microsecondsOf(event, writer)
      }
      this.#noteReceipt(recorded, timeMs)
      this.#now.applied = last
      this.#now.visible = last
      const event = recorded.events.at(-1)
      yield event ? this.#microsecondsOf(event, this.#writerOf(event.collection)) : 0
    }
  }

  #noteReceipt({ events }: Recorded, timeMs: number): void {
    const { receivedMs, jump } = this.#now
    if (events.at(-1)?.type === 'ItemsExpired') {
      this.#now.jump = undefined
      return
    }
    const isJump = receivedMs !== undefined && timeMs - receivedMs > JUMP_MS
    if (isJump && !jump) this.#now.jump = { fromMs: receivedMs, toMs: timeMs }
    this.#now.receivedMs = timeMs
  }

  *#reorder(
    writer: CollectionWriter,
    { collection, ids }: Extract<DomainEvent, { type: 'CollectionOrdered' }>,
    position: Position,
    timeMs: number,
  ): Generator<number, void> {
    const { indexes, naturalKeys } = this.#options
    const table = this.#now.next++
    // The natural keys of the items so far are read from their rows.
    writer.save()
    naturalKeys.began(collection, table, position)
    const costs = MICROSECONDS.changed.item + indexes.of(table).length * MICROSECONDS.created.index
    for (const moved of writer.reorder(ids, table, position)) {
      const item = moved && indexes.isObserved(table) ? decodeItem(moved.record) : undefined
      if (moved && isItem(item)) {
        const { key, place } = moved
        indexes.changed({ table, collection, place, key, before: undefined, after: new Document(item.text), timeMs })
      }
      yield costs
    }
  }

  /** Resets to the last committed state. */
  #reset(): void {
    const { store } = this.#options
    const { applied } = this.#state
    this.#now = { ...this.#state }
    this.#writers.clear()
    this.#touched.clear()
    this.#numbers.clear()
    for (const [number, facts] of storedCollections(store)) {
      this.#numbers.set(facts.name, number)
      const writer = new CollectionWriter(store, number, facts, this.#observers)
      this.#writers.set(number, writer)
      if (applied > this.#shown) this.#touched.set(number, writer.withUnknownGaps())
    }
    // The last process ended within a large write, or this one failed within it: readers do not see its part.
    if (applied > this.#shown) this.#pin ??= store.pin(this.#shown)
  }

  /** Whether writes need several transactions. */
  #takesSeveral(batch: readonly Recorded[]): boolean {
    let microseconds = 0
    for (const { events } of batch) {
      for (const event of events) {
        // The size of a reordering is unknown.
        if (event.type === 'CollectionOrdered') return true
        const writer = this.#writers.get(this.#numbers.get(event.collection) ?? 0)
        if (event.type !== 'ItemsExpired') microseconds += this.#microsecondsOf(event, writer)
        else for (const change of itemChanges(event)) microseconds += this.#microsecondsOf(change, writer)
        if (microseconds > SHORT_MICROSECONDS) return true
      }
    }
    return false
  }

  #microsecondsOf(event: DomainEvent | ItemChange, writer: CollectionWriter | undefined): number {
    const kind = isCreation(event) ? 'created' : 'item' in event ? 'changed' : 'deleted'
    const { item, index } = MICROSECONDS[kind]
    const indexes = writer ? this.#options.indexes.of(writer.facts.table).length : 0
    return item + indexes * index + ('item' in event ? event.item.text.length / CHARACTERS : 0)
  }

  #writerOf(name: string): CollectionWriter {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = this.#now.next++
      this.#numbers.set(name, number)
      const facts = { name, table: number, exists: false, isObject: false, nextId: 0, unusedId: 0, textIds: 0 }
      const noItems = { position: 0, size: 0, places: 0, ordered: 0, firstId: undefined, rule: undefined }
      const { store, naturalKeys } = this.#options
      this.#writers.set(number, new CollectionWriter(store, number, { ...facts, ...noItems }, this.#observers))
      naturalKeys.began(name, number, this.#now.applied)
    }
    const writer = this.#writers.get(number) as CollectionWriter
    this.#touched.set(number, writer)
    return writer
  }
}

/** An indexed record: its position, and its offset. */
const RECORD_BYTES = 2 * POSITION_BYTES

/** The row of a checkpoint: without its whole segments, and without the index of the last one. */
interface CheckpointRow extends Omit<Checkpoint, 'segments'>, Omit<SegmentSpan, 'index'> {
  /** How many records of its index are stored. */
  readonly records: number
}

/** Stores the last checkpoint of the journal: a row for each whole segment, and one for each indexed record of the last. */
export class StoredCheckpoint {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * In a transaction. Segments that are stored already are not written again. The stored state is read each time, as
   * the previous transaction may have been rolled back.
   */
  save({ segments, ...end }: Checkpoint): void {
    const last = segments.at(-1) as SegmentSpan
    const stored = this.#stored()
    const from = segments.findLastIndex(({ first }) => first === stored?.first)
    if (from !== segments.length - 1) {
      for (const segment of segments.slice(Math.max(0, from), -1)) this.#saveSegment(segment)
    }
    const { positions, offsets } = last.index
    for (let at = last.first === stored?.first ? stored.records : 0; at < positions.length; at++) {
      const position = positions[at] as Position
      this.#store.set(numberedKey(TAG.record, 0, position), encodeIndexed(position, offsets[at] as number))
    }
    const text = JSON.stringify({
      ...end,
      first: last.first,
      size: last.size,
      records: positions.length,
    } satisfies CheckpointRow)
    this.#store.set(tableKey(TAG.segment, 0), Buffer.from(text))
  }

  /** The next `save` writes all segments again, whose borders have changed. */
  async forget(): Promise<void> {
    for (const prefix of [tableKey(TAG.segment, 0), tableKey(TAG.segment, 1), tableKey(TAG.record, 0)])
      await this.#store.clear(prefix)
  }

  load(): Checkpoint | undefined {
    const stored = this.#stored()
    if (!stored) return undefined
    const { first, size, records: _, ...end } = stored
    const prefix = tableKey(TAG.segment, 1)
    const segments: SegmentSpan[] = []
    for (const { key, value } of this.#store.rows(prefix, prefixEnd(prefix))) {
      segments.push(decodeSegment(positionOf(key, prefix.length), value))
    }
    const records = this.#store.rows(numberedKey(TAG.record, 0, first), prefixEnd(tableKey(TAG.record, 0)))
    const index = {
      positions: records.map(({ value }) => positionOf(value)),
      offsets: records.map(({ value }) => positionOf(value, POSITION_BYTES)),
    }
    return { ...end, segments: [...segments, { first, size, index }] }
  }

  #stored(): CheckpointRow | undefined {
    const found = this.#store.newest(tableKey(TAG.segment, 0))
    return found && (JSON.parse(found.toString()) as CheckpointRow)
  }

  #saveSegment({ first, size, index: { positions, offsets } }: SegmentSpan): void {
    const bytes = Buffer.allocUnsafe(POSITION_BYTES + positions.length * RECORD_BYTES)
    putPosition(bytes, 0, size)
    for (const [at, position] of positions.entries()) {
      putPosition(bytes, POSITION_BYTES + at * RECORD_BYTES, position)
      putPosition(bytes, POSITION_BYTES + at * RECORD_BYTES + POSITION_BYTES, offsets[at] as number)
    }
    this.#store.set(numberedKey(TAG.segment, 1, first), bytes)
  }
}

function encodeIndexed(position: Position, offset: number): Buffer {
  const bytes = Buffer.allocUnsafe(RECORD_BYTES)
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, offset)
  return bytes
}

function decodeSegment(first: Position, bytes: Buffer): SegmentSpan {
  const positions: Position[] = []
  const offsets: number[] = []
  for (let at = POSITION_BYTES; at < bytes.length; at += RECORD_BYTES) {
    positions.push(positionOf(bytes, at))
    offsets.push(positionOf(bytes, at + POSITION_BYTES))
  }
  return { first, size: positionOf(bytes), index: { positions, offsets } }
}
