import type { Recorded } from './journal.ts'
import type { Projection } from './projection.ts'

/** Applies every write to its projections, in the order in which they were added. */
export class EventBus {
  readonly #projections: Projection[] = []

  add(...projections: readonly Projection[]): void {
    this.#projections.push(...projections)
  }

  publish(recorded: Recorded): void {
    for (const projection of this.#projections) projection.apply(recorded)
  }
}
