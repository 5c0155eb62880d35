import type { Recorded } from './journal.ts'

export type Listener = (recorded: Recorded) => void

/** Does in slices, without showing it to anybody, what a listener would do with a large write all at once. */
export type Preparation = (recorded: Recorded) => void | Promise<void>

/**
 * Hands every durable write to its listeners, in the order in which they were added: projections
 * before whoever tells clients to read them. A listener that throws ends the process: an event is never skipped.
 */
export class EventBus {
  readonly #listeners: Listener[] = []
  readonly #preparations: Preparation[] = []

  subscribe(listener: Listener, preparation?: Preparation): void {
    this.#listeners.push(listener)
    if (preparation) this.#preparations.push(preparation)
  }

  /** To be waited for before a large write is published; nothing may be published meanwhile. */
  async prepare(recorded: Recorded): Promise<void> {
    for (const preparation of this.#preparations) await preparation(recorded)
  }

  publish(recorded: Recorded): void {
    for (const listener of this.#listeners) listener(recorded)
  }
}
