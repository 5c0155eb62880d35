import { Changes } from './changes.ts'

/** The changes that an iteration has not taken yet, merged into one. */
export class PendingChanges<T> {
  #changes: Changes<T> | undefined
  #isEnded = false
  #wake = (): void => {}

  constructor(first: Changes<T>) {
    this.#changes = first
  }

  add(changes: Changes<T>): void {
    this.#changes ??= new Changes<T>()
    this.#changes.addAll(changes)
    this.#wake()
  }

  end(): void {
    this.#isEnded = true
    this.#wake()
  }

  /** Waits for changes. Returns undefined after the end, also when some are left. */
  async take(): Promise<Changes<T> | undefined> {
    while (!this.#isEnded && !this.#changes) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
    const changes = this.#isEnded ? undefined : this.#changes
    this.#changes = undefined
    return changes
  }
}
