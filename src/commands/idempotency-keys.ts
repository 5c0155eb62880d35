import { hash } from 'node:crypto'
import type { DomainEvent, Position } from '../events/event.ts'
import { lastPosition, type Origin, type Recorded } from '../events/journal.ts'
import type { StoredProjection } from '../events/projection.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { numberedKey, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'

/** A request with an Idempotency-Key whose write is durable. */
export interface CompletedRequest {
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
    const key = rowKey(scopedKeyOf(recorded))
    this.#store.set(key, encode({ request: recorded.request, position, timeMs }))
    this.#store.set(numberedKey(TAG.requestTime, 0, position), key)
    this.#forget(timeMs)
  }

  find(origin: Origin, now: Date): CompletedRequest | undefined {
    const found = this.#store.newest(rowKey(scopedKeyOf(origin)))
    if (!found) return undefined
    const { timeMs, ...completed } = decode(found)
    return now.getTime() - timeMs < REMEMBERED_MS ? completed : undefined
  }

  #forget(timeMs: number): void {
    const prefix = tableKey(TAG.requestTime, 0)
    for (const { key: at, value: key } of this.#store.rows(prefix, prefixEnd(prefix), { limit: FORGOTTEN_AT_ONCE })) {
      const found = this.#store.newest(key)
      const completed = found && decode(found)
      const isItsOwn = completed?.position === positionOf(at, prefix.length)
      if (completed && isItsOwn && timeMs - completed.timeMs < REMEMBERED_MS) return
      this.#store.remove(at)
      // A key that was used again since is kept.
      if (isItsOwn) this.#store.remove(key)
    }
  }
}

interface TimedRequest extends CompletedRequest {
  readonly timeMs: number
}

function rowKey(scopedKey: string): Buffer {
  return Buffer.concat([tableKey(TAG.request, 0), hash('sha256', scopedKey, 'buffer')])
}

function encode({ request, position, timeMs }: TimedRequest): Buffer {
  const bytes = Buffer.allocUnsafe(2 * POSITION_BYTES + Buffer.byteLength(request))
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, timeMs)
  bytes.write(request, 2 * POSITION_BYTES)
  return bytes
}

function decode(bytes: Buffer): TimedRequest {
  return {
    request: bytes.toString('utf8', 2 * POSITION_BYTES, bytes.length),
    position: positionOf(bytes),
    timeMs: positionOf(bytes, POSITION_BYTES),
  }
}

/** Keys are separate for each actor. */
export function scopedKeyOf({ actor, key }: Origin): string {
  return `${actor}\n${key}`
}
