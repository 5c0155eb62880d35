import type { FileContents } from '../collections/file-items.ts'
import type { MergeOutcome } from '../commands/outcome.ts'
import type { Position } from '../events/event.ts'
import { lastPosition } from '../events/journal.ts'
import type { Files } from '../files/files.ts'
import { Malformed } from '../json/parse-steps.ts'
import type { Views } from '../projections/views.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Slices } from '../runtime/time-slices.ts'
import { alwaysWritten, contentOf, type FileContent, readBytes } from './adapter.ts'
import type { Base } from './base.ts'
import { type OpenBase, openBase } from './base.ts'
import { type DoubtfulItem, findOrigin } from './base-search.ts'
import { EditSummary } from './edit-summary.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { FileChanged, FileParser, whyInvalid } from './file-parser.ts'
import { type FileVersion, recentVersions } from './file-version.ts'
import type { JournalConnection } from './journal-connection.ts'
import { isDataFileEdit, type MergedEdits } from './merged-edits.ts'

export interface EditMergerOptions {
  readonly files: Files
  /** Symbolic links are resolved. */
  readonly path: string
  readonly idField: string
  readonly views: Views
  readonly onDisk: FileOnDisk
  readonly slices: Slices
  readonly connection: () => JournalConnection
  readonly mergedEdits: MergedEdits
  /** Reports how many bytes of the file were read and compared, or merged. */
  readonly progress: (bytes: number, of: number) => void
}

/** How often to read a file that changes while it is read. */
export const MOST_ATTEMPTS = 5
const EMPTY_VERSION: FileVersion = { position: 0, edits: [] }

export interface MergedEdit extends MergeOutcome {
  readonly content: FileContent
  /** The content of the file when the editor opened it. */
  readonly origin: FileVersion
  /** Whether that is the last content before the edit. */
  readonly isLast: boolean
  /** Whether all items had ids, so that the file shows exactly the base with the edit. */
  readonly hasAllIds: boolean
  readonly doubtful: readonly DoubtfulItem[]
}

/** A file that was read once. */
export interface ReadResult {
  /** The contents; with edited items only if all of them fit in memory. */
  readonly file: FileContents
  readonly content: FileContent
  readonly hasAllEdited: boolean
}

/** Finds the base of an edited data file, and merges the edit. */
export class EditMerger {
  readonly #options: EditMergerOptions

  constructor(options: EditMergerOptions) {
    this.#options = options
  }

  /** Merges the current file. `read` is an earlier reading with an empty base. */
  async merge(read?: ReadResult): Promise<MergedEdit> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      try {
        return await this.#merge(attempt === 0 ? read : undefined)
      } catch (error) {
        if (!(error instanceof FileChanged)) throw error
      }
    }
    throw alwaysWritten(this.#options.path)
  }

  async #merge(known?: ReadResult): Promise<MergedEdit> {
    const { onDisk, views, slices, connection } = this.#options
    const { journal } = connection()
    const last = await this.#last()
    const versions = recentVersions(onDisk.versions)
    let earlier: OpenBase | undefined
    try {
      const lastChange = (collection: string, key: string): Position => views.any(collection)?.get(key)?.position ?? 0
      const edited = new EditSummary(versions, lastChange)
      const read = (last.size === 0 && known) || (await this.#read(last, versions.length < 2 ? undefined : edited))
      const { file, content } = read
      const { origin, doubtful } = await findOrigin({ journal, slices, file, edited, base: last, versions })
      if (origin) earlier = await this.#openBase(origin)
      const base = earlier ?? last
      const merging = connection().merge({ file, base }, content.hash)
      if (earlier || !read.hasAllEdited) await this.#readAgain(read, base, () => merging.part())
      const merged = await merging.rest()
      const hasAllIds = ![...file.values()].some(({ wasNamed }) => wasNamed)
      const isLast = origin === undefined
      return { ...merged, content, origin: origin ?? versions.at(-1) ?? EMPTY_VERSION, isLast, hasAllIds, doubtful }
    } finally {
      earlier?.close()
      if (last !== onDisk.base) last.close()
    }
  }

  /** The last content before the edit: a state of the journal, plus any edit merged since. */
  async #last(): Promise<OpenBase> {
    const { onDisk, mergedEdits } = this.#options
    if (onDisk.base) return onDisk.base
    const position = onDisk.origin?.position ?? 0
    const edits = mergedEdits.until > position ? await this.#editsSince(position) : []
    if (edits.length > 0) onDisk.addVersion(position, edits)
    return this.#openBase({ position, edits })
  }

  /** The edits that were merged after a position. */
  async #editsSince(position: Position): Promise<readonly (readonly [Position, Position])[]> {
    const { mergedEdits, connection } = this.#options
    const { journal } = connection()
    const edits: [Position, Position][] = []
    for await (const recorded of journal.read(position + 1, journal.head)) {
      if (!isDataFileEdit(recorded, mergedEdits.dataFileId)) continue
      const [first, last] = [recorded.position, lastPosition(recorded)]
      const before = edits.at(-1)
      // A write may be read in several records.
      if (before?.[1] === first - 1) before[1] = last
      else edits.push([first, last])
    }
    return edits
  }

  #openBase(version: FileVersion): Promise<OpenBase> {
    const { views, connection } = this.#options
    return openBase({ views, ...connection() }, version)
  }

  /**
   * Reads the current file; `edited` collects what identifies its base. An edit that is merged in parts is validated
   * before the first part; others are validated when they are merged.
   */
  async #read(base: Base, edited: EditSummary | undefined): Promise<ReadResult> {
    const { slices, connection } = this.#options
    const { check } = connection()
    let hasAllEdited = true
    const { file, content } = await this.#readWhole(base, async (contents) => {
      hasAllEdited = false
      await slices.run(() => check(contents))
      if (edited) await slices.run(() => edited.add(contents))
      for (const items of contents.values()) items.takeEdited()
    })
    if (!hasAllEdited) await slices.run(() => check(file))
    if (edited) await slices.run(() => edited.add(file))
    return { file, content, hasAllEdited }
  }

  /** Compares the items with a base; `part` merges those found so far. */
  async #readAgain({ file, content }: ReadResult, base: Base, part: () => Promise<void>): Promise<void> {
    for (const items of file.values()) items.takeEdited()
    // Reading continues while a part is being written.
    let merging = Promise.resolve()
    const full = async (): Promise<void> => {
      await merging
      merging = part()
      merging.catch(() => {})
    }
    const again = await this.#readWhole(base, full, file).finally(() => merging.catch(() => {}))
    await merging
    if (again.content.hash !== content.hash) throw new FileChanged()
  }

  async #readWhole(
    base: Base,
    full: (contents: FileContents) => Promise<void>,
    known?: FileContents,
  ): Promise<Pick<ReadResult, 'file' | 'content'>> {
    const { files, path, idField, slices, progress } = this.#options
    const size = (await files.stat(path))?.size ?? 0
    return readDataFile(files, path, {
      base,
      idField,
      slices,
      full,
      ...(known && { known }),
      progress: (left) => progress(size - left, size),
    })
  }
}

/** Syntax errors are searched for only in files up to this size, since they are held in memory for that. */
const MOST_SEARCHED_BYTES = 256 * 1024 * 1024

/**
 * Reads a data file to its end.
 * @throws {Refusal} `Invalid` with the place, if the file is invalid.
 */
export async function readDataFile(
  files: Files,
  path: string,
  options: ConstructorParameters<typeof FileParser>[0],
): Promise<Pick<ReadResult, 'file' | 'content'>> {
  let reading: FileParser | undefined
  try {
    const content = await contentOf(files, path, () => {
      // Nothing may be merged or counted twice.
      if (reading && (options.known || reading.wasFull)) throw new FileChanged()
      reading = new FileParser(options)
      return reading
    })
    if (content && reading) return { file: await reading.contents(), content }
  } catch (error) {
    const isInvalid = error instanceof Refusal && error.code === 'Invalid'
    if (!isInvalid && !(error instanceof Malformed)) throw error
    const why = await whyMalformed(files, path, options.slices, reading?.place ?? '')
    throw why ?? (isInvalid ? error : malformedAt(reading?.place ?? ''))
  }
  throw new Refusal('Unavailable', `The data file ${path} was removed while it was read.`)
}

/** The syntax error of a file; undefined if there is none, or the file is too large to search. */
async function whyMalformed(files: Files, path: string, slices: Slices, place: string): Promise<Refusal | undefined> {
  const size = (await files.stat(path))?.size ?? 0
  const found = size <= MOST_SEARCHED_BYTES ? await readBytes(files, path) : undefined
  return found && slices.run(() => whyInvalid(found.pieces, place))
}

function malformedAt(place: string): Refusal {
  const message = `The data file is not well-formed JSON: the error is in or after ${place || 'the root'}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: place, message }])
}
