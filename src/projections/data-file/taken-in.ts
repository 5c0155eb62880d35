import { lastPosition, type Recorded } from '../../events/journal.ts'
import { TAG, tableKey } from '../../store/keys.ts'
import type { StoredProjection } from '../folding.ts'
import type { Views } from '../views.ts'
import type { Mark } from './state.ts'

/** The actor of events that a hand edit became. Their `key` is the SHA-256 of the file that was taken in. */
export const DATA_FILE_ACTOR = 'data-file'

const TAKEN_IN = tableKey(TAG.takenIn, 0)

/** Which edit of the data file was merged last. Kept in the store, so it must be there before the store is built. */
export class TakenIn implements StoredProjection {
  /** In a cluster every node has a data file of its own, whose edits have this as their request id. */
  readonly door: string | undefined
  readonly #views: Views

  constructor(views: Views, door?: string) {
    this.#views = views
    this.door = door
    views.keep(this)
  }

  write(recorded: Recorded): void {
    if (!isTakenIn(recorded, this.door)) return
    const taken: Mark = { position: lastPosition(recorded), hash: recorded.key }
    this.#views.store.set(TAKEN_IN, Buffer.from(JSON.stringify(taken)))
  }

  get last(): Mark | undefined {
    const found = this.#views.store.newest(TAKEN_IN)
    return found && (JSON.parse(found.toString('utf8', 0, found.length)) as Mark)
  }
}

/** Whether a write is an edit of this data file. */
export function isTakenIn(recorded: Recorded, door?: string): recorded is Recorded & { readonly key: string } {
  if (recorded.actor !== DATA_FILE_ACTOR || recorded.key === undefined) return false
  return door === undefined || recorded.requestId === door
}
