import { createHash } from 'node:crypto'
import type { Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'

/** Whether a data file is read as JSON5. Such a file is not written. */
export function isJson5(path: string): boolean {
  return /\.json5$/i.test(path)
}

export interface FileContent {
  /** SHA-256. */
  readonly hash: string
  /** The signature of the file while it had this content. */
  readonly signature: string
  readonly size: number
}

/** How often to retry reading a file that changes while it is read. */
const MOST_ATTEMPTS = 20
const READ_BYTES = 1024 * 1024

/** Fills the buffer with the next bytes of a file. Resolves with their number, which is less only at the end of the file. */
export type ReadBytes = (into: Buffer) => Promise<number>

/**
 * Reads a file to its end with `use`, and identifies its content. Calls `use` again if the file has changed meanwhile.
 * Undefined if there is no file.
 */
export async function contentOf(
  files: Files,
  path: string,
  use: (read: ReadBytes, size: number) => Promise<unknown> = discard,
): Promise<FileContent | undefined> {
  for (let attempts = 0; attempts < MOST_ATTEMPTS; attempts++) {
    const stat = await files.stat(path).catch((error) => Promise.reject(unreadable(path, error)))
    if (!stat) return undefined
    if (!stat.isFile) throw noFile(path)
    const hash = createHash('sha256')
    const isThere = await withReader(files, path, async (read, size) => {
      const hashed: ReadBytes = async (into) => {
        const bytes = await read(into)
        hash.update(into.subarray(0, bytes))
        return bytes
      }
      await use(hashed, size)
    })
    const isSame = (await files.stat(path))?.signature === stat.signature
    if (isThere && isSame) return { hash: hash.digest('hex'), signature: stat.signature, size: stat.size }
  }
  throw alwaysWritten(path)
}

/** Opens a file for `use`. False if it has disappeared. */
export async function withReader(
  files: Files,
  path: string,
  use: (read: ReadBytes, size: number) => Promise<unknown>,
): Promise<boolean> {
  const file = await files.open(path, 'read').catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error)
  })
  if (!file) return false
  try {
    const size = await file.size()
    let offset = 0
    await use(async (into) => {
      let filled = 0
      // Bounded by the initial size, so that a growing file is not read for ever.
      while (filled < into.length && offset < size) {
        const rest = into.subarray(filled, filled + size - offset)
        const bytes = await file.read(rest, offset).catch((error) => Promise.reject(unreadable(path, error)))
        if (bytes === 0) break
        filled += bytes
        offset += bytes
      }
      return filled
    }, size)
    return true
  } finally {
    await file.close()
  }
}

/** Reads bytes in memory like those of a file. */
export function bytesReader(bytes: Buffer): ReadBytes {
  let offset = 0
  return async (into) => {
    const copied = bytes.copy(into, 0, offset)
    offset += copied
    return copied
  }
}

async function discard(read: ReadBytes): Promise<void> {
  const into = Buffer.allocUnsafeSlow(READ_BYTES)
  while ((await read(into)) > 0);
}

export function alwaysWritten(path: string): Refusal {
  return new Refusal('Unavailable', `The data file ${path} keeps changing; try again later.`)
}

/** Checked before opening: opening a pipe without a writer would block. */
export function noFile(path: string): Refusal {
  const fault = { pointer: '', message: 'is a directory, a pipe or a device' }
  return new Refusal('Invalid', `The data file ${path} ${fault.message}. It must be a regular file.`, [fault])
}

/** Temporary: an operator may repair it at any time. */
function unreadable(path: string, error: unknown): Refusal {
  return new Refusal('Unavailable', `The data file ${path} cannot be read: ${(error as Error).message}.`)
}
