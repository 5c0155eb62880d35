import type { List } from '../runtime/chunked-list.ts'
import { Histogram } from '../runtime/histogram.ts'
import { idBytes, textBytes } from '../runtime/memory.ts'
import type { DomainEvent, Position } from './event.ts'

/** An append-only log of events. Its guarantees are those that a distributed log can give. */
export interface Journal {
  /** The UUID of the journal. */
  readonly id: string
  /** The position of the last durable event. */
  readonly head: Position
  /** The time of that event in milliseconds since 1970; -Infinity if there is none. */
  readonly timeMs: number
  /** False for a few seconds after a write failed for lack of space; false for good after a failed sync. */
  readonly writable: boolean
  /**
   * Resolves when the events are durable and every follower has seen them.
   * @throws {Refusal} `Unavailable` when `expected` is not the next position: the write was decided on top of a failed
   * one.
   */
  append(draft: Draft): Promise<Recorded>
  /** The durable events from one position up to another (both inclusive), in order. */
  read(from: Position, to?: Position): AsyncIterable<Recorded>
  /**
   * The durable events at ascending positions, from 1 to the head, in order. Those of a write that follow each other may
   * come together.
   */
  at(positions: readonly Position[]): AsyncIterable<Recorded>
  /** Calls back with every complete write, in order, once, as soon as it is durable. */
  follow(follower: (recorded: Recorded) => void): void
  /** Waits for accepted writes, then closes the journal. */
  close(): Promise<void>
}

/** A write to be appended as a unit: all of its events become durable, or none. */
export interface Draft extends Origin {
  /** The position that the first event will have. */
  readonly expected: Position
  readonly events: List<DomainEvent>
}

/** Durable events: those of one write, or a part of them. */
export interface Recorded extends Origin {
  /** Position of the first event. */
  readonly position: Position
  /** ISO 8601, UTC, milliseconds. Never decreases; positions define the order, times do not. */
  readonly time: string
  readonly events: List<DomainEvent>
}

/** The actor of a write, and the request that asked for it. */
export interface Origin {
  readonly actor: string
  readonly requestId: string
  /** The client's Idempotency-Key. */
  readonly key?: string
  /** SHA-256 of the request, which tells a retry from another request with the same key. */
  readonly request?: string
}

/** State that is computed from the journal. */
export interface Projection {
  /** Called once with each durable write, in order, when the store has it. An error ends the process. */
  apply(recorded: Recorded): void
}

/** A projection with rows in the store. */
export interface StoredProjection {
  /**
   * Writes what an event changes, in the transaction that changes the collections. A transaction that fails is begun
   * again with the same events.
   */
  store(event: DomainEvent, position: Position, write: Recorded): void
}

/** The event at a position, with the origin and the time of its write. */
export async function recordAt(journal: Pick<Journal, 'at'>, position: Position): Promise<Recorded> {
  for await (const recorded of journal.at([position])) return recorded
  throw new Error(`the journal has no event at position ${position}`)
}

/** The events, each with its own position. */
export function* positioned({ position, events }: Recorded): Generator<readonly [Position, DomainEvent]> {
  let at = position
  for (const event of events) yield [at++, event]
}

export function lastPosition(recorded: Recorded): Position {
  return recorded.position + recorded.events.length - 1
}

/** The events of a record between two positions, both inclusive. */
export function slice<R extends Recorded>(recorded: R, from: Position, to: Position): R {
  if (recorded.position >= from && lastPosition(recorded) <= to) return recorded
  const first = Math.max(recorded.position, from)
  const events = recorded.events.slice(first - recorded.position, to - recorded.position + 1)
  return { ...recorded, position: first, events }
}

export function recordedOf(draft: Draft, time: string): Recorded {
  const { expected: position, actor, requestId, key, request, events } = draft
  if (key === undefined) return { position, time, actor, requestId, events }
  return { position, time, actor, requestId, key, ...(request !== undefined && { request }), events }
}

/** A write with more events, or that reorders more items, is large: it is stored and sent in parts. */
export const MANY_EVENTS = 2048
/** The same holds for a write of several items with more characters in total. */
const MANY_CHARACTERS = 2 * 1024 * 1024

export function isLarge(events: List<DomainEvent>): boolean {
  if (events.length > MANY_EVENTS) return true
  let characters = 0
  for (const event of events) {
    if (event.type === 'CollectionOrdered' && event.ids.length > MANY_EVENTS) return true
    if ('item' in event) characters += event.item.text.length
  }
  // One long item cannot be divided; an event may create its collection before it.
  return events.length > 2 && characters > MANY_CHARACTERS
}

/** The memory of an event besides its text and id, with and without an item, measured with Node 20. */
export const EVENT_BYTES = 180
export const DELETION_BYTES = 110
/** The memory of a run of expired items. */
const RUN_BYTES = 80

export function bytesOfEvent(event: DomainEvent): number {
  if ('item' in event) return EVENT_BYTES + textBytes(event.item.text)
  if (event.type === 'CollectionOrdered')
    return event.ids.reduce((sum: number, id) => sum + idBytes(id), DELETION_BYTES)
  if (event.type === 'ItemsExpired')
    return event.runs.reduce((sum, { id }) => sum + RUN_BYTES + idBytes(id), DELETION_BYTES)
  return 'id' in event ? DELETION_BYTES + idBytes(event.id) : DELETION_BYTES
}

/** `time = max(last time, now)`: times never decrease, even if the clock is set back. */
export function nextTime(last: string, now: Date): string {
  const time = now.toISOString()
  return time > last ? time : last
}

const PART = ':part'

/** The key of all writes of a large deletion, or of a data file's first items, but the last one (docs/journal.md, J4). */
export function partKey(key: string): string {
  return key + PART
}

export function isPartKey(key: string): boolean {
  return key.endsWith(PART)
}

/** The key itself. */
export function wholeKey(key: string): string {
  return isPartKey(key) ? key.slice(0, -PART.length) : key
}

const FLUSH_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const FLUSH_WRITES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]

/** Metrics of a journal since it was opened. */
export class JournalFigures {
  events = 0
  bytes = 0
  readonly flushSeconds = new Histogram(FLUSH_SECONDS)
  readonly flushWrites = new Histogram(FLUSH_WRITES)
  /** Writes that failed for lack of space. */
  refusedForSpace = 0
}
