import type { Recorded } from './journal.ts'

export type Listener = (recorded: Recorded) => void

/**
 * Hands every durable write that readers see to its listeners, in the order in which they were added. A listener that
 * throws ends the process: an event is never skipped.
 */
export class EventBus {
  readonly #listeners: Listener[] = []

  subscribe(listener: Listener): void {
    this.#listeners.push(listener)
  }

  publish(recorded: Recorded): void {
    for (const listener of this.#listeners) listener(recorded)
  }
}
