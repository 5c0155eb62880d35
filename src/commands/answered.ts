import { hash } from 'node:crypto'
import type { Position } from '../events/event.ts'
import { lastPosition, type Origin, type Recorded } from '../events/journal.ts'
import { POSITION_BYTES, positionOf, putPosition } from '../store/bytes.ts'
import { numberedKey, prefixEnd, TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'

export interface AnsweredRequest {
  /** SHA-256 of the request. */
  readonly request: string
  /** Of the write's last event. */
  readonly position: Position
}

/** How long a retry gets the first answer again. */
const REMEMBERED_MS = 24 * 60 * 60 * 1000

/** Expired keys that one write deletes. A million may expire together, and to delete them all would block the event loop. */
const FORGOTTEN_AT_ONCE = 100

/** The requests that came with an Idempotency-Key and were stored: a projection of the journal, a day long. */
export class Answered {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Notes a write that became durable. In a transaction of the store. */
  write(recorded: Recorded): void {
    if (recorded.key === undefined || recorded.request === undefined) return
    const timeMs = Date.parse(recorded.time)
    const position = lastPosition(recorded)
    const key = requestKey(nameOf(recorded))
    this.#store.set(key, encode({ request: recorded.request, position, timeMs }))
    this.#store.set(numberedKey(TAG.answeredAt, 0, position), key)
    this.#forget(timeMs)
  }

  find(origin: Origin, now: Date): AnsweredRequest | undefined {
    const found = this.#store.newest(requestKey(nameOf(origin)))
    if (!found) return undefined
    const { timeMs, ...answered } = decode(found)
    return now.getTime() - timeMs < REMEMBERED_MS ? answered : undefined
  }

  #forget(timeMs: number): void {
    const prefix = tableKey(TAG.answeredAt, 0)
    for (const { key: at, value: key } of this.#store.rows(prefix, prefixEnd(prefix), { limit: FORGOTTEN_AT_ONCE })) {
      const found = this.#store.newest(key)
      const answered = found && decode(found)
      const isItsOwn = answered?.position === positionOf(at, prefix.length)
      if (answered && isItsOwn && timeMs - answered.timeMs < REMEMBERED_MS) return
      this.#store.remove(at)
      // One that was used again since stays.
      if (isItsOwn) this.#store.remove(key)
    }
  }
}

interface Noted extends AnsweredRequest {
  readonly timeMs: number
}

function requestKey(name: string): Buffer {
  return Buffer.concat([tableKey(TAG.answered, 0), hash('sha256', name, 'buffer')])
}

function encode({ request, position, timeMs }: Noted): Buffer {
  const bytes = Buffer.allocUnsafe(2 * POSITION_BYTES + Buffer.byteLength(request))
  putPosition(bytes, 0, position)
  putPosition(bytes, POSITION_BYTES, timeMs)
  bytes.write(request, 2 * POSITION_BYTES)
  return bytes
}

function decode(bytes: Buffer): Noted {
  return {
    request: bytes.toString('utf8', 2 * POSITION_BYTES, bytes.length),
    position: positionOf(bytes),
    timeMs: positionOf(bytes, POSITION_BYTES),
  }
}

/** Keys belong to whom they came from. */
export function nameOf({ actor, key }: Origin): string {
  return `${actor}\n${key}`
}
