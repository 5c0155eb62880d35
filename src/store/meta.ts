import { closeSync, openSync, readSync, statSync, truncateSync } from 'node:fs'
import { crc32 } from 'node:zlib'

/**
 * Offsets of the fields of LMDB's meta pages, the first two pages of its file, in lmdb 3.5.6 (`MDB_page_header` and
 * `MDB_meta` in mdb.c). LMDB verifies little of them: if one is damaged or refers to pages beyond the file, the process
 * ends with SIGSEGV or SIGBUS.
 */
const AT = {
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
const BYTES = 160
const META_PAGE = 8
const MAGIC = Buffer.from('dec0efbe02000000', 'hex')
const NO_ROOT = 2n ** 64n - 1n
const PAGE_BYTES = { least: 512, most: 65536 } as const

/** A summary of LMDB's meta pages. */
export interface Meta {
  /** The minimum size of a file that holds all pages in use. */
  readonly bytes: number
  readonly crc: number
}

interface MetaPage {
  readonly noted: Buffer
  readonly pageBytes: number
  readonly freeFlags: number
  readonly roots: readonly bigint[]
  readonly lastPage: bigint
  readonly transaction: bigint
}

/** Undefined if the file is not a database, or its meta pages are so damaged that LMDB cannot open it. */
export function metaOf(path: string): Meta | undefined {
  const file = openSync(path, 'r')
  try {
    const first = metaAt(file, 0)
    const second = first && metaAt(file, first.pageBytes)
    if (!first || !second || first.pageBytes !== second.pageBytes || first.freeFlags !== second.freeFlags)
      return undefined
    const { roots, lastPage, pageBytes } = first.transaction > second.transaction ? first : second
    if (roots.some((root) => root !== NO_ROOT && (root < 2n || root > lastPage))) return undefined
    return { bytes: Number(lastPage + 1n) * pageBytes, crc: crc32(second.noted, crc32(first.noted)) }
  } finally {
    closeSync(file)
  }
}

/**
 * Extends the file to the size that LMDB expects: pages at its end that a transaction allocated and freed again are not
 * written. After that, a shorter file must have been truncated.
 */
export function lengthen(path: string): void {
  try {
    const bytes = metaOf(path)?.bytes ?? 0
    if (statSync(path).size < bytes) truncateSync(path, bytes)
  } catch {
    // If it stays short, the next start rebuilds the store.
  }
}

function metaAt(file: number, offset: number): MetaPage | undefined {
  const page = Buffer.alloc(BYTES)
  if (readSync(file, page, 0, BYTES, offset) < BYTES) return undefined
  const pageBytes = page.readUInt32LE(AT.pageBytes)
  const isMeta =
    page.readUInt16LE(AT.pageFlags) === META_PAGE && page.subarray(AT.magic, AT.magic + MAGIC.length).equals(MAGIC)
  if (!isMeta || pageBytes < PAGE_BYTES.least || pageBytes > PAGE_BYTES.most) return undefined
  if (page.readUInt16LE(AT.mainFlags) !== 0) return undefined
  return {
    noted: page,
    pageBytes,
    freeFlags: page.readUInt16LE(AT.freeFlags),
    roots: [page.readBigUInt64LE(AT.freeRoot), page.readBigUInt64LE(AT.mainRoot)],
    lastPage: page.readBigUInt64LE(AT.lastPage),
    transaction: page.readBigUInt64LE(AT.transaction),
  }
}
