import { createHash } from 'node:crypto'
import type { Adapter } from 'lowdb'
import type { Picture } from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import { directoryOf, type Files, writeNew } from '../../files/files.ts'
import { indented } from '../../json/indented.ts'
import { temporaryPath } from './state.ts'

/** A content of the data file. */
export interface Content {
  /** SHA-256. */
  readonly hash: string
  /** Of the file as it was when it had this content. */
  readonly signature: string
}

export interface AdapterOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  /** Called when the new content is durable under its temporary name; what it throws keeps the old file. */
  readonly beforeReplace: (hash: string) => Promise<void>
  /** Called as soon as the new content is in place. */
  readonly replaced: (content: Content) => void
}

/**
 * Reads and writes the data file for lowdb, whose own adapter neither syncs nor streams. A write is durable and
 * whole: temporary file → fsync → rename → directory fsync; the file's mode is kept.
 */
export class DataFileAdapter implements Adapter<Picture> {
  readonly #options: AdapterOptions

  constructor(options: AdapterOptions) {
    this.#options = options
  }

  /** It is only ever written: what is read of the file is an edit, and that is another matter. */
  async read(): Promise<null> {
    return null
  }

  async write(picture: Picture): Promise<void> {
    const { files, path, beforeReplace, replaced } = this.#options
    const temporary = temporaryPath(path)
    const before = await files.stat(path)
    const hash = await writePicture(files, temporary, picture, before?.mode)
    // Looked at before the rename: afterwards the file might be somebody else's already.
    const written = await files.stat(temporary)
    await beforeReplace(hash)
    await files.rename(temporary, path)
    replaced({ hash, signature: written?.signature ?? '' })
    await files.syncDirectory(directoryOf(path))
  }
}

/** Writes a state as a new data file, synced; resolves with its SHA-256. */
export async function writePicture(files: Files, path: string, picture: Picture, mode?: number): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashing(chunksOf(picture), hash), mode)
  return hash.digest('hex')
}

/** So often a file is read that others write to meanwhile. */
const MOST_READINGS = 20

/** What the file holds, as it is when this resolves: looked at again after it was read, and read again when it is another one. */
export async function readContent(
  files: Files,
  path: string,
): Promise<{ readonly bytes: Buffer; readonly content: Content } | undefined> {
  for (let readings = 0; readings < MOST_READINGS; readings++) {
    const stat = await files.stat(path)
    if (!stat) return undefined
    const read = await readHashed(files, path)
    const isSame = (await files.stat(path))?.signature === stat.signature
    if (read && isSame) return { bytes: read.bytes, content: { hash: read.hash, signature: stat.signature } }
  }
  throw new Refusal('Unavailable', `The data file ${path} is being written to all the time; try again when it is not.`)
}

/** Undefined when it has gone meanwhile. */
async function readHashed(
  files: Files,
  path: string,
): Promise<{ readonly bytes: Buffer; readonly hash: string } | undefined> {
  const hash = createHash('sha256')
  const file = await files.open(path, 'read').catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  })
  if (!file) return undefined
  try {
    const bytes = Buffer.allocUnsafeSlow(await file.size())
    let size = 0
    // In slices, as a large file would hold everybody.
    for (let count = 1; count > 0 && size < bytes.length; size += count) {
      const slice = bytes.subarray(size, size + READ_BYTES)
      count = await file.read(slice, size)
      hash.update(slice.subarray(0, count))
    }
    return { bytes: bytes.subarray(0, size), hash: hash.digest('hex') }
  } finally {
    await file.close()
  }
}

const READ_BYTES = 1024 * 1024

function* hashing(chunks: Iterable<Buffer>, hash: { update(bytes: Uint8Array): unknown }): Generator<Buffer> {
  for (const chunk of chunks) {
    hash.update(chunk)
    yield chunk
  }
}

const CHUNK_CHARACTERS = 64 * 1024

/** The same text as `JSON.stringify(…, null, 2)` of the whole, in pieces: it may be longer than a string can be. */
function* chunksOf(picture: Picture): Generator<Buffer> {
  let text = '{'
  let collections = 0
  for (const [name, items] of picture) {
    text += `${collections++ ? ',' : ''}\n  ${JSON.stringify(name)}: [`
    let count = 0
    for (const item of items) {
      text += `${count++ ? ',' : ''}\n    ${indented(item.text, '    ')}`
      if (text.length < CHUNK_CHARACTERS) continue
      yield Buffer.from(text)
      text = ''
    }
    text += count ? '\n  ]' : ']'
  }
  yield Buffer.from(`${text}${collections ? '\n}' : '}'}\n`)
}
