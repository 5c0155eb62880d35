import { IdempotencyKeys } from '../commands/idempotency-keys.ts'
import { MergedEdits } from '../data-file/merged-edits.ts'
import { EventBus } from '../events/bus.ts'
import type { Journal } from '../events/journal.ts'
import type { Projection } from '../events/projection.ts'
import { History } from '../projections/history.ts'
import { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'

/**
 * The projections of a journal. They see a write in this order:
 *
 * 1. In the transactions of the store: collections, history, Idempotency-Keys, imports of the data file.
 * 2. When the store has the write: views, command handler, data file, recent writes (of a cluster node). The service adds
 *    queries (for the configured indexes), the list of fields, sockets and requests that wait for a position.
 */
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
    views.storeWith(this.history, this.idempotencyKeys, this.mergedEdits)
    this.bus.add(views)
  }

  /** Applies all further writes of a journal: to the views, then to `others` in this order. */
  follow(journal: Pick<Journal, 'follow'>, ...others: readonly Projection[]): void {
    this.bus.add(...others)
    journal.follow((recorded) => this.bus.publish(recorded))
  }

  past(journal: Journal): Past {
    return new Past(journal, this.views, this.history)
  }
}
