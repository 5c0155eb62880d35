import { type Lmdb, lastPage } from './lmdb.ts'
import { lengthen } from './meta.ts'

/** Larger values get overflow pages of their own. */
const LARGE_BYTES = 1700

/** Extends the file after transactions that may have freed pages at its end which they had allocated themselves. */
export class FileLength {
  readonly #path: string
  #hasRemoved = false
  #largeValues = 0
  /** The last page when the length of the file was checked. */
  #checkedTo: number | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** A transaction begins. */
  begin(): void {
    this.#hasRemoved = false
    this.#largeValues = 0
  }

  put(value: Buffer): void {
    if (value.length >= LARGE_BYTES) this.#largeValues++
  }

  remove(): void {
    this.#hasRemoved = true
  }

  /** The file was replaced by another one. */
  forget(): void {
    this.#checkedTo = undefined
  }

  /** Opening and reading the file takes longer than storing a row, so it is only done when pages were added. */
  check(db: Lmdb): void {
    if (!this.#hasRemoved && this.#largeValues < 2) return
    const last = lastPage(db)
    if (last === this.#checkedTo) return
    lengthen(this.#path)
    this.#checkedTo = last
  }
}
