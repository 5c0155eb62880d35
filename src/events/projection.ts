import type { DomainEvent, Position } from './event.ts'
import type { Recorded } from './journal.ts'

/** State that is computed from the journal. */
export interface Projection {
  /** Called once with each durable write, in order, when the store has it. An error ends the process. */
  apply(recorded: Recorded): void
}

/** A projection with rows in the store. */
export interface StoredProjection {
  /**
   * Writes what an event changes, in the transaction that changes the collections. A transaction that fails is begun
   * again with the same events.
   */
  store(event: DomainEvent, position: Position, write: Recorded): void
}
