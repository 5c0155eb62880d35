import { keyOf } from '../collections/item.ts'
import { itemsIn, NO_ITEMS } from '../collections/stored-items.ts'
import { type Base, Difference, type DifferenceOptions } from '../commands/difference.ts'
import { type Edit, HeldCharacters } from '../commands/edit.ts'
import type { MergeOutcome } from '../commands/outcome.ts'
import type { Position } from '../events/event.ts'
import { lastPosition, partKey } from '../events/journal.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Turn, Turns } from '../runtime/turns.ts'
import { type OpenBase, openBase } from './base.ts'
import { type BaseSearchResult, type DoubtfulItem, findOrigin, LAST } from './base-search.ts'
import type { DataFileOptions } from './data-file-options.ts'
import { summaryOf } from './edit-summary.ts'
import type { FileContent } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { FileChanged, type ReadOptions, readDataFile, retryWhileChanging, TooManyChanges } from './file-reader.ts'
import { type FileVersion, recentVersions } from './file-version.ts'
import { checkFile, readParts } from './first-items.ts'
import type { JournalConnection } from './journal-connection.ts'
import { isDataFileEdit } from './merged-edits.ts'

export interface EditMergerOptions
  extends Pick<
    DataFileOptions,
    'files' | 'path' | 'idField' | 'views' | 'mergedEdits' | 'edits' | 'readOnly' | 'checked'
  > {
  readonly onDisk: FileOnDisk
  readonly connection: () => JournalConnection
  /** Reports how many bytes of the file were read and compared, or merged. */
  readonly progress: (bytes: number, of: number) => void
}

const READ_ONLY = 'The server is read-only (Api.ReadOnly): the edit is not merged until a start without that.'
const EMPTY_VERSION: FileVersion = { position: 0, edits: [] }

export interface MergedEdit extends Omit<MergeOutcome, 'edited'> {
  /** The first and the last position of what each write has from the file. */
  readonly writes: readonly (readonly [Position, Position])[]
  readonly content: FileContent
  /** The content of the file when the editor opened it. */
  readonly origin: FileVersion
  /** Whether that is the last content before the edit. */
  readonly isLast: boolean
  /** Whether the file shows exactly the base with the edit: all items had ids, and their order was merged. */
  readonly isShown: boolean
  readonly doubtful: readonly DoubtfulItem[]
}

interface FoundEdit extends BaseSearchResult {
  readonly content: FileContent
  readonly edit: Edit
}

/** Finds the base of an edited data file, and merges the edit. */
export class EditMerger {
  readonly #options: EditMergerOptions
  readonly #turns = new Turns()

  constructor(options: EditMergerOptions) {
    this.#options = options
  }

  /**
   * Merges the current file. At the start, when there are no other writes, large first items are imported in several
   * writes.
   */
  merge(isStart: boolean): Promise<MergedEdit> {
    return retryWhileChanging(this.#options.path, () => this.#merge(isStart))
  }

  async #merge(isStart: boolean): Promise<MergedEdit> {
    const { onDisk, files, path, edits, readOnly, connection } = this.#options
    const isEmpty = connection().journal.head === 0
    const isRefused = readOnly && !isEmpty
    const last = await this.#last()
    const opened: OpenBase[] = []
    try {
      const size = (await files.stat(path))?.size ?? 0
      const isFirst = isEmpty || onDisk.isFirstUnfinished
      if (!isRefused && isStart && size > edits.bytes && isFirst) {
        return await this.#turns.run((turn) => this.#importParts(last, turn))
      }
      const found = await this.#turns.run((turn) => this.#find(last, size > edits.bytes, opened, turn))
      // Only now, as the remains of an interrupted write in place are no edit.
      if (isRefused) throw new Refusal('Conflict', READ_ONLY)
      const { content, edit, origin, doubtful } = found
      const { edited, ...merged } = await connection().merge(edit, content.hash)
      const isShown = edit.collections.every(
        ({ hasUnnamed, isReordered, order }) => !hasUnnamed && (order || !isReordered),
      )
      return {
        ...{ ...merged, writes: writesOf(merged.basis, edited), content, doubtful, isShown },
        ...{ origin: origin ?? onDisk.versions.at(-1) ?? EMPTY_VERSION, isLast: origin === undefined },
      }
    } finally {
      for (const base of opened) base.close()
      if (last !== onDisk.base) last.close()
    }
  }

  /** Reads the current file, and compares it with the version from which it was edited. */
  async #find(last: OpenBase, isLarge: boolean, opened: OpenBase[], turn: Turn): Promise<FoundEdit> {
    const { files, path, edits, onDisk } = this.#options
    const versions = isLarge || edits.mode === 'replace' ? [] : recentVersions(onDisk.versions)
    const keeps = isLarge ? 'nothing' : versions.length < 2 ? 'ids' : 'items'
    const newDifference = () => this.#difference(last, keeps)
    const { content, visitor } = await readDataFile(files, path, this.#readOptions(turn), newDifference)
    if (content.size > edits.bytes !== isLarge) throw new FileChanged()
    const edit = await visitor.end(turn)
    if (keeps !== 'items') return { ...LAST, content, edit }
    const found = await this.#search(edit, last, versions, turn)
    if (!found.origin) return { ...found, content, edit }
    const base = await this.#openBase(found.origin)
    opened.push(base)
    const other = this.#difference(base, 'ids')
    await visitor.copyTo(other, turn)
    return { ...found, content, edit: await other.end(turn) }
  }

  async #search(edit: Edit, base: Base, versions: readonly FileVersion[], turn: Turn): Promise<BaseSearchResult> {
    const { views, idField, connection } = this.#options
    const edited = await summaryOf(
      edit,
      (name) => itemsIn(base.get(name) ?? NO_ITEMS),
      versions,
      (collection, id) => views.any(collection)?.get(keyOf(id))?.position ?? 0,
      turn,
    )
    return findOrigin({ journal: connection().journal, idField, edited, base, versions }, turn)
  }

  #difference(base: Base, keeps: DifferenceOptions['keeps']): Difference {
    const { idField, edits, connection } = this.#options
    const kind = connection().journal.head === 0 ? 'first items' : 'edit'
    return new Difference({ base, idField, kind, keeps, held: new HeldCharacters(edits.heldCharacters, tooLarge) })
  }

  #readOptions(turn: Turn): ReadOptions {
    const { idField, progress } = this.#options
    return { idField, turn, progress: (left, size) => progress(size - left, size) }
  }

  /** Imports first items that are too large to be held in memory. `last` has those that an interrupted import left. */
  async #importParts(last: Base, turn: Turn): Promise<MergedEdit> {
    const { files, path, idField, connection, onDisk, checked: before } = this.#options
    const { check, merge } = connection()
    const options = this.#readOptions(turn)
    const isChecked = before && before.content.signature === (await files.stat(path))?.signature
    const checked = isChecked ? before : await checkFile(files, path, { ...options, check })
    const { content, collections } = checked
    const difference = new Difference({
      base: last,
      idField,
      kind: 'first items',
      keeps: 'nothing',
      hasUniqueIds: true,
    })
    const latestWritten = new Set<string>()
    const merged: MergeOutcome[] = []
    await readParts(files, path, checked, {
      ...options,
      difference,
      part: async () => {
        merged.push(await merge(difference.take(), partKey(content.hash), latestWritten))
      },
    })
    const rest = await difference.end(turn)
    merged.push(await merge(rest, content.hash, latestWritten))
    const hasAllIds = ![...collections.values()].some(({ hasUnnamed }) => hasUnnamed)
    return {
      basis: merged[0]?.basis ?? 0,
      events: merged.reduce((sum, { events }) => sum + events, 0),
      conflicts: merged.flatMap(({ conflicts }) => conflicts),
      writes: merged.flatMap(({ basis, edited }) => writesOf(basis, edited)),
      ...{ content, origin: onDisk.versions.at(-1) ?? EMPTY_VERSION, isLast: true, doubtful: [] },
      isShown: hasAllIds && !rest.collections.some(({ isReordered }) => isReordered),
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
}

function writesOf(basis: Position, edited: number): readonly (readonly [Position, Position])[] {
  return edited > 0 ? [[basis + 1, basis + edited]] : []
}

/** `Invalid`, so that it is not tried again before the file changes. */
function tooLarge(): TooManyChanges {
  const why = 'The edit of the data file changes more items than fit into memory. Nothing of it is merged.'
  return new TooManyChanges(
    'Invalid',
    `${why} Divide it into several edits, or give Node more heap (--max-old-space-size).`,
  )
}
