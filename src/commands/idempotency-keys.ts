import { hash } from 'node:crypto'
import type { DomainEvent, Position } from '../events/event.ts'
import {
  bytesOfEvent,
  isPartKey,
  type Journal,
  lastPosition,
  type Origin,
  type Recorded,
  type StoredProjection,
  wholeKey,
} from '../events/journal.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { type Progress, Refusal } from '../runtime/errors.ts'
import type { Memory } from '../runtime/memory.ts'
import {
  numberedKey,
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type ScratchBytes,
  TAG,
  tableKey,
} from '../store/keys.ts'
import type { Store } from '../store/store.ts'

interface PendingRequest {
  readonly request: string | undefined
  readonly outcome: Promise<unknown>
}

/** Executes each request with an Idempotency-Key once. */
export class IdempotentRequests {
  readonly #completed: Pick<IdempotencyKeys, 'find'>
  readonly #now: () => Date
  readonly #pending = new Map<string, PendingRequest>()

  constructor(completed: Pick<IdempotencyKeys, 'find'>, now: () => Date) {
    this.#completed = completed
    this.#now = now
  }

  /**
   * `repeat` returns the outcome of an earlier execution. `execute` continues one that was interrupted after some of its
   * writes.
   */
  run<T>(
    origin: Origin,
    execute: (progress?: DeletionProgress) => Promise<T>,
    repeat: (first: CompletedRequest) => Promise<T>,
  ): Promise<T> {
    if (origin.key === undefined) return execute()
    const key = scopedKey(origin)
    const pending = this.#pending.get(key)
    // The same request has an outcome of the same type.
    if (pending) return rejectionIfOther(origin, pending) ?? (pending.outcome as Promise<T>)
    const known = this.#completed.find(origin, this.#now())
    const rejection = known && rejectionIfOther(origin, known)
    if (rejection) return rejection
    if (known && !known.isPart) return repeat(known)
    const outcome = execute(known?.progress)
    this.#pending.set(key, { request: origin.request, outcome })
    const done = () => this.#pending.delete(key)
    outcome.then(done, done)
    return outcome
  }
}

function rejectionIfOther(origin: Origin, first: { readonly request: string | undefined }): Promise<never> | undefined {
  if (origin.request === first.request) return undefined
  return Promise.reject(
    new Refusal('Unprocessable', 'This Idempotency-Key was used with another request; a new request needs a new key.'),
  )
}

/** A request with an Idempotency-Key, of which a write is durable. */
export interface CompletedRequest {
  /** SHA-256 of the request. */
  readonly request: string
  /** Position of its last event. */
  readonly position: Position
  /** Only set for a deletion in several writes. */
  readonly progress?: DeletionProgress
  /** The request has more writes, which were not made yet. */
  readonly isPart?: boolean
}

/** The effect of the writes of a deletion. */
export interface DeletionProgress extends Progress {
  /** Position of the first event. */
  readonly from: Position
  /** How many ids the response lists: those of the first write, at most LISTED_IDS. */
  readonly listed: number
}

export const LISTED_IDS = 1000

export const NOTHING_DELETED: DeletionProgress = { from: 0, listed: 0, deleted: 0, writes: 0 }

/** The progress after a further write. */
export function withWrite(
  { from, listed, deleted: before, writes }: DeletionProgress,
  { position, events }: Pick<Recorded, 'position' | 'events'>,
): DeletionProgress {
  const deleted = events.length - (events.at(-1)?.type === 'CollectionRemoved' ? 1 : 0)
  if (writes === 0) return { from: position, listed: Math.min(deleted, LISTED_IDS), deleted, writes: 1 }
  return { from, listed, deleted: before + deleted, writes: writes + 1 }
}

/** How long a retry gets the first response again. */
const REMEMBERED_MS = 24 * 60 * 60 * 1000

/** Expired keys deleted by one write: deleting a million at once would block the event loop. */
const FORGOTTEN_AT_ONCE = 100

/** A projection of the journal: the Idempotency-Keys of the last day, with their requests. */
export class IdempotencyKeys implements StoredProjection {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  store(_: DomainEvent, position: Position, recorded: Recorded): void {
    const { key, request } = recorded
    if (position !== lastPosition(recorded) || key === undefined || request === undefined) return
    const timeMs = Date.parse(recorded.time)
    const isPart = isPartKey(key)
    const row = rowKey({ ...recorded, key: wholeKey(key) })
    const before = this.#partBefore(row, request, timeMs)
    const progress = (isPart || before) && { progress: withWrite(before?.progress ?? NOTHING_DELETED, recorded) }
    if (before) this.#store.remove(numberedKey(TAG.requestTime, 0, before.position))
    this.#store.set(row, encode({ request, position, timeMs, ...progress, isPart }))
    this.#store.set(numberedKey(TAG.requestTime, 0, position), row)
    this.#forget(timeMs)
  }

  find(origin: Origin, now: Date): CompletedRequest | undefined {
    return this.#remembered(rowKey(origin), now.getTime())
  }

  /** The row of the earlier writes of a request. */
  #partBefore(row: Buffer, request: string, timeMs: number): CompletedRequest | undefined {
    const before = this.#remembered(row, timeMs)
    return before?.isPart && before.request === request ? before : undefined
  }

  #remembered(row: Buffer, nowMs: number): CompletedRequest | undefined {
    const found = this.#store.newest(row)
    if (!found) return undefined
    const { timeMs, ...completed } = decode(found)
    return nowMs - timeMs < REMEMBERED_MS ? completed : undefined
  }

  #forget(timeMs: number): void {
    const prefix = tableKey(TAG.requestTime, 0)
    // Each row has the position of a write, and the key of the row of its request.
    const oldest = this.#store.rows(prefix, prefixEnd(prefix), { limit: FORGOTTEN_AT_ONCE })
    for (const { key: positionKey, value: key } of oldest) {
      const found = this.#store.newest(key)
      const completed = found && decode(found)
      const isItsOwn = completed?.position === positionOf(positionKey, prefix.length)
      if (completed && isItsOwn && timeMs - completed.timeMs < REMEMBERED_MS) return
      this.#store.remove(positionKey)
      // A key that was used again since is kept.
      if (isItsOwn) this.#store.remove(key)
    }
  }
}

interface TimedRequest extends CompletedRequest {
  readonly timeMs: number
}

function rowKey(origin: Origin): Buffer {
  return Buffer.concat([tableKey(TAG.request, 0), hash('sha256', scopedKey(origin), 'buffer')])
}

/** The request of a deletion in several writes is followed by a line with its progress. */
function encode({ request, position, timeMs, progress, isPart }: TimedRequest): Buffer {
  const text = progress ? `${request}\n${JSON.stringify({ progress, isPart })}` : request
  const bytes = Buffer.allocUnsafe(2 * POSITION_BYTES + Buffer.byteLength(text))
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, timeMs)
  bytes.write(text, 2 * POSITION_BYTES)
  return bytes
}

function decode(bytes: ScratchBytes): TimedRequest {
  const [request = '', parts] = bytes.toString('utf8', 2 * POSITION_BYTES, bytes.length).split('\n')
  return {
    request,
    position: positionOf(bytes),
    timeMs: positionOf(bytes, POSITION_BYTES),
    ...(parts !== undefined && (JSON.parse(parts) as Pick<CompletedRequest, 'progress' | 'isPart'>)),
  }
}

/** The key with its actor: actors do not share keys. */
function scopedKey({ actor, key }: Origin): string {
  return `${actor}\n${key}`
}

/** Events read at first; ten times as many each time the write turns out to begin earlier. */
const FIRST_READ = 1024

/** All events of the write that ends at a position. A write does not record where it began, so reading begins ever earlier. */
export async function eventsOfWrite(
  journal: Pick<Journal, 'read'>,
  position: Position,
  memory: Memory,
): Promise<List<DomainEvent>> {
  for (let count = FIRST_READ; ; count *= 10) {
    const from = Math.max(1, position - count + 1)
    let last: Recorded | undefined
    let events = new ChunkedList<DomainEvent>()
    let begins = 0
    for await (const recorded of journal.read(from, position)) {
      if (!last || !isOfWrite(recorded, last)) {
        memory.release()
        events = new ChunkedList()
        begins = recorded.position
      }
      last = recorded
      for (const event of recorded.events) {
        memory.hold(bytesOfEvent(event))
        events.push(event)
      }
    }
    if (!last || lastPosition(last) !== position) {
      throw new Error(`the journal has no event at position ${position}`)
    }
    if (begins > from || from === 1) return events
  }
}

function isOfWrite(a: Recorded, b: Recorded): boolean {
  return a.requestId === b.requestId && a.key === b.key && a.actor === b.actor && a.time === b.time
}
