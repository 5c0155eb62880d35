import type { Position } from '../../events/event.ts'
import { isPartKey, lastPosition, type Recorded } from '../../events/journal.ts'
import { TAG, tableKey } from '../../store/keys.ts'
import type { StoredProjection } from '../folding.ts'
import type { Views } from '../views.ts'
import type { Mark } from './state.ts'

/** The actor of events that a hand edit became. Their `key` is the SHA-256 of the file that was merged; a `partKey` of it in writes that more may follow. */
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
    const until = lastPosition(recorded)
    const taken = isPartKey(recorded.key) ? this.#stored?.taken : { position: until, hash: recorded.key }
    this.#views.store.set(TAKEN_IN, Buffer.from(JSON.stringify({ until, ...(taken && { taken }) } satisfies Stored)))
  }

  /** The edit that was merged last, whole. */
  get last(): Mark | undefined {
    return this.#stored?.taken
  }

  /** The position of the last event of any edit, 0 for none: also of one of which only a part was merged. */
  get until(): Position {
    return this.#stored?.until ?? 0
  }

  get #stored(): Stored | undefined {
    const found = this.#views.store.newest(TAKEN_IN)
    return found && (JSON.parse(found.toString('utf8', 0, found.length)) as Stored)
  }
}

interface Stored {
  readonly until: Position
  readonly taken?: Mark
}

/** Whether a write is an edit of this data file. */
export function isTakenIn(recorded: Recorded, door?: string): recorded is Recorded & { readonly key: string } {
  if (recorded.actor !== DATA_FILE_ACTOR || recorded.key === undefined) return false
  return door === undefined || recorded.requestId === door
}
