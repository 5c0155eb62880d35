import { Answered } from './commands/answered.ts'
import { EventBus } from './events/bus.ts'
import type { Journal } from './events/journal.ts'
import type { Projection } from './events/projection.ts'
import { TakenIn } from './projections/data-file/taken-in.ts'
import { History } from './projections/history.ts'
import { Past } from './projections/past.ts'
import type { Views } from './projections/views.ts'

/**
 * All that is computed from a journal, and the one order in which a write is seen:
 *
 * 1. in the transactions of the store: the collections, then history, answered requests and merged edits of the data file;
 * 2. when the store has it: the readers of the views, the command handler, the data file, in a cluster those who wait
 *    for what another node stored, then the list of fields, the sockets and the requests that wait for a position.
 */
export class Projections {
  readonly views: Views
  readonly history: History
  readonly answered: Answered
  readonly takenIn: TakenIn
  readonly bus = new EventBus()

  /** `door` is what the edits of this data file are known by, where there are several. */
  constructor(views: Views, door?: string) {
    this.views = views
    this.history = new History(views)
    this.answered = new Answered(views.store)
    this.takenIn = new TakenIn(views.store, door)
    views.storeWith(this.history, this.answered, this.takenIn)
    this.bus.add(views)
  }

  /** Sees the writes of a journal from now on; the others do behind the views, in this order. */
  follow(journal: Pick<Journal, 'follow'>, ...others: readonly Projection[]): void {
    this.bus.add(...others)
    journal.follow((recorded) => this.bus.publish(recorded))
  }

  past(journal: Journal): Past {
    return new Past(journal, this.views, this.history)
  }
}
