import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb'
import { lengthen } from './meta.ts'

export type Lmdb = RootDatabase<Buffer, Buffer>

/**
 * Virtual memory reserved for the file; lmdb reserves more when the file grows. With 2 ** 40, a process with 47-bit
 * addresses crashed when it opened about a hundred stores.
 */
const MAP_BYTES = 2 ** 34

/** LMDB reports errno values; Node uses these codes. */
const CODES: Readonly<Record<number, string>> = {
  5: 'EIO',
  23: 'ENFILE',
  24: 'EMFILE',
  27: 'EFBIG',
  28: 'ENOSPC',
  122: 'EDQUOT',
}

/** Opens or creates a file of LMDB. */
export function openLmdb(path: string): Lmdb {
  const options: RootDatabaseOptionsWithPath & { readonly permissionsMode: number } = {
    path,
    noSubdir: true,
    keyEncoding: 'binary',
    encoding: 'binary',
    cache: false,
    mapSize: MAP_BYTES,
    // The journal is durable; docs/design.md explains how the store is synced.
    noSync: true,
    overlappingSync: false,
    noMemInit: true,
    eventTurnBatching: false,
    permissionsMode: 0o600,
  }
  try {
    return open<Buffer, Buffer>(options)
  } catch (error) {
    throw withNodeCode(error)
  }
}

/** Puts a row after all others, in a transaction. Without `append`, LMDB splits full pages in half. */
export function append(db: Lmdb, key: Buffer, value: Buffer): void {
  db.putSync(key, value, { append: true })
}

/** Puts a row in a transaction unless one has its key; returns whether it was put. */
export function putNew(db: Lmdb, key: Buffer, value: Buffer): boolean {
  // The types of lmdb have a result only for puts without options.
  return (db.putSync(key, value, { noOverwrite: true }) as unknown) === true
}

/** The last key; empty if there are no rows. */
export function lastKey(db: Lmdb): Buffer {
  for (const key of db.getKeys({ reverse: true, limit: 1 })) return Buffer.from(key)
  return Buffer.alloc(0)
}

/** Size of the pages in use, without free pages. */
export function usedBytes(db: Lmdb): number {
  const { pageSize, treeBranchPageCount, treeLeafPageCount, overflowPages } = db.getStats() as {
    readonly pageSize: number
    readonly treeBranchPageCount: number
    readonly treeLeafPageCount: number
    readonly overflowPages: number
  }
  return pageSize * (treeBranchPageCount + treeLeafPageCount + overflowPages)
}

/** Resolves when all commits are on the disk. */
export function synced(db: Lmdb): Promise<void> {
  // The types lack it.
  const { env } = db as unknown as { readonly env: { sync(done: (error?: Error) => void): void } }
  return new Promise((resolve, reject) => env.sync((error) => (error ? reject(error) : resolve())))
}

/** The number of the last page that the last transaction knows. */
function lastPage(db: Lmdb): number {
  const { env } = db as unknown as { readonly env: { info(): { readonly lastPageNumber: number } } }
  return env.info().lastPageNumber
}

/** Gives an error of LMDB the code that Node would use. */
export function withNodeCode(error: unknown): NodeJS.ErrnoException {
  const known = error as Error & { code?: unknown }
  if (typeof known.code === 'number') known.code = CODES[known.code]
  return known as NodeJS.ErrnoException
}

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
