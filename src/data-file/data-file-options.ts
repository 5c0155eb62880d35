import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import type { Views } from '../projections/views.ts'
import type { MemoryBudget } from '../runtime/memory.ts'
import type { Schedule } from '../runtime/turns.ts'
import type { CheckedFile } from './first-items.ts'
import type { MergedEdits } from './merged-edits.ts'

/** When the data file is written automatically. */
interface WriteSettings {
  /** `stop`: only at a clean stop and for a snapshot; `never`: only for a snapshot. */
  readonly write: 'auto' | 'stop' | 'never'
  /** Longest time that the file may be behind; undefined: until the journal has grown enough. */
  readonly maxDelaySeconds: number | undefined
}

/** A smaller file is written whenever it is behind. */
export const SMALL_BYTES = 1024 * 1024

interface EditSettings {
  /** `replace`: an edit is always compared with the version that was written last. */
  readonly mode: 'merge' | 'replace'
  /** A larger file is compared with the version that was written last, and read without being held in memory. */
  readonly bytes: number
}

export interface DataFileOptions {
  readonly files: Files
  /** Symbolic links on the way are followed at each use, as they may be changed at any time. */
  readonly path: string
  readonly idField: string
  /** The journal's directory, which holds the state file while the data file cannot be replaced. */
  readonly journal: string
  readonly views: Views
  readonly log: Logger
  /** Import edits as soon as the file changes. */
  readonly eager: boolean
  /** Do not merge edits, except for the first items. */
  readonly readOnly: boolean
  /** Calls back once after a delay, unless cancelled; does not keep the process alive. */
  readonly schedule: Schedule
  readonly elapsedMs: () => number
  readonly now: () => Date
  readonly settings: WriteSettings
  readonly edits: EditSettings
  /** The memory for the changes of an edit. */
  readonly memory: MemoryBudget
  /** The data file overrides the journal: see docs/journal.md, "A journal that does not fit". */
  readonly acceptJournal: boolean
  readonly mergedEdits: MergedEdits
  /** The result of checking the first items. */
  readonly checked?: CheckedFile | undefined
}
