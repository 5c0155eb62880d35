import type { Projection } from '../events/journal.ts'

/** Wakes readers at the end of the journal when a new write arrives. */
export class Arrivals implements Projection {
  readonly #waiting = new Set<() => void>()
  #ended = false

  /** No further writes will arrive, so readers should stop. */
  get ended(): boolean {
    return this.#ended
  }

  /** Resolves at the next arrival, when no more will come, or after the timeout. */
  wait(atMostMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, this.#ended ? 0 : atMostMs).unref()
      this.#waiting.add(wake)
    })
  }

  /** Waits for arrivals until the condition holds. Resolves with false if it does not in time, or at the end. */
  async waitUntil(condition: () => boolean, seconds: number): Promise<boolean> {
    const deadline = performance.now() + seconds * 1000
    while (!condition()) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0 || this.#ended) return false
      await this.wait(leftMs)
    }
    return true
  }

  apply(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  end(): void {
    this.#ended = true
    this.apply()
  }
}
