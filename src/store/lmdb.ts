import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb'

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
    throw named(error)
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
export function lastPage(db: Lmdb): number {
  const { env } = db as unknown as { readonly env: { info(): { readonly lastPageNumber: number } } }
  return env.info().lastPageNumber
}

/** Gives an error of LMDB the code that Node would use. */
export function named(error: unknown): NodeJS.ErrnoException {
  const known = error as Error & { code?: unknown }
  if (typeof known.code === 'number') known.code = CODES[known.code]
  return known as NodeJS.ErrnoException
}
