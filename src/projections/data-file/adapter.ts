import { createHash } from 'node:crypto'
import type { Adapter } from 'lowdb'
import { holdsObject } from '../../collections/collection.ts'
import type { Texts } from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import { directoryOf, type Files, type OpenFile, readFully, writeChunks, writeNew } from '../../files/files.ts'
import { indented } from '../../json/indented.ts'
import { temporaryPath } from './state.ts'

/** A content of the data file. */
export interface Content {
  /** SHA-256. */
  readonly hash: string
  /** Of the file as it was when it had this content. */
  readonly signature: string
  readonly size: number
}

/** A content with its bytes, in pieces. */
export interface ReadContent {
  readonly pieces: readonly Buffer[]
  readonly content: Content
}

export interface AdapterOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  /** Called before each part of a new file is written; what it throws keeps the old file. */
  readonly beforePart: () => void
  /** Called when the new content is durable under its temporary name; what it throws keeps the old file. */
  readonly beforeReplace: (hash: string) => Promise<void>
  /** Called before the file is written in place; what it throws keeps the old content. */
  readonly beforeOverwrite: () => Promise<void>
  /** Called as soon as the new content is in place. */
  readonly replaced: (content: Content, isInPlace: boolean) => void
  /** Called when writing in place failed half-way and left a beginning of the new content. */
  readonly torn: (content: Content) => void
  /** Whether that is what is on disk. */
  readonly isTorn: () => boolean
}

/** A rename fails with one of these where a file is mounted, or its directory cannot be written to. */
const IRREPLACEABLE = ['EBUSY', 'EXDEV', 'EACCES', 'EPERM', 'EROFS']

/**
 * Reads and writes the data file for lowdb, whose own adapter neither syncs nor streams. A write is durable and
 * whole: temporary file → fsync → rename → directory fsync; the file's mode is kept. A file that cannot be replaced is
 * written in place: truncate → fsync → bytes → fsync, and after a crash again.
 */
export class DataFileAdapter implements Adapter<Texts> {
  readonly #options: AdapterOptions
  #isInPlace = false

  constructor(options: AdapterOptions) {
    this.#options = options
  }

  /** It is only ever written: what is read of the file is an edit, and that is another matter. */
  async read(): Promise<null> {
    return null
  }

  async write(picture: Texts): Promise<void> {
    if (this.#isInPlace || this.#options.isTorn()) return this.#overwrite(picture)
    try {
      await this.#replace(picture)
    } catch (error) {
      const { files, path } = this.#options
      const isIrreplaceable = IRREPLACEABLE.includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isIrreplaceable || !(await files.stat(path))?.isFile) throw error
      await this.#overwrite(picture)
      if (await files.stat(temporaryPath(path))) await files.remove(temporaryPath(path))
    }
  }

  async #replace(picture: Texts): Promise<void> {
    const { files, path, beforePart, beforeReplace, replaced } = this.#options
    const temporary = temporaryPath(path)
    const before = await files.stat(path)
    const hash = await writePicture(files, temporary, picture, before?.mode, beforePart)
    // Looked at before the rename: afterwards the file might be somebody else's already.
    const written = await files.stat(temporary)
    await beforeReplace(hash)
    await files.rename(temporary, path)
    replaced({ hash, signature: written?.signature ?? '', size: written?.size ?? 0 }, false)
    await files.syncDirectory(directoryOf(path))
  }

  async #overwrite(picture: Texts): Promise<void> {
    const { files, path, beforeOverwrite, replaced, torn, isTorn } = this.#options
    const file = await files.open(path, 'edit')
    try {
      if (isTorn()) {
        await empty(file)
        const found = await contentOf(files, path)
        // No bytes are the beginning of any content: a crash may come before or after the next one is noted.
        if (found) torn(found)
      }
      await beforeOverwrite()
      this.#isInPlace = true
      try {
        await empty(file)
        const hash = createHash('sha256')
        await writeChunks(file, hashing(chunksOf(picture), hash))
        const written = await files.stat(path)
        replaced({ hash: hash.digest('hex'), signature: written?.signature ?? '', size: written?.size ?? 0 }, true)
      } catch (error) {
        const found = await contentOf(files, path)
        if (found && (await isBeginningOf(files, path, picture))) torn(found)
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

/** Whether a file is what a crash may leave of a state that was written in place: its first bytes, some of them zero. */
export async function isBeginningOf(files: Files, path: string, picture: Texts): Promise<boolean> {
  const file = await files.open(path, 'read')
  try {
    const size = await file.size()
    let offset = 0
    for (const chunk of chunksOf(picture)) {
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
export async function writePicture(
  files: Files,
  path: string,
  picture: Texts,
  mode?: number,
  beforePart: () => void = () => {},
): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashing(chunksOf(picture), hash, beforePart), mode)
  return hash.digest('hex')
}

/** So often a file is read that others write to meanwhile. */
const MOST_READINGS = 20

/** Takes a file's bytes. */
export interface Taker {
  /** Where the next bytes are put; so many are left. */
  room(left: number): Buffer | Promise<Buffer>
  /** So many were put there; none at the end of the file. */
  fed(bytes: number): void
}

/**
 * The file as it is when this resolves: looked at again after it was read, and read again when it is another one, by
 * another taker. Whoever takes its bytes takes them in pieces, as a large file would hold everybody, while it is hashed
 * and when it is given memory: V8 gives hundreds of megabytes with collections of garbage.
 */
export async function contentOf(
  files: Files,
  path: string,
  taking: () => Taker = hashedOnly,
): Promise<Content | undefined> {
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
  return new Refusal('Unavailable', `The data file ${path} is being written to all the time; try again when it is not.`)
}

/** The same with all of its bytes, in pieces. */
export async function readContent(files: Files, path: string): Promise<ReadContent | undefined> {
  let pieces: Buffer[] = []
  const content = await contentOf(files, path, () => {
    pieces = []
    return gathering(pieces)
  })
  return content && { pieces, content }
}

function gathering(pieces: Buffer[]): Taker {
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

function hashedOnly(): Taker {
  const room = Buffer.allocUnsafeSlow(READ_BYTES)
  return { room: () => room, fed: () => {} }
}

/** Before it is opened: a pipe without a writer would never open. */
export function noFile(path: string): Refusal {
  const fault = { pointer: '', message: 'is a directory, a pipe or a device' }
  return new Refusal('Invalid', `The data file ${path} ${fault.message}. It must be a regular file.`, [fault])
}

/** Nobody but the operating system can help, and it may do so at any time. */
function unreadable(path: string, error: unknown): Refusal {
  return new Refusal('Unavailable', `The data file ${path} cannot be read: ${(error as Error).message}.`)
}

/** Undefined when it has gone meanwhile. */
async function hashOf(files: Files, path: string, taker: Taker): Promise<string | undefined> {
  const hash = createHash('sha256')
  const file = await files.open(path, 'read').catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error)
  })
  if (!file) return undefined
  try {
    const size = await file.size()
    for (let offset = 0; ; ) {
      const left = size - offset
      // What comes meanwhile makes it another file: one that grows and grows is not read for ever.
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

/** A collection of so many items has one item a line: people no longer read all of it, and a third of the bytes would be blanks. */
const MANY_ITEMS = 1000

/**
 * The text of a data file, in pieces, as it may be longer than a string can be: as `JSON.stringify(…, null, 2)` makes it, but that
 * the items of a collection of many have a line each.
 */
function* chunksOf(picture: Texts): Generator<Buffer> {
  let text = '{'
  let collections = 0
  for (const [name, collection] of picture) {
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
