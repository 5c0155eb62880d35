import { IdempotencyKeys } from '../commands/idempotency-keys.ts'
import { MergedEdits } from '../data-file/merged-edits.ts'
import type { Journal, Projection, Recorded } from '../events/journal.ts'
import { History } from '../projections/history.ts'
import { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'

/** The projections of a journal: those with rows in the store see a write first, then those of the bus. */
export class Projections {
  readonly views: Views
  readonly history: History
  readonly idempotencyKeys: IdempotencyKeys
  readonly mergedEdits: MergedEdits
  readonly bus = new EventBus()

  /** @param dataFileId identifies the imports of this node's data file in a cluster */
  constructor(views: Views, dataFileId?: string) {
    this.views = views
    this.history = new History(views)
    this.idempotencyKeys = new IdempotencyKeys(views.store)
    this.mergedEdits = new MergedEdits(views.store, dataFileId)
    // In this order, after the collections and in their transactions.
    views.storeWith(this.history, this.idempotencyKeys, this.mergedEdits)
  }

  /** Applies all further writes of a journal. */
  follow(journal: Pick<Journal, 'follow'>, others: Omit<AppliedProjections, 'views'> = {}): void {
    this.bus.add({ ...others, views: this.views })
    journal.follow((recorded) => this.bus.publish(recorded))
  }

  past(journal: Journal): Past {
    return new Past(journal, this.views, this.history)
  }
}

/** Names of the projections, in the order in which they see a write that the store has. */
const ORDER = [
  // All others read the views.
  'views',
  // Responds to the client.
  'handler',
  'dataFile',
  // Builds the configured indexes of new collections.
  'queries',
  'fieldList',
  'sockets',
  // Wakes event streams, and requests that wait for a position.
  'arrivals',
] as const

type AppliedProjections = Readonly<Partial<Record<(typeof ORDER)[number], Projection>>>

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
