import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs'
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
    // The journal is durable; the store is synced when its recovery point advances.
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

/** Gives an error of LMDB the code that Node would use. */
export function withNodeCode(error: unknown): NodeJS.ErrnoException {
  const known = error as Error & { code?: unknown }
  if (typeof known.code === 'number') known.code = CODES[known.code]
  return known as NodeJS.ErrnoException
}

/*
 * The rest of this file relies on private parts of lmdb 3.5.6: its environment object, and the format of its file.
 * `test/store/store.test.ts` compares both with what its public functions say, so that it fails if an upgrade changes them.
 */

/** Resolves when all commits are on the disk. */
export function synced(db: Lmdb): Promise<void> {
  // The types lack it.
  const { env } = db as unknown as { readonly env: { sync(done: (error?: Error) => void): void } }
  return new Promise((resolve, reject) => env.sync((error) => (error ? reject(error) : resolve())))
}

/** A commit whose pages LMDB does not write to until it is released. */
export interface PinnedCommit {
  /** The meta page that refers to its pages. */
  readonly meta: Buffer
  release(): void
}

/** Pins the newest commit. Must not be called in a transaction. */
export function pinNewest(db: Lmdb, path: string): PinnedCommit {
  const begin = db.useReadTransaction.bind(db)
  // Garbage collection would end a transaction without a reference. If it is older than `meta`, it keeps more pages.
  let transaction: ReturnType<typeof begin> | undefined = begin()
  const release = (): void => {
    transaction?.done()
    transaction = undefined
  }
  const meta = newestMeta(path)
  if (meta) return { meta, release }
  release()
  throw new Error(`The first pages of ${path} are damaged.`)
}

/** The minimum size of a file that holds all pages of a commit. */
export function bytesOf(meta: Buffer): number {
  return Number(meta.readBigUInt64LE(META.lastPage) + 1n) * meta.readUInt32LE(META.pageBytes)
}

/**
 * Makes a commit the newest of a closed file, durably: both meta pages refer to it, whatever they were. All of its
 * pages must have been synced, and none may have been written to since.
 */
export function goBackTo(meta: Buffer, path: string): void {
  const newest = meta.readBigUInt64LE(META.transaction)
  const file = openSync(path, 'r+')
  try {
    for (const back of [1n, 0n]) {
      // LMDB writes the meta page of a transaction to the first or the second page by turns.
      const page = (newest - back) & 1n
      const copy = Buffer.from(meta)
      copy.writeBigUInt64LE(page, 0)
      copy.writeBigUInt64LE(newest > back ? newest - back : newest, META.transaction)
      writeSync(file, copy, 0, copy.length, Number(page) * meta.readUInt32LE(META.pageBytes))
    }
    if (fstatSync(file).size < bytesOf(meta)) ftruncateSync(file, bytesOf(meta))
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** The meta page of the newest commit; undefined if one of both is damaged, so that it may be another one. */
export function newestMeta(path: string): Buffer | undefined {
  const file = openSync(path, 'r')
  try {
    const first = metaPageAt(file, 0)
    const second = first && metaPageAt(file, first.pageBytes)
    if (!first || !second || first.pageBytes !== second.pageBytes || first.freeFlags !== second.freeFlags)
      return undefined
    const { bytes, roots, lastPage } = first.transaction > second.transaction ? first : second
    // LMDB would read beyond the file.
    return roots.some((root) => root !== NO_ROOT && (root < 2n || root > lastPage)) ? undefined : bytes
  } finally {
    closeSync(file)
  }
}

interface MetaPage {
  readonly bytes: Buffer
  readonly pageBytes: number
  readonly freeFlags: number
  readonly roots: readonly bigint[]
  readonly lastPage: bigint
  readonly transaction: bigint
}

/**
 * Offsets of the fields of LMDB's meta pages, the first two pages of its file (`MDB_page_header` and `MDB_meta` in mdb.c).
 * LMDB verifies little of them: if one is damaged or refers to pages beyond the file, the process ends with SIGSEGV or
 * SIGBUS.
 */
export const META = {
  pageFlags: 18,
  magic: 24,
  pageBytes: 48,
  freeFlags: 52,
  freeRoot: 88,
  mainFlags: 100,
  mainRoot: 136,
  lastPage: 144,
  transaction: 152,
} as const
const META_BYTES = 168
/** The flag of a meta page. */
const IS_META = 8
const MAGIC = Buffer.from('dec0efbe02000000', 'hex')
/** The root of an empty tree. */
const NO_ROOT = 2n ** 64n - 1n
const PAGE_BYTES = { least: 512, most: 65536 } as const

function metaPageAt(file: number, offset: number): MetaPage | undefined {
  const page = Buffer.alloc(META_BYTES)
  if (readSync(file, page, 0, META_BYTES, offset) < META_BYTES) return undefined
  const pageBytes = page.readUInt32LE(META.pageBytes)
  const isMeta =
    page.readUInt16LE(META.pageFlags) === IS_META && page.subarray(META.magic, META.magic + MAGIC.length).equals(MAGIC)
  if (!isMeta || pageBytes < PAGE_BYTES.least || pageBytes > PAGE_BYTES.most) return undefined
  if (page.readUInt16LE(META.mainFlags) !== 0) return undefined
  return {
    bytes: page,
    pageBytes,
    freeFlags: page.readUInt16LE(META.freeFlags),
    roots: [page.readBigUInt64LE(META.freeRoot), page.readBigUInt64LE(META.mainRoot)],
    lastPage: page.readBigUInt64LE(META.lastPage),
    transaction: page.readBigUInt64LE(META.transaction),
  }
}
