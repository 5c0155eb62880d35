/** When the data file is written automatically. */
export interface WriteSettings {
  /** `stop`: only at a clean stop and for a snapshot; `never`: only for a snapshot. */
  readonly write: 'auto' | 'stop' | 'never'
  /** Longest time that the file may be behind; undefined: as the budget says. */
  readonly maxDelaySeconds: number | undefined
}

/** A smaller file is written whenever it is behind. */
export const SMALL_BYTES = 1024 * 1024
/** Highest average number of bytes written to the file for each byte appended to the journal. */
const BYTES_PER_JOURNAL_BYTE = 2

/** Limits the writes to the data file in proportion to the growth of the journal. */
export class WriteBudget {
  /** Bytes written beyond the budget, because the file had grown more than expected. */
  #debt = 0
  /** Bytes by which the file grew for each appended byte, at its last write. */
  #growth = 1

  /** How many bytes the journal must be ahead before a file of this size is written again. */
  journalBytesFor(size: number): number {
    if (size < SMALL_BYTES) return 0
    return Math.ceil((size + this.#debt) / (BYTES_PER_JOURNAL_BYTE - this.#growth))
  }

  /** Accounts for a write that was due; `before` and `size` are the old and new sizes of the file. */
  spend(before: number, size: number, appended: number): void {
    if (appended > 0) this.#growth = Math.min(1, Math.max(0, (size - before) / appended))
    if (before < SMALL_BYTES) return
    this.#debt = Math.max(0, this.#debt + size - BYTES_PER_JOURNAL_BYTE * appended)
  }
}
