export type Listener<T> = (told: T) => void

/** Tells each of them, whatever the others do. */
export class Listeners<T> {
  readonly #listeners = new Set<{ readonly tell: Listener<T> }>()

  /** Returns what ends it. */
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
        // A mistake of the listener's own: seen as any that nobody catches, without harm to the others or the list.
        queueMicrotask(() => {
          throw error
        })
      }
    }
  }
}
