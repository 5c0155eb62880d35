import { createHash } from 'node:crypto'
import type { Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'

export interface FileContent {
  /** SHA-256. */
  readonly hash: string
  /** The signature of the file while it had this content. */
  readonly signature: string
  readonly size: number
}

/** How often to retry reading a file that changes while it is read. */
const MOST_READINGS = 20

export interface ByteSink {
  /** Returns space for the next bytes; `left` bytes are left. */
  allocate(left: number): Buffer | Promise<Buffer>
  /** Reports the number of bytes put there; 0 at the end of the file. */
  commit(bytes: number): void
}

/**
 * Reads a file consistently: checks it after reading, and reads it again into another sink if it has changed. Bytes
 * are passed in pieces, because hashing a large file, and allocating hundreds of megabytes, would block the event loop.
 */
export async function contentOf(
  files: Files,
  path: string,
  newSink: () => ByteSink = discardingSink,
): Promise<FileContent | undefined> {
  for (let readings = 0; readings < MOST_READINGS; readings++) {
    const stat = await files.stat(path).catch((error) => Promise.reject(unreadable(path, error)))
    if (!stat) return undefined
    if (!stat.isFile) throw noFile(path)
    const hash = await hashOf(files, path, newSink())
    const isSame = (await files.stat(path))?.signature === stat.signature
    if (hash !== undefined && isSame) return { hash, signature: stat.signature, size: stat.size }
  }
  throw alwaysWritten(path)
}

export function alwaysWritten(path: string): Refusal {
  return new Refusal('Unavailable', `The data file ${path} keeps changing; try again later.`)
}

/** The bytes of a file in pieces, read as consistently as by `contentOf`. */
export async function piecesOf(files: Files, path: string): Promise<readonly Buffer[] | undefined> {
  let pieces: Buffer[] = []
  const content = await contentOf(files, path, () => {
    pieces = []
    return collectingSink(pieces)
  })
  return content && pieces
}

function collectingSink(pieces: Buffer[]): ByteSink {
  let room: Buffer
  return {
    allocate(left) {
      room = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, left))
      return room
    },
    commit(bytes) {
      if (bytes > 0) pieces.push(room.subarray(0, bytes))
    },
  }
}

function discardingSink(): ByteSink {
  const room = Buffer.allocUnsafeSlow(READ_BYTES)
  return { allocate: () => room, commit: () => {} }
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

/** Undefined if the file has disappeared. */
async function hashOf(files: Files, path: string, sink: ByteSink): Promise<string | undefined> {
  const hash = createHash('sha256')
  const file = await files.open(path, 'read').catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error)
  })
  if (!file) return undefined
  try {
    const size = await file.size()
    for (let offset = 0; ; ) {
      const left = size - offset
      // Bounded by the initial size, so that a growing file is not read for ever.
      const room = (await sink.allocate(left)).subarray(0, left)
      const bytes =
        left > 0 ? await file.read(room, offset).catch((error) => Promise.reject(unreadable(path, error))) : 0
      hash.update(room.subarray(0, bytes))
      sink.commit(bytes)
      if (bytes === 0) return hash.digest('hex')
      offset += bytes
    }
  } finally {
    await file.close()
  }
}

const READ_BYTES = 1024 * 1024
