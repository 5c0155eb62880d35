/** When the data file is written without being asked for. */
export interface WriteSettings {
  /** `stop`: only at a clean stop and for a snapshot; `never`: only for a snapshot. */
  readonly write: 'auto' | 'stop' | 'never'
  /** So long the file is behind at most; undefined: as long as the budget says. */
  readonly maxDelaySeconds: number | undefined
}

/** A smaller file is written whenever it is behind. */
export const SMALL_BYTES = 1024 * 1024
/** How many bytes are written to the file for each byte appended to the journal, on average, at most. */
const BYTES_PER_JOURNAL_BYTE = 2

/** Bounds what is written to the data file by what is appended to the journal. */
export class WriteBudget {
  /** Bytes that were written beyond the budget, because the file had grown more than was expected. */
  #debt = 0
  /** By how many bytes the file grew for each byte appended, when it was last written. */
  #growth = 1

  /** How many bytes the journal must have beyond what a file of this size shows until the file is written again. */
  journalBytesFor(size: number): number {
    if (size < SMALL_BYTES) return 0
    return Math.ceil((size + this.#debt) / (BYTES_PER_JOURNAL_BYTE - this.#growth))
  }

  /** The file was written because it was due: it had one size, and has another one. */
  spend(before: number, size: number, appended: number): void {
    if (appended > 0) this.#growth = Math.min(1, Math.max(0, (size - before) / appended))
    if (before < SMALL_BYTES) return
    this.#debt = Math.max(0, this.#debt + size - BYTES_PER_JOURNAL_BYTE * appended)
  }
}
