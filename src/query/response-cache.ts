import { LRUCache } from 'lru-cache'
import type { Position } from '../events/event.ts'

/** A cached response to a query. */
export interface CachedResponse {
  readonly text: string
  readonly total: number
  /** The `Link` header; undefined if it would be too long. */
  readonly link: string | undefined
}

interface Entry {
  /** Position of the collection. */
  readonly position: Position
  /** Undefined after the first request at this position. */
  readonly answer: CachedResponse | undefined
}

/**
 * A least-recently-used cache of responses to queries of unchanged collections, such as those of dashboards. A response
 * is cached when its query comes a second time at the same position, so that queries that never come again cost only
 * the memory of their address.
 */
export class ResponseCache {
  /** By address (collection and query). */
  readonly #entries: LRUCache<string, Entry>

  constructor(bytes: number) {
    this.#entries = new LRUCache({
      maxSize: bytes,
      sizeCalculation: ({ answer }, address) => entryBytes(address, answer),
    })
  }

  /** The response of a collection that has not changed since. */
  find(address: string, position: Position): CachedResponse | undefined {
    const entry = this.#entries.get(address)
    return entry?.position === position ? entry.answer : undefined
  }

  /** Called with each response that was not found. */
  note(address: string, position: Position, answer: CachedResponse): void {
    const isRepeated = this.#entries.peek(address)?.position === position
    this.#entries.set(address, { position, answer: isRepeated ? answer : undefined })
  }
}

/** Upper limit: as if every character took two bytes. */
function entryBytes(address: string, answer?: CachedResponse): number {
  return 2 * (address.length + (answer?.text.length ?? 0) + (answer?.link?.length ?? 0)) + 200
}
