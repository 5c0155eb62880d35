import { createHash, type Hash } from 'node:crypto'
import type { Adapter } from 'lowdb'
import { holdsObject, itemsIn } from '../collections/stored-items.ts'
import type { Base } from '../commands/difference.ts'
import { directoryOf, type Files, putInPlace, writeChunks, writeNew } from '../files/files.ts'
import { parseText } from '../json/parse.ts'
import type { Snapshot } from '../projections/views.ts'
import { contentOf } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { type ContentMark, removeTemporary, temporaryPath } from './state-file.ts'

interface AdapterOptions {
  readonly files: Files
  readonly path: string
  readonly onDisk: FileOnDisk
  /** Called before each part of a new file is written; throwing keeps the old file. */
  readonly beforePart: () => void
  /** Called before the file is replaced or overwritten by this content; throwing keeps the old one. */
  readonly beforeReplace: (pending: ContentMark) => Promise<void>
  /** Called before the file is written in place; throwing keeps the old content. */
  readonly beforeOverwrite: () => void
}

/** Errors of replacing a mounted file, or in a read-only directory. */
const IRREPLACEABLE = ['EBUSY', 'EXDEV', 'EACCES', 'EPERM', 'EROFS']

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
      const isIrreplaceable = IRREPLACEABLE.includes((error as NodeJS.ErrnoException).code ?? '')
      if (!isIrreplaceable || !(await files.stat(path))?.isFile) throw error
      this.#irreplaceable = target
      await this.#overwrite(snapshot)
      await removeTemporary(files, path)
    }
  }

  async #replace(target: string, snapshot: Snapshot): Promise<void> {
    const { files, path, onDisk, beforePart, beforeReplace } = this.#options
    const directory = directoryOf(target)
    if (!(await files.stat(directory))) {
      const message = `The directory ${directory} of the data file ${path} does not exist`
      throw Object.assign(new Error(message), { code: 'ENOENT' })
    }
    const temporary = temporaryPath(target)
    const before = await files.stat(target)
    const hash = await writeSnapshot(files, temporary, snapshot, before?.mode, beforePart)
    // Must precede the exchange: afterwards another program may have changed the file.
    const written = await files.stat(temporary)
    await beforeReplace({ position: snapshot.position, hash, replaces: onDisk.content?.hash })
    const isOldKept = await putInPlace(files, temporary, target)
    const content = { hash, signature: written?.signature ?? '', size: written?.size ?? 0 }
    onDisk.setReplaced(content, target, isOldKept ? temporary : undefined)
    await files.syncDirectory(directory)
  }

  async #overwrite(snapshot: Snapshot): Promise<void> {
    const { files, path, onDisk, beforeReplace, beforeOverwrite } = this.#options
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
        await writeChunks(file, hashedChunks(snapshot, hash))
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
export async function writeSnapshot(
  files: Files,
  path: string,
  snapshot: Base,
  mode?: number,
  beforePart?: () => void,
): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashedChunks(snapshot, hash, beforePart), mode)
  return hash.digest('hex')
}

function* hashedChunks(snapshot: Base, hash: Hash, beforePart?: () => void): Generator<Buffer> {
  for (const chunk of formattedChunks(snapshot)) {
    beforePart?.()
    hash.update(chunk)
    yield chunk
  }
}

const CHUNK_CHARACTERS = 64 * 1024

/** From this number of items on, each has a single line: a third of the bytes would be blanks. */
const MANY_ITEMS = 1000

/**
 * The text of a data file in pieces, as it may exceed the longest string: the format of `JSON.stringify(…, null, 2)`,
 * but with one line for each item of a large collection.
 */
function* formattedChunks(snapshot: Base): Generator<Buffer> {
  let text = '{'
  let collections = 0
  for (const [name, collection] of snapshot) {
    const isObject = holdsObject(collection)
    const newLine = isObject ? '\n  ' : '\n    '
    text += `${collections++ ? ',' : ''}\n  ${JSON.stringify(name)}: ${isObject ? '' : '['}`
    let count = 0
    for (const item of itemsIn(collection)) {
      if (!isObject) text += `${count++ ? ',' : ''}\n    `
      text += collection.size < MANY_ITEMS ? indented(item.text, newLine) : item.text
      if (text.length < CHUNK_CHARACTERS) continue
      yield Buffer.from(text)
      text = ''
    }
    if (!isObject) text += count ? '\n  ]' : ']'
  }
  yield Buffer.from(`${text}${collections ? '\n}' : '}'}\n`)
}

function indented(json: string, newLine: string): string {
  return JSON.stringify(parseText(json), null, 2).replaceAll('\n', newLine)
}
