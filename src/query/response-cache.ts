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
  readonly bytes: number
}

/**
 * A least-recently-used cache of responses to queries of unchanged collections, such as those of dashboards. A response
 * is cached when its query comes a second time at the same position, so that queries that never come again cost only
 * the room of their address.
 */
export class ResponseCache {
  readonly #mostBytes: number
  /** By address (collection and query), the least recently used first. */
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  constructor(bytes: number) {
    this.#mostBytes = bytes
  }

  /** The response of a collection that has not changed since. */
  find(address: string, position: Position): CachedResponse | undefined {
    const entry = this.#entries.get(address)
    if (!entry?.answer || entry.position !== position) return undefined
    this.#entries.delete(address)
    this.#entries.set(address, entry)
    return entry.answer
  }

  /** Called with each response that was not found. */
  note(address: string, position: Position, answer: CachedResponse): void {
    const before = this.#entries.get(address)
    const isRepeated = before?.position === position
    const cached = isRepeated && sizeOf(address, answer) <= this.#mostBytes ? answer : undefined
    const bytes = sizeOf(address, cached)
    if (before) this.#remove(address, before)
    this.#entries.set(address, { position, answer: cached, bytes })
    this.#bytes += bytes
    for (const [oldest, entry] of this.#entries) {
      if (this.#bytes <= this.#mostBytes) return
      this.#remove(oldest, entry)
    }
  }

  #remove(address: string, { bytes }: Entry): void {
    this.#entries.delete(address)
    this.#bytes -= bytes
  }
}

/** Upper limit: as if every character took two bytes. */
function sizeOf(address: string, answer?: CachedResponse): number {
  return 2 * (address.length + (answer?.text.length ?? 0) + (answer?.link?.length ?? 0)) + 200
}
