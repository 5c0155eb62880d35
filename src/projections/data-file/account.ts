import type { Position } from '../../events/event.ts'
import type { Files } from '../../files/files.ts'
import { type Content, contentOf } from './adapter.ts'
import type { HeldBase } from './base.ts'
import { remembered, type Shown } from './shown.ts'
import {
  type DataFileState,
  forgetInPlace,
  type Mark,
  readState,
  type StatePlace,
  temporaryPath,
  writeState,
} from './state.ts'
import type { TakenIn } from './taken-in.ts'

/** What the file on disk is. */
export interface FileState {
  readonly state: 'current' | 'behind' | 'merging' | 'edited' | 'invalid' | 'failing'
  /** The state after which event the file shows. */
  readonly position: Position
  readonly detail?: string
}

/** How far the file is behind the journal, and until when. */
export interface Lag {
  readonly behind: { readonly events: number; readonly bytes: number }
  /** When it is written: at an ISO 8601 time, or after so many further bytes of the journal. Null: when it is asked for. */
  readonly nextWrite: { readonly at: string } | { readonly afterJournalBytes: number } | null
}

export type DataFileStatus = FileState & Lag

/**
 * What is known of the file on disk: which contents are accounted for, from which state an edit of it was made,
 * and what stands in the way of writing it.
 */
export class Account {
  readonly #files: Files
  readonly #path: string
  readonly #place: StatePlace
  /** What was last read or written; undefined while there is no file. */
  content: Content | undefined
  /** As the state file has it. */
  state: DataFileState | undefined
  /** The content on disk that is accounted for: written from the journal, or taken in. */
  known: Mark | undefined
  /** The last content on disk that was a state of the journal's; an edited file was edited from it. */
  origin: Mark | undefined
  /** The contents that the file has had, in order: an edit may have been made from any of them. */
  shown: readonly Shown[] = []
  trouble: Pick<FileState, 'state' | 'detail'> | undefined
  /** Whether the file is written in place, as it cannot be replaced; the state is with the journal then. */
  isInPlace = false
  isTorn = false
  #isKeptInPlace = false
  /** The state that --accept-journal compares the file with: it goes before the origin. */
  base: HeldBase | undefined
  /** The file has a merged edit, and is no state of the journal's. */
  isMerged = false
  readonly #takenIn: TakenIn
  /** The last event of the edit that was merged last, whole. */
  #mergedUntil: Position = 0

  constructor(files: Files, place: StatePlace, takenIn: TakenIn) {
    this.#files = files
    this.#path = place.dataFile
    this.#place = place
    this.#takenIn = takenIn
  }

  /** The file is not what the journal amounts to at any position. */
  get isOff(): boolean {
    return this.isMerged || this.base !== undefined
  }

  /**
   * Whether parts of an edit were merged, and not the rest. Then no content is known: whoever puts back what the file was before
   * takes these parts back.
   */
  get hasUnfinished(): boolean {
    const { last, until } = this.#takenIn
    return until > Math.max(last?.position ?? 0, this.state?.confirmed?.position ?? 0, this.#mergedUntil)
  }

  /** An edit was merged, whole. */
  merged(): void {
    this.#mergedUntil = this.#takenIn.until
  }

  /** The file was written, or is what an exact edit made of it. */
  settle(): void {
    this.base?.close()
    this.base = undefined
    this.isMerged = false
  }

  /** The last event that the file shows; of a merged edit that was not written since, the last one before the edit. */
  get position(): Position {
    return (this.isOff ? this.origin : this.known)?.position ?? 0
  }

  stateAt(position: Position): FileState {
    const shown = this.known?.position ?? 0
    if (this.trouble) return { ...this.trouble, position: shown }
    return { state: shown < position || this.isOff ? 'behind' : 'current', position: shown }
  }

  /** Reads what the state file says; to be called before the journal is replayed. */
  async prepare(): Promise<void> {
    const kept = await readState(this.#files, this.#place)
    this.state = kept?.state
    this.shown = kept?.state.shown ?? []
    this.isInPlace = this.#isKeptInPlace = kept?.isInPlace ?? false
  }

  /** The file has another content, or had it when it was edited. */
  show(position: Position, edits: Shown['edits'] = []): void {
    this.shown = remembered(this.shown, { position, edits })
  }

  /** The content of the file on disk, when that is untouched since it was written and confirmed; else it must be read. */
  async untouched(): Promise<Content | undefined> {
    const { hash, signature } = this.state?.confirmed ?? {}
    if (hash === undefined || signature === undefined) return undefined
    const stat = await this.#files.stat(this.#path)
    return stat?.signature === signature ? { hash, signature, size: stat.size } : undefined
  }

  /** Finds out what the file is that a start has found, by its hash; undefined when there is none. */
  async recognise(hash: string | undefined): Promise<void> {
    const taken = this.#takenIn.last
    const known = this.#written(hash, taken)
    this.origin = known && known !== taken ? known : await this.#editedFrom()
    if (this.origin) this.show(this.origin.position)
    // What --accept-journal goes on with is compared, whatever it is.
    this.known = this.base || this.hasUnfinished ? undefined : known
  }

  /** Whether it is the known content, or the one that was to be put in place when that failed half-way. */
  isAccountedFor(content: Content): boolean {
    const pending = this.state?.pending
    if (this.hasUnfinished) return false
    if (content.hash !== this.known?.hash && content.hash !== pending?.hash) return false
    if (content.hash !== this.known?.hash) {
      this.known = this.origin = pending
      this.settle()
      if (pending) this.show(pending.position)
    }
    this.content = content
    return true
  }

  /** The file holds the beginning of a content, because a write in place was interrupted; it must be written again. */
  tear(content: Content): void {
    this.content = content
    this.known = { position: 0, hash: content.hash }
    this.settle()
    this.isTorn = true
  }

  /** Whether somebody else may have written to the file, or removed it. */
  async isTouched(): Promise<boolean> {
    const stat = await this.#files.stat(this.#path)
    return stat?.signature !== this.content?.signature
  }

  async note(journal: string, marks: Pick<DataFileState, 'confirmed' | 'pending'>): Promise<void> {
    const state = { journal, ...marks, shown: this.shown }
    await writeState(this.#files, this.#place, state, this.isInPlace)
    if (!this.isInPlace && this.#isKeptInPlace) await forgetInPlace(this.#files, this.#place)
    this.#isKeptInPlace = this.isInPlace
    this.state = state
  }

  /**
   * The mark of this content. An edit that was taken in, when the state file does not know of it because of a crash,
   * came after what it knows: who brings that back has edited the file again.
   */
  #written(hash: string | undefined, taken: Mark | undefined): Mark | undefined {
    const { confirmed, pending } = this.state ?? {}
    if (!taken || taken.position <= (confirmed?.position ?? 0)) {
      return [confirmed, pending].find((mark) => mark?.hash === hash)
    }
    return [taken, pending].find((mark) => mark?.hash === hash && mark !== undefined && mark.position >= taken.position)
  }

  /** A pending content was put in place unless it still waits under its temporary name. */
  async #editedFrom(): Promise<Mark | undefined> {
    const { confirmed, pending } = this.state ?? {}
    if (!pending) return confirmed
    const waiting = await contentOf(this.#files, temporaryPath(this.#path))
    return waiting?.hash === pending.hash ? confirmed : pending
  }
}
