import type { Adapter } from 'lowdb'
import type { CollectionTexts } from '../collections/file-items.ts'
import { directoryOf, type Files, type OpenFile } from '../files/files.ts'
import { contentOf, type FileContent } from './file-content.ts'
import { isBeginningOf, overwriteSnapshot, writeSnapshot } from './snapshot-text.ts'
import { removeTemporary, temporaryPath } from './state-file.ts'

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
      await removeTemporary(files, path)
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
        const hash = await overwriteSnapshot(file, snapshot)
        const written = await files.stat(path)
        replaced({ hash, signature: written?.signature ?? '', size: written?.size ?? 0 }, true)
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
