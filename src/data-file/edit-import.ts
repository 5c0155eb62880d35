import { keyOf } from '../collections/item.ts'
import type { MergeConflict } from '../commands/decide-edit.ts'
import { type Base, Difference, type DifferenceOptions } from '../commands/difference.ts'
import type { Edit } from '../commands/edit.ts'
import type { ImportOutcome } from '../commands/handler.ts'
import type { ItemId, Position } from '../events/event.ts'
import { lastPosition } from '../events/journal.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import { LimitedLog, type ProgressLog, progressLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import { Memory, UNLIMITED, wouldNeverFit } from '../runtime/memory.ts'
import { type Turn, Turns } from '../runtime/turns.ts'
import { BaseSearch, type BaseSearchResult, LAST_VERSION, type OpenBase, openBase } from './base.ts'
import { type DataFileOptions, SMALL_BYTES } from './data-file-options.ts'
import type { FileContent } from './file-content.ts'
import type { FileOnDisk } from './file-on-disk.ts'
import { type ReadOptions, readDataFile } from './file-reader.ts'
import { type ImportedParts, importParts } from './first-items.ts'
import type { JournalConnection } from './journal-connection.ts'
import { isDataFileEdit } from './merged-edits.ts'
import { type ContentMark, type FileVersion, recentVersions, unprovenFile } from './state-file.ts'

interface EditImportOptions extends DataFileOptions {
  readonly onDisk: FileOnDisk
  readonly connection: () => JournalConnection
  /** Records that the file shows a state of the journal. */
  readonly confirm: (mark: ContentMark) => Promise<void>
}

const REPLACED = 'an edit of the data file replaced what was written since; the journal has both'
const READ_ONLY = 'The server is read-only (Api.ReadOnly): the edit is not merged until a start without that.'
/** Bytes of memory for each byte of a file that is imported in one write: about half of what the shortest items take. */
const MEMORY_BYTES = 64
const EMPTY_VERSION: FileVersion = { position: 0, edits: [] }

/** The difference of the file from the version from which it was edited. */
interface FoundEdit extends BaseSearchResult {
  readonly content: FileContent
  readonly edit: Edit
}

type MergedEdit = ImportedParts & BaseSearchResult

/** Imports edits of the data file: finds the base of an edit, merges it, and records what the file shows then. */
export class EditImport {
  readonly #options: EditImportOptions
  readonly #turns = new Turns()
  readonly #log: LimitedLog
  readonly #logProgress: ProgressLog
  /** How many bytes of the file were read and compared, or merged. */
  progress: { readonly bytes: number; readonly of: number } | undefined
  #isEnding = false

  constructor(options: EditImportOptions) {
    this.#options = options
    this.#log = new LimitedLog(options.log, options.elapsedMs)
    this.#logProgress = progressLog(options.log)
  }

  /** Whether the journal is empty, or has only what an interrupted import of first items left. */
  get isFirst(): boolean {
    const { onDisk, connection } = this.#options
    return connection().journal.head === 0 || onDisk.isFirstUnfinished
  }

  end(): void {
    this.#isEnding = true
  }

  /**
   * Imports the current file. At the start, when there are no other writes, large first items are imported in several
   * writes.
   * @throws {Refusal} `Invalid` when the file is invalid.
   */
  async run(isStart = false): Promise<ImportOutcome> {
    const { log, path, onDisk } = this.#options
    const merged = await this.#merge(isStart)
      .catch((error) => {
        if (error instanceof Refusal) {
          onDisk.trouble = { state: isFileAtFault(error) ? 'invalid' : 'edited', detail: error.message }
        }
        throw error
      })
      .finally(() => {
        this.progress = undefined
      })
    const { outcomes, version, doubtful } = merged
    const base = version ?? onDisk.versions.at(-1) ?? EMPTY_VERSION
    const basedOn = base.position
    const basis = outcomes[0]?.basis ?? 0
    const events = outcomes.reduce((sum, outcome) => sum + outcome.events, 0)
    await this.#record(merged, base, basis, events)
    const conflicts = eachOnce([...outcomes.flatMap((outcome) => outcome.conflicts), ...doubtful])
    for (const { collection, id } of conflicts) {
      this.#log.warn({ collection, id }, REPLACED, TEN_IN_TEN_SECONDS)
    }
    const isNew = isStart && basis === 0
    const message = isNew ? 'a new journal begins with the data file' : 'the data file was imported'
    if (events > 0 || version) log.info({ events, path, ...(!isNew && { basedOn }) }, message)
    return { basis, events, conflicts, basedOn }
  }

  /** Records what the file shows after an edit of it was merged: so many events after the position `basis`. */
  async #record(merged: MergedEdit, base: FileVersion, basis: Position, events: number): Promise<void> {
    const { outcomes, content, isShown, version } = merged
    const { views, onDisk, confirm } = this.#options
    // The first and the last position of what each write has from the file.
    const writes = outcomes
      .filter(({ edited }) => edited > 0)
      .map((one) => [one.basis + 1, one.basis + one.edited] as const)
    // If others wrote meanwhile, items had no id, or latest items followed, the written file differs from the edited one.
    const shown = outcomes.reduce((sum, { edited }) => sum + edited, 0)
    const isAlone = (writes.at(-1)?.[1] ?? basis) === basis + events
    const isUnmixed = basis === (onDisk.lastExact?.position ?? 0) && isAlone && shown === events
    const isExact = !onDisk.isInexact && !version && isShown && isUnmixed
    onDisk.content = content
    onDisk.trouble = undefined
    const { hash, signature } = content
    onDisk.known = { position: isExact ? basis + events : views.position, hash, signature }
    if (isExact) await confirm(onDisk.known)
    else onDisk.setMerged(events > 0 ? { position: base.position, edits: [...base.edits, ...writes] } : undefined)
  }

  async #merge(isStart: boolean): Promise<MergedEdit> {
    const { onDisk, files, path, edits, readOnly, connection, checked, memory: budget } = this.#options
    const { journal, merge } = connection()
    const isRefused = readOnly && journal.head > 0
    const last = await this.#lastContent()
    const opened: OpenBase[] = []
    const isFirst = isStart && this.isFirst
    // Without the first items there is nothing to serve, and no request: they are not refused, but imported in parts.
    const memory = new Memory(isFirst ? UNLIMITED : budget, 'edits')
    try {
      const size = (await files.stat(path))?.size ?? 0
      const isLarge = size > edits.bytes
      const isInParts = isLarge || MEMORY_BYTES * size > budget.bytes
      if (isFirst && isInParts && !isRefused) {
        const parts = await this.#turns.run((turn) =>
          importParts(files, path, { ...this.#readOptions(turn), ...connection(), base: last, checked, memory }),
        )
        return { ...LAST_VERSION, ...parts }
      }
      const found = await this.#turns.run((turn) => this.#find(last, isLarge, opened, memory, turn))
      const { edit, ...rest } = found
      if (onDisk.isUnproven && !isEmpty(edit)) throw unprovenFile(path)
      // Only now, as the remains of an interrupted write in place are no edit.
      if (isRefused && !isEmpty(edit)) throw new Refusal('Conflict', READ_ONLY)
      const outcomes = [await merge(edit, rest.content.hash, memory)]
      const isShown = edit.collections.every(
        ({ hasUnnamed, isReordered, order }) => !hasUnnamed && (order || !isReordered),
      )
      return { ...rest, outcomes, isShown }
    } finally {
      memory.release()
      for (const base of opened) base.close()
      if (last !== onDisk.base) last.close()
    }
  }

  /** Reads the current file, and compares it with the version from which it was edited. Adds bases to close to `opened`. */
  async #find(last: OpenBase, isLarge: boolean, opened: OpenBase[], memory: Memory, turn: Turn): Promise<FoundEdit> {
    const { files, path, edits, onDisk } = this.#options
    const versions = isLarge || edits.mode === 'replace' ? [] : recentVersions(onDisk.versions)
    const keeps = isLarge ? 'nothing' : versions.length < 2 ? 'ids' : 'items'
    const newDifference = () => {
      // The file changed while it was read.
      memory.release()
      return this.#difference(last, keeps, memory)
    }
    const { content, visitor } = await readDataFile(files, path, this.#readOptions(turn), newDifference)
    const edit = await visitor.end(turn)
    if (keeps !== 'items') return { ...LAST_VERSION, content, edit }
    const found = await this.#search(edit, last, versions, turn)
    if (!found.version) return { ...found, content, edit }
    const base = await this.#openBase(found.version)
    opened.push(base)
    const other = this.#difference(base, 'ids', memory)
    await visitor.copyTo(other, turn)
    return { ...found, content, edit: await other.end(turn) }
  }

  #search(edit: Edit, base: Base, versions: readonly FileVersion[], turn: Turn): Promise<BaseSearchResult> {
    const { views, idField, connection } = this.#options
    const lastChange = (collection: string, id: ItemId): Position =>
      views.any(collection)?.get(keyOf(id))?.position ?? 0
    return new BaseSearch({ journal: connection().journal, idField, base, versions, lastChange, turn }).find(edit)
  }

  #difference(base: Base, keeps: DifferenceOptions['keeps'], memory: Memory): Difference {
    const { idField, connection } = this.#options
    const kind = connection().journal.head === 0 ? 'first items' : 'edit'
    return new Difference({ base, idField, kind, keeps, hold: (bytes) => memory.hold(bytes) })
  }

  #readOptions(turn: Turn): ReadOptions {
    return { idField: this.#options.idField, turn, progress: (left, size) => this.#reportProgress(size - left, size) }
  }

  /** The last content before the edit: a state of the journal, plus any edit merged since. */
  async #lastContent(): Promise<OpenBase> {
    const { onDisk } = this.#options
    if (onDisk.base) return onDisk.base
    const position = onDisk.lastExact?.position ?? 0
    const last = onDisk.mergedVersion ?? { position, edits: await this.#editsSince(position) }
    if (last.edits.length > 0) onDisk.addVersion(last.position, last.edits)
    return this.#openBase(last)
  }

  /** The ranges of positions of edits that were merged after a position. */
  async #editsSince(position: Position): Promise<readonly (readonly [Position, Position])[]> {
    const { mergedEdits, connection } = this.#options
    const { journal } = connection()
    const edits: [Position, Position][] = []
    if (mergedEdits.until <= position) return edits
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

  #reportProgress(bytes: number, of: number): void {
    if (this.#isEnding) throw new Ended()
    if (of < SMALL_BYTES) return
    this.progress = { bytes, of }
    this.#logProgress({ bytes, of }, 'the data file is being merged')
  }
}

/** Whether an import of the same file would be refused again: it is invalid, or its edit does not fit into memory. */
function isFileAtFault(refusal: Refusal): boolean {
  return refusal.code === 'Invalid' || wouldNeverFit(refusal)
}

function isEmpty({ collections }: Edit): boolean {
  return collections.every(
    ({ isRemoved, wasThere, edited, removed, isReordered }) =>
      !isRemoved && wasThere && edited.length + removed.length === 0 && !isReordered,
  )
}

function eachOnce(items: readonly MergeConflict[]): readonly MergeConflict[] {
  return [...new Map(items.map((item) => [JSON.stringify([item.collection, item.id]), item])).values()]
}
