import type { Projection } from '../events/journal.ts'

/** Wakes readers at the end of the journal when a new write arrives. */
export class Arrivals implements Projection {
  /** Called at each arrival. */
  readonly #waiting = new Set<() => void>()
  #ended = false

  /** No further writes will arrive, so readers should stop. */
  get ended(): boolean {
    return this.#ended
  }

  /** Resolves at the next arrival, when no more will come, or after the timeout. */
  async wait(atMostMs: number): Promise<void> {
    await this.#arrival(() => true, atMostMs)
  }

  /** Waits for arrivals until the condition holds. Resolves with false if it does not in time, or at the end. */
  async waitUntil(condition: () => boolean, seconds: number): Promise<boolean> {
    return condition() || this.#arrival(condition, seconds * 1000)
  }

  #arrival(condition: () => boolean, atMostMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve(condition())
      }
      const look = (): void => {
        if (this.#ended || condition()) end()
      }
      const timer = setTimeout(end, this.#ended ? 0 : atMostMs).unref()
      this.#waiting.add(look)
    })
  }

  apply(): void {
    for (const look of this.#waiting) look()
  }

  end(): void {
    this.#ended = true
    this.apply()
  }
}
