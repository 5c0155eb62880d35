import type { Position } from '../events/event.ts'
import { lastPosition, type Origin, type Recorded } from '../events/journal.ts'
import type { JsonObject, JsonValue } from '../json/value.ts'

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

const SAVED_TOGETHER = 500

/** The requests that came with an Idempotency-Key and were stored: a projection of the journal, a day long. */
export class Answered {
  readonly #requests = new Map<string, AnsweredRequest & { readonly time: number }>()

  apply(recorded: Recorded): void {
    if (recorded.key === undefined || recorded.request === undefined) return
    const time = Date.parse(recorded.time)
    const name = nameOf(recorded)
    this.#requests.delete(name)
    this.#requests.set(name, { request: recorded.request, position: lastPosition(recorded), time })
    let left = FORGOTTEN_AT_ONCE
    for (const [oldest, answered] of this.#requests) {
      if (time - answered.time < REMEMBERED_MS || left-- === 0) break
      this.#requests.delete(oldest)
    }
  }

  /** Those up to a position, as a checkpoint keeps them. A key that was used again since comes again with what follows. */
  *save(last: Position): Generator<{ readonly fields: JsonObject }> {
    let requests: JsonValue[] = []
    for (const [name, { request, position, time }] of this.#requests) {
      if (position <= last) requests.push([name, request, position, time])
      if (requests.length < SAVED_TOGETHER) continue
      yield { fields: { requests } }
      requests = []
    }
    if (requests.length > 0) yield { fields: { requests } }
  }

  restore({ fields }: { readonly fields: JsonObject }): void {
    for (const [name, request, position, time] of fields.requests as unknown as [string, string, Position, number][]) {
      this.#requests.set(name, { request, position, time })
    }
  }

  clear(): void {
    this.#requests.clear()
  }

  find(origin: Origin, now: Date): AnsweredRequest | undefined {
    const found = this.#requests.get(nameOf(origin))
    return found && now.getTime() - found.time < REMEMBERED_MS ? found : undefined
  }
}

/** Keys belong to whom they came from. */
export function nameOf({ actor, key }: Origin): string {
  return `${actor}\n${key}`
}
