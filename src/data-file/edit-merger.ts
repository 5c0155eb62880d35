import type { MergeOutcome } from '../commands/outcome.ts'
import type { Position } from '../events/event.ts'
import { lastPosition } from '../events/journal.ts'
import type { Slices } from '../runtime/time-slices.ts'
import { type Base, type OpenBase, openBase } from './base.ts'
import { type DoubtfulItem, findOrigin } from './base-search.ts'
import type { DataFileOptions } from './data-file-options.ts'
import { EditSummary } from './edit-summary.ts'
import type { FileContent } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { FileChanged, type FileParserOptions } from './file-parser.ts'
import { type ReadResult, readDataFile, readInParts, retryWhileChanging } from './file-reader.ts'
import { type FileVersion, recentVersions } from './file-version.ts'
import type { JournalConnection } from './journal-connection.ts'
import { isDataFileEdit } from './merged-edits.ts'

export interface EditMergerOptions
  extends Pick<DataFileOptions, 'files' | 'path' | 'idField' | 'views' | 'mergedEdits'> {
  readonly onDisk: FileOnDisk
  readonly slices: Slices
  readonly connection: () => JournalConnection
  /** Reports how many bytes of the file were read and compared, or merged. */
  readonly progress: (bytes: number, of: number) => void
}

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

/** Finds the base of an edited data file, and merges the edit. */
export class EditMerger {
  readonly #options: EditMergerOptions

  constructor(options: EditMergerOptions) {
    this.#options = options
  }

  /** Merges the current file. `read` is an earlier reading with an empty base. */
  merge(read?: ReadResult): Promise<MergedEdit> {
    return retryWhileChanging(this.#options.path, (attempt) => this.#merge(attempt === 0 ? read : undefined))
  }

  async #merge(known?: ReadResult): Promise<MergedEdit> {
    const { onDisk, views, slices, connection, idField } = this.#options
    const { journal } = connection()
    const last = await this.#last()
    const versions = recentVersions(onDisk.versions)
    let earlier: OpenBase | undefined
    try {
      const lastChange = (collection: string, key: string): Position => views.any(collection)?.get(key)?.position ?? 0
      const edited = new EditSummary(versions, lastChange)
      const read = (last.size === 0 && known) || (await this.#read(last, versions.length < 2 ? undefined : edited))
      const { file, content } = read
      const { origin, doubtful } = await findOrigin({ journal, slices, idField, file, edited, base: last, versions })
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
    const found = async () => (mergedEdits.until > position ? await this.#editsSince(position) : [])
    const last = onDisk.mergedVersion ?? { position, edits: await found() }
    if (last.edits.length > 0) onDisk.addVersion(last.position, last.edits)
    return this.#openBase(last)
  }

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
    const { files, path, connection } = this.#options
    const { check } = connection()
    return readInParts(files, path, await this.#parserOptions(base), function* (contents, isWhole) {
      if (!isWhole) yield* check(contents)
      if (edited) yield* edited.add(contents)
    })
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
    const { files, path } = this.#options
    const options = { ...(await this.#parserOptions(base)), full, known: file }
    const again = await readDataFile(files, path, options).finally(() => merging.catch(() => {}))
    await merging
    if (again.content.hash !== content.hash) throw new FileChanged()
  }

  async #parserOptions(base: Base): Promise<Omit<FileParserOptions, 'full'>> {
    const { files, path, idField, slices, progress } = this.#options
    const size = (await files.stat(path))?.size ?? 0
    return { base, idField, slices, progress: (left) => progress(size - left, size) }
  }
}
