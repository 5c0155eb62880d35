/** Wakes those who have read all that there is when there is more. */
export class Arrivals {
  readonly #waiting = new Set<() => void>()
  #ended = false

  /** Nothing more is to come: whoever waits, or would, is to stop. */
  get ended(): boolean {
    return this.#ended
  }

  /** Resolves with the next arrival, at the end, or after so many milliseconds at the latest. */
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

  notify(): void {
    for (const wake of [...this.#waiting]) wake()
  }

  end(): void {
    this.#ended = true
    this.notify()
  }
}
