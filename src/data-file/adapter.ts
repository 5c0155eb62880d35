import { createHash, type Hash } from 'node:crypto'
import type { Adapter } from 'lowdb'
import type { Base } from '../commands/difference.ts'
import { directoryOf, type Files, isUnwritable, putInPlace, writeChunks, writeNew } from '../files/files.ts'
import type { Snapshot } from '../projections/views.ts'
import { contentOf, withReader } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { DEFAULT_LAYOUT, fileText, type Layout, layoutOf } from './layout.ts'
import { type ContentMark, makeTemporaryPath, removeTemporary } from './state-file.ts'

interface AdapterOptions {
  readonly files: Files
  readonly path: string
  readonly idField: string
  readonly onDisk: FileOnDisk
  /** Called before each part of a new file is written; throwing keeps the old file. */
  readonly beforePart: () => void
  /** Called before the file is replaced or overwritten by this content; throwing keeps the old one. */
  readonly beforeReplace: (pending: ContentMark) => Promise<void>
  /** Called before the file is written in place; throwing keeps the old content. */
  readonly beforeOverwrite: () => void
}

/**
 * Reads and writes the data file for lowdb, whose own adapter neither syncs nor streams. A write is durable and atomic
 * (temporary file → fsync → exchange with the data file → directory fsync) and keeps the file's mode. A file that cannot
 * be replaced is written in place (truncate → fsync → bytes → fsync), and again after a crash.
 */
export class DataFileAdapter implements Adapter<Snapshot> {
  readonly #options: AdapterOptions
  /** The file that cannot be replaced. */
  #irreplaceable: string | undefined

  constructor(options: AdapterOptions) {
    this.#options = options
  }

  /** Only writing goes through lowdb: reading the file means reading an edit. */
  async read(): Promise<null> {
    return null
  }

  async write(snapshot: Snapshot): Promise<void> {
    const { files, path, onDisk } = this.#options
    const target = await files.follow(path)
    if (this.#irreplaceable === target || onDisk.isTorn) return this.#overwrite(snapshot)
    try {
      await this.#replace(target, snapshot)
    } catch (error) {
      if (!isUnwritable(error) || !(await files.stat(path))?.isFile) throw error
      this.#irreplaceable = target
      await this.#overwrite(snapshot)
      await removeTemporary(files, path)
    }
  }

  async #replace(target: string, snapshot: Snapshot): Promise<void> {
    const { files, path, idField, onDisk, beforePart, beforeReplace } = this.#options
    const directory = directoryOf(target)
    if (!(await files.stat(directory))) {
      const message = `The directory ${directory} of the data file ${path} does not exist`
      throw Object.assign(new Error(message), { code: 'ENOENT' })
    }
    const temporary = await makeTemporaryPath(files, target)
    const before = await files.stat(target)
    const layout = before ? await layoutAt(files, target) : DEFAULT_LAYOUT
    const digest = createHash('sha256')
    const chunks = hashed(textChunks(snapshot, layout, idField), digest, beforePart)
    await writeNew(files, temporary, chunks, before?.mode)
    const hash = digest.digest('hex')
    // Must precede the exchange: afterwards another program may have changed the file.
    const written = await files.stat(temporary)
    await beforeReplace({ position: snapshot.position, hash, replaces: onDisk.content?.hash })
    const isOldKept = await putInPlace(files, temporary, target)
    const content = { hash, signature: written?.signature ?? '', size: written?.size ?? 0 }
    onDisk.setReplaced(content, target, isOldKept ? temporary : undefined)
    await files.syncDirectory(directoryOf(temporary))
    await files.syncDirectory(directory)
  }

  async #overwrite(snapshot: Snapshot): Promise<void> {
    const { files, path, idField, onDisk, beforeReplace, beforeOverwrite } = this.#options
    const layout = onDisk.isTorn ? DEFAULT_LAYOUT : await layoutAt(files, path)
    const file = await files.open(path, 'edit')
    try {
      beforeOverwrite()
      await beforeReplace({ position: snapshot.position, hash: '', inPlace: true })
      let isEmptied = false
      try {
        await file.truncate(0)
        isEmptied = true
        await file.sync()
        const hash = createHash('sha256')
        await writeChunks(file, hashed(textChunks(snapshot, layout, idField), hash))
        const written = await files.stat(path)
        onDisk.setOverwritten({
          hash: hash.digest('hex'),
          signature: written?.signature ?? '',
          size: written?.size ?? 0,
        })
      } catch (error) {
        const found = isEmptied && (await contentOf(files, path))
        if (found) onDisk.setTorn(found)
        throw error
      }
    } finally {
      await file.close()
    }
  }
}

/** Writes a state as a new data file, synced; resolves with its SHA-256. */
export async function writeSnapshot(files: Files, path: string, snapshot: Base): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashed(textChunks(snapshot, DEFAULT_LAYOUT, 'id'), hash))
  return hash.digest('hex')
}

function* hashed(chunks: Iterable<Buffer>, hash: Hash, beforePart?: () => void): Generator<Buffer> {
  for (const chunk of chunks) {
    beforePart?.()
    hash.update(chunk)
    yield chunk
  }
}

const CHUNK_CHARACTERS = 64 * 1024

/** The text of a data file in pieces, as it may exceed the longest string. */
function* textChunks(snapshot: Base, layout: Layout, idField: string): Generator<Buffer> {
  let text = ''
  for (const piece of fileText(snapshot, layout, idField)) {
    text += piece
    if (text.length < CHUNK_CHARACTERS) continue
    yield Buffer.from(text)
    text = ''
  }
  yield Buffer.from(text)
}

/** A longer file keeps its style, and not the layout of each item. */
const MOST_KEPT_BYTES = 1024 * 1024
/** Where the style of a longer file is found. */
const BEGINNING_BYTES = 64 * 1024

/** The layout of a file that is to be replaced. */
async function layoutAt(files: Files, path: string): Promise<Layout> {
  let layout = DEFAULT_LAYOUT
  await withReader(files, path, async (read, size) => {
    const isWhole = size <= MOST_KEPT_BYTES
    const into = Buffer.allocUnsafe(isWhole ? size : BEGINNING_BYTES)
    layout = layoutOf(into.subarray(0, await read(into)).toString(), isWhole)
  })
  return layout
}
