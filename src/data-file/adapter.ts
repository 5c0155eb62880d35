import { createHash } from 'node:crypto'
import type { Adapter } from 'lowdb'
import type { CollectionTexts } from '../collections/file-items.ts'
import { holdsObject } from '../collections/stored-items.ts'
import { directoryOf, type Files, type OpenFile, readFully, writeChunks, writeNew } from '../files/files.ts'
import { indented } from '../json/indented.ts'
import { Refusal } from '../runtime/errors.ts'
import { temporaryPath } from './state-file.ts'

export interface FileContent {
  /** SHA-256. */
  readonly hash: string
  /** The signature of the file while it had this content. */
  readonly signature: string
  readonly size: number
}

/** A content with its bytes, in pieces. */
export interface FileBytes {
  readonly pieces: readonly Buffer[]
  readonly content: FileContent
}

export interface AdapterOptions {
  readonly files: Files
  /** Symbolic links are resolved. */
  readonly path: string
  /** Called before each part of a new file is written; throwing keeps the old file. */
  readonly beforePart: () => void
  /** Called when the new content is durable under its temporary name; throwing keeps the old file. */
  readonly beforeReplace: (hash: string) => Promise<void>
  /** Called before the file is written in place; throwing keeps the old content. */
  readonly beforeOverwrite: () => Promise<void>
  /** Called as soon as the new content is in place. */
  readonly replaced: (content: FileContent, isInPlace: boolean) => void
  /** Called when a write in place failed and left a beginning of the new content. */
  readonly torn: (content: FileContent) => void
  /** Whether such a beginning is on disk. */
  readonly isTorn: () => boolean
}

/** Errors of a rename over a mounted file, or in a read-only directory. */
const IRREPLACEABLE = ['EBUSY', 'EXDEV', 'EACCES', 'EPERM', 'EROFS']

/**
 * Reads and writes the data file for lowdb, whose own adapter neither syncs nor streams. A write is durable and atomic
 * (temporary file → fsync → rename → directory fsync) and keeps the file's mode. A file that cannot be replaced is
 * written in place (truncate → fsync → bytes → fsync), and again after a crash.
 */
export class DataFileAdapter implements Adapter<CollectionTexts> {
  readonly #options: AdapterOptions
  #isInPlace = false

  constructor(options: AdapterOptions) {
    this.#options = options
  }

  /** Only writing goes through lowdb: reading the file means reading an edit. */
  async read(): Promise<null> {
    return null
  }

  async write(snapshot: CollectionTexts): Promise<void> {
    if (this.#isInPlace || this.#options.isTorn()) return this.#overwrite(snapshot)
    try {
      await this.#replace(snapshot)
    } catch (error) {
      const { files, path } = this.#options
      const isIrreplaceable = IRREPLACEABLE.includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isIrreplaceable || !(await files.stat(path))?.isFile) throw error
      await this.#overwrite(snapshot)
      if (await files.stat(temporaryPath(path))) await files.remove(temporaryPath(path))
    }
  }

  async #replace(snapshot: CollectionTexts): Promise<void> {
    const { files, path, beforePart, beforeReplace, replaced } = this.#options
    const temporary = temporaryPath(path)
    const before = await files.stat(path)
    const hash = await writeSnapshot(files, temporary, snapshot, before?.mode, beforePart)
    // Must precede the rename: afterwards another program may have changed the file.
    const written = await files.stat(temporary)
    await beforeReplace(hash)
    await files.rename(temporary, path)
    replaced({ hash, signature: written?.signature ?? '', size: written?.size ?? 0 }, false)
    await files.syncDirectory(directoryOf(path))
  }

  async #overwrite(snapshot: CollectionTexts): Promise<void> {
    const { files, path, beforeOverwrite, replaced, torn, isTorn } = this.#options
    const file = await files.open(path, 'edit')
    try {
      if (isTorn()) {
        await empty(file)
        const found = await contentOf(files, path)
        // An empty file is the beginning of any content, so a crash is recognized before and after the next one is
        // recorded.
        if (found) torn(found)
      }
      await beforeOverwrite()
      this.#isInPlace = true
      try {
        await empty(file)
        const hash = createHash('sha256')
        await writeChunks(file, hashing(chunksOf(snapshot), hash))
        const written = await files.stat(path)
        replaced({ hash: hash.digest('hex'), signature: written?.signature ?? '', size: written?.size ?? 0 }, true)
      } catch (error) {
        const found = await contentOf(files, path)
        if (found && (await isBeginningOf(files, path, snapshot))) torn(found)
        throw error
      }
    } finally {
      await file.close()
    }
  }
}

async function empty(file: OpenFile): Promise<void> {
  await file.truncate(0)
  await file.sync()
}

/** Whether a crash may have left this file when a state was written in place: its first bytes, some of them zero. */
export async function isBeginningOf(files: Files, path: string, snapshot: CollectionTexts): Promise<boolean> {
  const file = await files.open(path, 'read')
  try {
    const size = await file.size()
    let offset = 0
    for (const chunk of chunksOf(snapshot)) {
      const there = await readFully(file, Math.min(chunk.length, size - offset), offset)
      const isOurs = (byte: number, index: number): boolean => byte === 0 || byte === chunk[index]
      if (!there.equals(chunk.subarray(0, there.length)) && !there.every(isOurs)) return false
      offset += there.length
      if (offset >= size) return true
    }
    return offset >= size
  } finally {
    await file.close()
  }
}

/** Writes a state as a new data file, synced; resolves with its SHA-256. */
export async function writeSnapshot(
  files: Files,
  path: string,
  snapshot: CollectionTexts,
  mode?: number,
  beforePart: () => void = () => {},
): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashing(chunksOf(snapshot), hash, beforePart), mode)
  return hash.digest('hex')
}

/** How often to retry reading a file that changes while it is read. */
const MOST_READINGS = 20

/** Consumes a file's bytes. */
export interface ByteSink {
  /** Returns space for the next bytes; `left` bytes are left. */
  room(left: number): Buffer | Promise<Buffer>
  /** Reports the number of bytes put there; 0 at the end of the file. */
  fed(bytes: number): void
}

/**
 * Reads a file consistently: checks it after reading, and reads it again with another taker if it has changed. Bytes
 * are passed in pieces, because hashing a large file, and allocating hundreds of megabytes, would block the event loop.
 */
export async function contentOf(
  files: Files,
  path: string,
  taking: () => ByteSink = hashedOnly,
): Promise<FileContent | undefined> {
  for (let readings = 0; readings < MOST_READINGS; readings++) {
    const stat = await files.stat(path)
    if (!stat) return undefined
    if (!stat.isFile) throw noFile(path)
    const hash = await hashOf(files, path, taking())
    const isSame = (await files.stat(path))?.signature === stat.signature
    if (hash !== undefined && isSame) return { hash, signature: stat.signature, size: stat.size }
  }
  throw alwaysWritten(path)
}

export function alwaysWritten(path: string): Refusal {
  return new Refusal('Unavailable', `The data file ${path} keeps changing; try again later.`)
}

/** `contentOf` with all bytes, in pieces. */
export async function readBytes(files: Files, path: string): Promise<FileBytes | undefined> {
  let pieces: Buffer[] = []
  const content = await contentOf(files, path, () => {
    pieces = []
    return gathering(pieces)
  })
  return content && { pieces, content }
}

function gathering(pieces: Buffer[]): ByteSink {
  let room: Buffer
  return {
    room(left) {
      room = Buffer.allocUnsafeSlow(Math.min(READ_BYTES, left))
      return room
    },
    fed(bytes) {
      if (bytes > 0) pieces.push(room.subarray(0, bytes))
    },
  }
}

function hashedOnly(): ByteSink {
  const room = Buffer.allocUnsafeSlow(READ_BYTES)
  return { room: () => room, fed: () => {} }
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
async function hashOf(files: Files, path: string, taker: ByteSink): Promise<string | undefined> {
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
      const room = (await taker.room(left)).subarray(0, left)
      const bytes =
        left > 0 ? await file.read(room, offset).catch((error) => Promise.reject(unreadable(path, error))) : 0
      hash.update(room.subarray(0, bytes))
      taker.fed(bytes)
      if (bytes === 0) return hash.digest('hex')
      offset += bytes
    }
  } finally {
    await file.close()
  }
}

const READ_BYTES = 1024 * 1024

function* hashing(
  chunks: Iterable<Buffer>,
  hash: { update(bytes: Uint8Array): unknown },
  beforePart: () => void = () => {},
): Generator<Buffer> {
  for (const chunk of chunks) {
    beforePart()
    hash.update(chunk)
    yield chunk
  }
}

const CHUNK_CHARACTERS = 64 * 1024

/**
 * From this number of items on, each has a single line: people no longer read all of them, and a third of the bytes
 * would be blanks.
 */
const MANY_ITEMS = 1000

/**
 * The text of a data file in pieces, as it may exceed the longest string: the format of `JSON.stringify(…, null, 2)`,
 * but with one line for each item of a large collection.
 */
function* chunksOf(snapshot: CollectionTexts): Generator<Buffer> {
  let text = '{'
  let collections = 0
  for (const [name, collection] of snapshot) {
    const isObject = holdsObject(collection)
    const indent = isObject ? '  ' : '    '
    text += `${collections++ ? ',' : ''}\n  ${JSON.stringify(name)}: ${isObject ? '' : '['}`
    let count = 0
    for (const item of collection.items()) {
      if (!isObject) text += `${count++ ? ',' : ''}\n    `
      for (const piece of collection.size < MANY_ITEMS ? indented(item.text, indent) : [item.text]) {
        text += piece
        if (text.length < CHUNK_CHARACTERS) continue
        yield Buffer.from(text)
        text = ''
      }
    }
    if (!isObject) text += count ? '\n  ]' : ']'
  }
  yield Buffer.from(`${text}${collections ? '\n}' : '}'}\n`)
}
