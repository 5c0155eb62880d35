import type { Recorded } from '../events/journal.ts'
import type { Projection } from '../events/projection.ts'

/** Names of the projections, in the order in which they see a write that the store has. */
const ORDER = [
  // All others read the views.
  'views',
  // The handler responds to the client; of a write through another node, the recent writes do.
  'handler',
  'dataFile',
  'recentWrites',
  // Builds the configured indexes of new collections.
  'queries',
  'fieldList',
  'sockets',
  // Wakes event streams, and requests that wait for a position.
  'arrivals',
] as const

export type AppliedProjections = Readonly<Partial<Record<(typeof ORDER)[number], Projection>>>

/** Applies every write to the projections, whose order does not depend on when they were added. */
export class EventBus {
  #byName: AppliedProjections = {}
  #inOrder: readonly Projection[] = []

  add(projections: AppliedProjections): void {
    this.#byName = { ...this.#byName, ...projections }
    this.#inOrder = ORDER.flatMap((name) => this.#byName[name] ?? [])
  }

  publish(recorded: Recorded): void {
    for (const projection of this.#inOrder) projection.apply(recorded)
  }
}
