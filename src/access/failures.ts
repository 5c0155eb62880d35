import { LRUCache } from 'lru-cache'

const WINDOW_MS = 60_000
const ADDRESSES = 10_000

/** Counts failed logins by address within a minute, for a bounded number of addresses. */
export class Failures {
  readonly #limit: number
  readonly #elapsedMs: () => number
  readonly #times = new LRUCache<string, readonly number[]>({ max: ADDRESSES })

  /** `elapsedMs` must be monotonic: setting the clock would shorten or lengthen the wait. */
  constructor(limit: number, elapsedMs: () => number) {
    this.#limit = limit
    this.#elapsedMs = elapsedMs
  }

  add(address: string): void {
    this.#times.set(address, [...this.#recent(address), this.#elapsedMs()].slice(-this.#limit))
  }

  /** How many more failures the address has until it must wait. */
  left(address: string): number {
    return Math.max(0, this.#limit - this.#recent(address).length)
  }

  /** Seconds until the address may try again; 0 if it may now. */
  waitSeconds(address: string): number {
    const recent = this.#recent(address)
    const [oldest] = recent
    if (oldest === undefined || recent.length < this.#limit) return 0
    return Math.max(1, Math.ceil((oldest + WINDOW_MS - this.#elapsedMs()) / 1000))
  }

  #recent(address: string): readonly number[] {
    const since = this.#elapsedMs() - WINDOW_MS
    return (this.#times.get(address) ?? []).filter((time) => time > since)
  }
}
