import { open, type RootDatabase, type RootDatabaseOptionsWithPath } from 'lmdb'

export type Lmdb = RootDatabase<Buffer, Buffer>

/**
 * Virtual memory that is reserved for the file; lmdb reserves more when the file has grown to it. With 2 ** 40 a process
 * of 47-bit addresses crashed when it opened about a hundred stores.
 */
const MAP_BYTES = 2 ** 34

/** What LMDB tells by the system's number, by the name that Node gives it. */
const CODES: Readonly<Record<number, string>> = {
  5: 'EIO',
  23: 'ENFILE',
  24: 'EMFILE',
  27: 'EFBIG',
  28: 'ENOSPC',
  122: 'EDQUOT',
}

/** Opens a file of LMDB, or makes one. */
export function openLmdb(path: string): Lmdb {
  const options: RootDatabaseOptionsWithPath & { readonly permissionsMode: number } = {
    path,
    noSubdir: true,
    keyEncoding: 'binary',
    encoding: 'binary',
    cache: false,
    mapSize: MAP_BYTES,
    // The journal is what is durable; see docs/design.md for how the store reaches the disk.
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

/**
 * Puts a row whose key is behind all others, in a transaction. LMDB divides a full page in halves, also when rows come in the order
 * of their keys, unless it is told that nothing is behind.
 */
export function append(db: Lmdb, key: Buffer, value: Buffer): void {
  db.putSync(key, value, { append: true })
}

/** The key behind all others, empty where there are no rows. */
export function lastKey(db: Lmdb): Buffer {
  for (const key of db.getKeys({ reverse: true, limit: 1 })) return Buffer.from(key)
  return Buffer.alloc(0)
}

/** The bytes of the pages in use, without those that are free to be used again. */
export function usedBytes(db: Lmdb): number {
  const { pageSize, treeBranchPageCount, treeLeafPageCount, overflowPages } = db.getStats() as {
    readonly pageSize: number
    readonly treeBranchPageCount: number
    readonly treeLeafPageCount: number
    readonly overflowPages: number
  }
  return pageSize * (treeBranchPageCount + treeLeafPageCount + overflowPages)
}

/** An error of LMDB with a code like those of Node. */
export function named(error: unknown): NodeJS.ErrnoException {
  const known = error as Error & { code?: unknown }
  if (typeof known.code === 'number') known.code = CODES[known.code]
  return known as NodeJS.ErrnoException
}
