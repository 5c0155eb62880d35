import type { FileContents } from '../collections/file-items.ts'
import type { EditMerge } from '../commands/outcome.ts'
import type { Sized } from '../events/bytes-after.ts'
import type { Journal } from '../events/journal.ts'
import type { Past } from '../projections/past.ts'
import type { Steps } from '../runtime/time-slices.ts'
import type { Base } from './base.ts'

/** The dependencies of the data file once the journal is open. */
export interface JournalConnection {
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'> & Sized
  readonly past: Pick<Past, 'names' | 'collection'>
  /** Validates edited items against their schemas. */
  readonly check: (file: FileContents) => Steps<void>
  /** Turns an edit into events; `hash` is that of the edited file. */
  readonly merge: (edit: { readonly file: FileContents; readonly base: Base }, hash: string) => EditMerge
}
