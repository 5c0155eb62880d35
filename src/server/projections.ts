import { IdempotencyKeys } from '../commands/idempotency-keys.ts'
import { MergedEdits } from '../data-file/merged-edits.ts'
import type { Journal } from '../events/journal.ts'
import { History } from '../projections/history.ts'
import { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { type AppliedProjections, EventBus } from './event-bus.ts'

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
