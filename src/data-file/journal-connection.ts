import type { Edit, EditedItem } from '../commands/edit.ts'
import type { MergeOutcome } from '../commands/handler.ts'
import type { Journal } from '../events/journal.ts'
import type { Sized } from '../events/segment.ts'
import type { Past } from '../projections/past.ts'
import type { Memory } from '../runtime/memory.ts'

/** The dependencies of the data file once the journal is open. */
export interface JournalConnection {
  readonly journal: Pick<Journal, 'id' | 'head' | 'read' | 'at'> & Sized
  readonly past: Pick<Past, 'names' | 'collection'>
  /** Validates an item of a first import. Throws a Refusal with its place. */
  readonly check: (collection: string, item: EditedItem) => void
  /**
   * Turns an edit into events, in one write with this key. `memory` is that of the edit. `latestWritten` collects the latest
   * items that earlier parts of a first import wrote.
   */
  readonly merge: (edit: Edit, key: string, memory: Memory, latestWritten?: Set<string>) => Promise<MergeOutcome>
}
