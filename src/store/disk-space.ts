import { statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { isOutOfSpace } from '../files/files.ts'

const PAGE_BYTES = 4096
/** Overhead of a transaction besides its rows: the list of free pages and the roots of the trees. */
const OVERHEAD_BYTES = 64 * 1024
/** With this much space left over, the disk is checked at most once in LOOK_MS. */
const MUCH_BYTES = 2 ** 30
const LOOK_MS = 1000
const SHORT_BYTES = 16 * 1024 * 1024

/**
 * Checks before each commit that a transaction fits on the disk. When a write of lmdb 3.5.6 finds no space, it formats
 * a message into a buffer that is too small (`mdb_page_flush`), and the process may end with SIGABRT.
 */
export class DiskSpace {
  readonly #path: string
  readonly #directory: string
  #rows = 0
  #bytes = 0
  #lookedMs = Number.NEGATIVE_INFINITY
  #left = 0

  constructor(path: string) {
    this.#path = path
    this.#directory = dirname(path)
  }

  begin(): void {
    this.#rows = 0
    this.#bytes = 0
  }

  /** Counts a row that is put or removed. */
  add(bytes: number): void {
    this.#rows++
    this.#bytes += bytes
  }

  /** The rows that the transaction has put or removed so far. */
  get rows(): number {
    return this.#rows
  }

  /** Whether so little space is free that a failed write is taken for a full disk. */
  get isShort(): boolean {
    return freeBytes(this.#directory) < SHORT_BYTES
  }

  /** @throws ENOSPC */
  check(): void {
    if (!this.hasRoom(this.#rows, this.#bytes)) {
      throw Object.assign(new Error(`There is no room for the store in ${this.#directory}.`), { code: 'ENOSPC' })
    }
  }

  /** Whether so many rows of so many bytes fit. */
  hasRoom(rows: number, bytes: number): boolean {
    const written = OVERHEAD_BYTES + 2 * bytes
    // Pages are copied before they are changed.
    const copied = 2 * rows * PAGE_BYTES
    if (this.#left > MUCH_BYTES + written + copied && performance.now() - this.#lookedMs < LOOK_MS) return true
    this.#left = freeBytes(this.#directory)
    this.#lookedMs = performance.now()
    if (this.#left >= written + copied) return true
    // No more pages are copied than the file has.
    return this.#left >= written + Math.min(copied, statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0)
  }
}

/** For a directory that was not made yet, or that was removed, those of the one above it. */
function freeBytes(directory: string): number {
  if (!statSync(directory, { throwIfNoEntry: false })) return freeBytes(dirname(directory))
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** Delay before the next attempt. */
const RETRY_MS = 500

/** Repeats work that fails because the disk is full. */
export class SpaceRetry {
  #isFull = false
  #isEnded = false

  /** Whether work waits for space. */
  get isFull(): boolean {
    return this.#isFull
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /**
   * Runs work until there is space for it; returns false if that was given up by `end`.
   * @param hasFailed The first attempt was made before and has failed.
   */
  async run(work: () => void | Promise<void>, hasFailed = false): Promise<boolean> {
    for (let isAgain = hasFailed; ; isAgain = true) {
      if (isAgain) {
        this.#isFull = true
        await new Promise<void>((resolve) => setTimeout(resolve, RETRY_MS))
        if (this.#isEnded) return false
      }
      try {
        await work()
        this.#isFull = false
        return true
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
      }
    }
  }

  /** Stops repeating work. */
  end(): void {
    this.#isEnded = true
  }
}
