export type Listener<T> = (told: T) => void

/** Calls each listener, even if another one throws. */
export class Listeners<T> {
  readonly #listeners = new Set<{ readonly tell: Listener<T> }>()

  /** Returns a function that removes the listener. */
  add(tell: Listener<T>): () => void {
    const entry = { tell }
    this.#listeners.add(entry)
    return () => void this.#listeners.delete(entry)
  }

  clear(): void {
    this.#listeners.clear()
  }

  tell(told: T): void {
    for (const { tell } of [...this.#listeners]) {
      try {
        tell(told)
      } catch (error) {
        // Reported as an unhandled error, without effect on other listeners.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}
