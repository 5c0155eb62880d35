import type { DomainEvent, Position } from '../events/event.ts'
import { isPartKey, type Journal, lastPosition, type Recorded, type StoredProjection } from '../events/journal.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import type { ContentMark } from './state-file.ts'

/**
 * The actor of events from edits of the data file. Their `key` is the SHA-256 of the merged file, or a `partKey` of it
 * in writes that more may follow.
 */
export const DATA_FILE_ACTOR = 'data-file'

const ROW = tableKey(TAG.mergedEdit, 0)

/** The edit of the data file that was merged last. Stored, so it must be registered before the store is built. */
export class MergedEdits implements StoredProjection {
  /** In a cluster every node has its own data file, whose edits have this as their request id. */
  readonly dataFileId: string | undefined
  readonly #store: Store

  constructor(store: Store, dataFileId?: string) {
    this.#store = store
    this.dataFileId = dataFileId
  }

  store(_: DomainEvent, until: Position, recorded: Recorded): void {
    if (until !== lastPosition(recorded) || !isDataFileEdit(recorded, this.dataFileId)) return
    const taken = isPartKey(recorded.key) ? this.#stored?.taken : { position: until, hash: recorded.key }
    this.#store.set(ROW, Buffer.from(JSON.stringify({ until, ...(taken && { taken }) } satisfies Stored)))
  }

  /** The edit that was completely merged last. */
  get last(): ContentMark | undefined {
    return this.#stored?.taken
  }

  /** The position of the last event of any edit, also of first items that were imported partly; 0 if there is none. */
  get until(): Position {
    return this.#stored?.until ?? 0
  }

  get #stored(): Stored | undefined {
    const found = this.#store.newest(ROW)
    return found && (JSON.parse(found.toString('utf8', 0, found.length)) as Stored)
  }
}

interface Stored {
  readonly until: Position
  readonly taken?: ContentMark
}

export function isDataFileEdit(
  recorded: Recorded,
  dataFileId?: string,
): recorded is Recorded & { readonly key: string } {
  if (recorded.actor !== DATA_FILE_ACTOR || recorded.key === undefined) return false
  return dataFileId === undefined || recorded.requestId === dataFileId
}

/** The last position of the first import of the data file; 0 if the journal begins with another write. */
export async function firstImportEnd(journal: Pick<Journal, 'read'>): Promise<Position> {
  let end = 0
  let key: string | undefined
  for await (const recorded of journal.read(1)) {
    // It is one write, or several whose keys are part keys except for that of the last one (docs/journal.md, J24).
    const mayContinue = key === undefined || isPartKey(key) || recorded.key === key
    if (!mayContinue || !isDataFileEdit(recorded)) break
    key = recorded.key
    end = lastPosition(recorded)
  }
  return end
}
