import type { Change } from '../sockets/protocol.ts'

/** The changes that a list gets while it catches up: the last one of each item. */
export class MissedChanges {
  readonly #lastById = new Map<string, Change>()
  #count = 0

  add(change: Change): void {
    this.#count++
    // Deleting first moves the item to the end: changes stay in the order of their positions.
    this.#lastById.delete(String(change.id))
    this.#lastById.set(String(change.id), change)
  }

  /** The position of the last change; undefined without changes. */
  get position(): number | undefined {
    return [...this.#lastById.values()].at(-1)?.position
  }

  /** Empties the list. `count` includes changes that were followed by another of the same item. */
  take(): { readonly count: number; readonly changes: readonly Change[] } {
    const taken = { count: this.#count, changes: [...this.#lastById.values()] }
    this.#lastById.clear()
    this.#count = 0
    return taken
  }
}
