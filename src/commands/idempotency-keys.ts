import { hash } from 'node:crypto'
import type { DomainEvent, Position } from '../events/event.ts'
import {
  bytesOfEvent,
  type Journal,
  lastPosition,
  type Origin,
  type Recorded,
  type StoredProjection,
} from '../events/journal.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
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

  /** `repeat` returns the outcome of an earlier execution. */
  run<T>(origin: Origin, execute: () => Promise<T>, repeat: (first: CompletedRequest) => Promise<T>): Promise<T> {
    if (origin.key === undefined) return execute()
    const key = scopedKey(origin)
    const pending = this.#pending.get(key)
    // The same request has an outcome of the same type.
    if (pending) return rejectionIfOther(origin, pending) ?? (pending.outcome as Promise<T>)
    const completed = this.#completed.find(origin, this.#now())
    if (completed) return rejectionIfOther(origin, completed) ?? repeat(completed)
    const outcome = execute()
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

/** A request with an Idempotency-Key whose write is durable. */
interface CompletedRequest {
  /** SHA-256 of the request. */
  readonly request: string
  /** Position of the write's last event. */
  readonly position: Position
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
    if (position !== lastPosition(recorded) || recorded.key === undefined || recorded.request === undefined) return
    const timeMs = Date.parse(recorded.time)
    const key = rowKey(recorded)
    this.#store.set(key, encode({ request: recorded.request, position, timeMs }))
    this.#store.set(numberedKey(TAG.requestTime, 0, position), key)
    this.#forget(timeMs)
  }

  find(origin: Origin, now: Date): CompletedRequest | undefined {
    const found = this.#store.newest(rowKey(origin))
    if (!found) return undefined
    const { timeMs, ...completed } = decode(found)
    return now.getTime() - timeMs < REMEMBERED_MS ? completed : undefined
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

function encode({ request, position, timeMs }: TimedRequest): Buffer {
  const bytes = Buffer.allocUnsafe(2 * POSITION_BYTES + Buffer.byteLength(request))
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, timeMs)
  bytes.write(request, 2 * POSITION_BYTES)
  return bytes
}

function decode(bytes: ScratchBytes): TimedRequest {
  return {
    request: bytes.toString('utf8', 2 * POSITION_BYTES, bytes.length),
    position: positionOf(bytes),
    timeMs: positionOf(bytes, POSITION_BYTES),
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
