import type { Position } from '../events/event.ts'
import { type Files, putInPlace } from '../files/files.ts'
import type { OpenBase } from './base.ts'
import { contentOf, type FileContent } from './file-content.ts'
import type { MergedEdits } from './merged-edits.ts'
import {
  type ContentMark,
  type FileVersion,
  moveEarlierFiles,
  readStateFile,
  removeInPlaceState,
  type StateFile,
  type StateFilePaths,
  temporaryPath,
  withVersion,
  writeStateFile,
} from './state-file.ts'

/*
 * The data file is in one of these states, which `/health` shows. `FileOnDisk.trouble` holds the last three.
 *
 * | State | The file | It is written |
 * |---|---|---|
 * | current | shows the latest position | after the next event |
 * | behind | shows an earlier position, or has a merged edit that changed since | when `WriteSchedule` says so |
 * | merging | has a large edit, which is being read and merged | when the merge has ended |
 * | edited | has an edit that is not merged: on request only, in a read-only server, or since it was refused | after the merge, or when it shows a known content again |
 * | invalid | has an edit that is no valid data file | after a valid edit was merged |
 * | failing | could not be written, or not be read at the start as the disk was full | at the next attempt, a second later |
 */

interface FileStatus {
  readonly state: 'current' | 'behind' | 'merging' | 'edited' | 'invalid' | 'failing'
  /** The position whose state the file shows. */
  readonly position: Position
  readonly detail?: string
}

/** How far the file is behind the journal, and when it will be written. */
export interface WriteLag {
  readonly behind: { readonly events: number; readonly bytes: number }
  /** An ISO 8601 time, a number of further bytes of the journal, or null: only on request. */
  readonly nextWrite: { readonly at: string } | { readonly afterJournalBytes: number } | null
}

export type DataFileStatus = FileStatus & WriteLag

interface ReplacedFile {
  /** Where it is kept. */
  readonly path: string
  /** Its path when it was the data file. */
  readonly target: string
  /** Its signature when the server replaced it; undefined after a restart. */
  readonly signature: string | undefined
}

/** Tracks the file on disk: its known contents, the state from which an edit was made, and what prevents writing it. */
export class FileOnDisk {
  readonly #files: Files
  readonly #statePaths: StateFilePaths
  /** The content last read or written; undefined while there is no file. */
  content: FileContent | undefined
  state: StateFile | undefined
  /** The known content on disk: written from the journal, or imported. */
  known: ContentMark | undefined
  /** The last content on disk that was exactly a state of the journal: an edit was made from it. */
  lastExact: ContentMark | undefined
  /** The versions that the file had, in order; an edit may have been made from any of them. */
  versions: readonly FileVersion[] = []
  trouble: Pick<FileStatus, 'state' | 'detail'> | undefined
  /** Whether the file is written in place, as it cannot be replaced. Then the state file is beside the journal. */
  isInPlace = false
  /** Whether a write in place was interrupted, so that the file holds the beginning of a content. */
  isTorn = false
  /** The file that was replaced last: it may have been edited after the last look at it, and is kept for a while. */
  replacedFile: ReplacedFile | undefined
  #isStateInJournal = false
  /** The state with which a file that does not prove to be the journal's is compared; takes precedence over `lastExact`. */
  base: OpenBase | undefined
  /** There is no state file, and the journal is not accepted anyway: the file must show the end of the journal. */
  isUnproven = false
  /** Whether the file contains a merged edit, and is not a state of the journal. */
  isMerged = false
  /** The version that the file shows then; undefined if that is not known exactly. */
  mergedVersion: FileVersion | undefined
  readonly #mergedEdits: MergedEdits

  constructor(files: Files, statePaths: StateFilePaths, mergedEdits: MergedEdits) {
    this.#files = files
    this.#statePaths = statePaths
    this.#mergedEdits = mergedEdits
  }

  /** Whether the journal has only a part of the first items, as their import was interrupted. */
  get isFirstUnfinished(): boolean {
    const { last, until } = this.#mergedEdits
    return last === undefined && until > (this.state?.confirmed?.position ?? 0)
  }

  /** Whether the file is not exactly a state of the journal. */
  get isInexact(): boolean {
    return this.isMerged || this.base !== undefined
  }

  /** Forgets the merged edit, and the base of one. */
  forgetEdit(): void {
    this.base?.close()
    this.base = undefined
    this.isUnproven = false
    this.isMerged = false
    this.mergedVersion = undefined
  }

  /** The last event that the file shows; after a merged edit that was not written yet, the last one before the edit. */
  get position(): Position {
    return (this.isInexact ? this.lastExact : this.known)?.position ?? 0
  }

  statusAt(position: Position): FileStatus {
    const shown = this.known?.position ?? 0
    if (this.trouble) return { ...this.trouble, position: shown }
    return { state: shown < position || this.isInexact ? 'behind' : 'current', position: shown }
  }

  /** Reads the state file. */
  async prepare(): Promise<void> {
    await moveEarlierFiles(this.#files, this.#statePaths.dataFile)
    const stored = await readStateFile(this.#files, this.#statePaths)
    this.state = stored?.state
    this.versions = stored?.state.versions ?? []
    this.isInPlace = this.#isStateInJournal = stored?.isInPlace ?? false
    if (!this.state?.pending || this.isInPlace) return
    const target = await this.#files.follow(this.#statePaths.dataFile)
    const path = temporaryPath(target)
    if (await this.#files.stat(path)) this.replacedFile = { path, target, signature: undefined }
  }

  /**
   * Whether another program edited the replaced file. The server itself left in it what it replaced or, if a crash came before
   * the replacement, the pending content.
   */
  async isReplacedFileEdited(): Promise<boolean> {
    const { path, target, signature } = this.replacedFile ?? {}
    // A link that leads to another file now makes the replaced one meaningless.
    if (path === undefined || target !== (await this.#files.follow(this.#statePaths.dataFile))) return false
    const stat = await this.#files.stat(path)
    if (!stat || stat.signature === signature) return false
    const { hash } = (await contentOf(this.#files, path)) ?? {}
    const { pending } = this.state ?? {}
    return hash !== undefined && hash !== pending?.hash && hash !== pending?.replaces
  }

  /** Puts the replaced file in its place again. What is there now is replaced, and may be edited meanwhile as well. */
  async putBack(): Promise<void> {
    const { path, target } = this.replacedFile as ReplacedFile
    this.replacedFile = (await putInPlace(this.#files, path, target))
      ? { path, target, signature: undefined }
      : undefined
  }

  /** An edit was merged. The file shows this version; undefined if the edit made no events. */
  setMerged(version: FileVersion | undefined): void {
    this.forgetEdit()
    this.isMerged = true
    this.mergedVersion = version
    if (version) this.addVersion(version.position, version.edits)
  }

  addVersion(position: Position, edits: FileVersion['edits'] = []): void {
    this.versions = withVersion(this.versions, { position, edits })
  }

  /** The content of the file if it is unchanged since it was confirmed, or checked; otherwise it must be read. */
  async contentIfUntouched(checked: FileContent | undefined): Promise<FileContent | undefined> {
    const { hash, signature } = this.state?.confirmed ?? checked ?? {}
    if (hash === undefined || signature === undefined) return undefined
    const stat = await this.#files.stat(this.#statePaths.dataFile)
    return stat?.signature === signature ? { hash, signature, size: stat.size } : undefined
  }

  /** Identifies the file found at the start by its hash; undefined if there is none. */
  async recognize(hash: string | undefined): Promise<void> {
    const lastEdit = this.#mergedEdits.last
    const known = this.#markOf(hash, lastEdit)
    this.lastExact = known && known !== lastEdit ? known : await this.#markBeforeEdit()
    if (this.lastExact) this.addVersion(this.lastExact.position)
    // With --accept-journal the file is compared in any case.
    this.known = this.base ? undefined : known
  }

  /** Whether the content is known. The pending one, left by an interrupted replacement, becomes the known one. */
  acceptIfKnown(content: FileContent): boolean {
    const pending = this.state?.pending
    if (content.hash !== this.known?.hash && content.hash !== pending?.hash) return false
    if (content.hash !== this.known?.hash) {
      this.known = this.lastExact = pending
      this.forgetEdit()
      if (pending) this.addVersion(pending.position)
    }
    this.content = content
    return true
  }

  setOverwritten(content: FileContent): void {
    this.content = content
    this.isInPlace = true
    this.isTorn = false
  }

  /** `keptAt` is where the replaced file is now. */
  setReplaced(content: FileContent, target: string, keptAt: string | undefined): void {
    this.replacedFile = keptAt === undefined ? undefined : { path: keptAt, target, signature: this.content?.signature }
    this.content = content
    this.isInPlace = false
    this.isTorn = false
  }

  /** The file holds the beginning of a content, because a write in place was interrupted; it must be written again. */
  setTorn(content: FileContent): void {
    this.content = content
    this.known = { position: 0, hash: content.hash }
    this.trouble = undefined
    this.forgetEdit()
    this.isTorn = true
  }

  /** Whether another program may have changed or removed the file. */
  async isTouched(): Promise<boolean> {
    const stat = await this.#files.stat(this.#statePaths.dataFile)
    return stat?.signature !== this.content?.signature
  }

  async writeState(journal: string, marks: Pick<StateFile, 'confirmed' | 'pending'>): Promise<void> {
    const state = { journal, ...marks, versions: this.versions }
    await writeStateFile(this.#files, this.#statePaths, state, this.isInPlace)
    if (!this.isInPlace && this.#isStateInJournal) await removeInPlaceState(this.#files, this.#statePaths)
    this.#isStateInJournal = this.isInPlace
    this.state = state
  }

  /**
   * The mark of a content. If a crash lost an imported edit from the state file, that edit is newer than the contents
   * in the state file: a file with one of these was edited again.
   */
  #markOf(hash: string | undefined, lastEdit: ContentMark | undefined): ContentMark | undefined {
    const { confirmed, pending } = this.state ?? {}
    if (!lastEdit || lastEdit.position <= (confirmed?.position ?? 0)) {
      return [confirmed, pending].find((mark) => mark?.hash === hash)
    }
    return [lastEdit, pending].find(
      (mark) => mark?.hash === hash && mark !== undefined && mark.position >= lastEdit.position,
    )
  }

  /** A pending content was put in place unless its temporary file still exists. */
  async #markBeforeEdit(): Promise<ContentMark | undefined> {
    const { confirmed, pending } = this.state ?? {}
    if (!pending || pending.position < (confirmed?.position ?? 0)) return confirmed
    const waiting = await contentOf(this.#files, temporaryPath(await this.#files.follow(this.#statePaths.dataFile)))
    return waiting?.hash === pending.hash ? confirmed : pending
  }
}
