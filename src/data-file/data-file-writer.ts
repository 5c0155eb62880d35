import { Low } from 'lowdb'
import type { Logger } from 'pino'
import type { CollectionTexts } from '../collections/file-items.ts'
import type { Position } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import type { Views } from '../projections/views.ts'
import type { Schedule } from '../runtime/schedule.ts'
import { DataFileAdapter } from './adapter.ts'
import { contentOf } from './file-content.ts'
import type { FileOnDisk, WriteLag } from './file-on-disk.ts'
import type { JournalConnection } from './journal-connection.ts'
import { type ContentMark, temporaryPath } from './state-file.ts'
import { SMALL_BYTES, WriteBudget, type WriteSettings } from './write-budget.ts'

export interface DataFileWriterOptions {
  readonly files: Files
  /** Symbolic links are resolved. */
  readonly path: string
  readonly views: Views
  readonly log: Logger
  readonly schedule: Schedule
  /** A monotonic clock in milliseconds. */
  readonly elapsedMs: () => number
  readonly now: () => Date
  readonly settings: WriteSettings
  readonly onDisk: FileOnDisk
  /** The journal of which the file is a projection. */
  readonly journal: () => JournalConnection['journal']
  /** Runs work while no other work uses the file. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>
  /** Called when an edit is found; returns whether it will be imported automatically. */
  readonly edited: () => boolean
}

const DEBOUNCE_MS = 200
const RETRY_MS = 1000
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9
/** How long a clean stop may take for the file. */
const STOP_MS = 5000

/**
 * Keeps the file up to date, with writes in proportion to what changed. Never overwrites an edit that is not merged
 * yet.
 */
export class DataFileWriter {
  readonly #options: DataFileWriterOptions
  readonly #onDisk: FileOnDisk
  readonly #low: Low<CollectionTexts>
  readonly #budget = new WriteBudget()
  #timer: ReturnType<Schedule> | undefined
  #notBeforeMs = 0
  /** When the file is written regardless of the budget. */
  #deadline: { readonly timer: ReturnType<Schedule>; readonly at: string } | undefined
  /** It must be written regardless of the budget: the deadline has passed, or a write has failed. */
  #isOverdue = false
  /** Speed of the last write. */
  #bytesPerMs: number | undefined
  /** When an incomplete write is aborted; undefined until the server stops. */
  #stopByMs: number | undefined
  /** There was no time to write it before the end. */
  isLeftBehind = false
  /** The position of the snapshot being written, and when that write began. */
  #position: Position = 0
  #beganMs = 0
  #closed = false
  /** Why the last write failed. */
  failure: Error | undefined
  #isWriting = false
  /** Delay in milliseconds of the next write, if requested during a write. */
  #again: number | undefined

  constructor(options: DataFileWriterOptions) {
    this.#options = options
    const { files, path, onDisk, log } = options
    this.#onDisk = onDisk
    const adapter = new DataFileAdapter({
      files,
      path,
      beforePart: () => this.#checkTime(0),
      beforeReplace: (hash) => this.#beforeReplace({ position: this.#position, hash }),
      beforeOverwrite: () => {
        // It takes as long as writing the new file that could not be put in place. Once begun, it is not aborted.
        this.#checkTime(options.elapsedMs() - this.#beganMs)
        if (!onDisk.isInPlace) log.warn(`${path} cannot be replaced by a new file. It is written in place.`)
        onDisk.isInPlace = true
        return this.#beforeReplace({ position: this.#position, hash: '', inPlace: true })
      },
      replaced: (content, isInPlace) => {
        onDisk.content = content
        onDisk.isInPlace = isInPlace
        onDisk.isTorn = false
      },
      torn: (content) => onDisk.tear(content),
      isTorn: () => onDisk.isTorn,
    })
    this.#low = new Low<CollectionTexts>(adapter, new Map())
  }

  get lag(): WriteLag {
    const events = Math.max(0, this.#options.views.position - this.#onDisk.position)
    return { behind: { events, bytes: events && this.#appended }, nextWrite: this.#nextWrite() }
  }

  /** The views have a new write. */
  changed(): void {
    this.#setDeadline()
    this.soon()
  }

  /** Writes the file after a delay if it is due then, or later if it has just been written. */
  soon(delayMs = DEBOUNCE_MS): void {
    if (this.#timer || this.#closed) return
    // The rest time after the current write is not known yet.
    if (this.#isWriting) {
      this.#again = Math.max(delayMs, this.#again ?? 0)
      return
    }
    const { schedule, inTurn, elapsedMs } = this.#options
    const wait = Math.max(delayMs, this.#notBeforeMs - elapsedMs())
    this.#timer = schedule(() => {
      this.#timer = undefined
      void inTurn(() => this.write())
    }, wait)
  }

  /** Starts no further writes, and aborts a new file that takes too long. */
  end(): void {
    this.#closed = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.#clearDeadline()
    this.#stopByMs = this.#options.elapsedMs() + STOP_MS
  }

  /** The write at a clean stop, if there is time. Call it in turn. */
  async finish(): Promise<void> {
    if (!this.isLeftBehind) await this.write(this.#options.settings.write !== 'never')
  }

  /** Writes the file if it is due or requested, unless it is current, edited or invalid. Call it in turn. */
  async write(isDemanded = false): Promise<void> {
    const { views, elapsedMs } = this.#options
    const onDisk = this.#onDisk
    if (onDisk.trouble?.state === 'invalid') return
    this.#beganMs = elapsedMs()
    this.#isWriting = true
    let isWritten = false
    try {
      if (await this.#isEdited()) return
      const isThere = await this.#isThere()
      if (isThere && this.#isUpToDate()) {
        this.#clearDeadline()
        this.#succeeded()
      } else if (isDemanded || this.#isDue(isThere)) {
        this.#checkTime(this.#expectedMs())
        await this.#write()
        isWritten = true
      } else {
        await this.#forgetPending()
        onDisk.trouble = undefined
        this.#setDeadline()
      }
    } catch (error) {
      if (error instanceof LeftBehind) await this.#leaveBehind(error.message)
      else if (!(error instanceof EditedMeanwhile)) this.#fails(error)
    } finally {
      this.#low.data = new Map()
      this.#notBeforeMs = elapsedMs() + REST_FACTOR * (elapsedMs() - this.#beganMs)
      this.#isWriting = false
      const again = this.#again
      this.#again = undefined
      if (again !== undefined) this.soon(again)
      else if (isWritten && !onDisk.trouble && views.position > onDisk.position) this.soon()
    }
  }

  async #write(): Promise<void> {
    const { views, elapsedMs } = this.#options
    const onDisk = this.#onDisk
    await this.#forgetPending()
    const snapshot = views.snapshot()
    const { position } = snapshot
    const [before, appended, isWithinBudget] = [onDisk.content?.size ?? 0, this.#appended, this.#missingBytes <= 0]
    // Later changes are not in the snapshot and wait for the next write.
    this.#clearDeadline()
    this.#low.data = snapshot
    this.#position = position
    try {
      await this.#low.write()
    } finally {
      snapshot.close()
    }
    const { hash = '', signature = '', size = 0 } = onDisk.content ?? {}
    if (isWithinBudget) this.#budget.spend(before, size, appended)
    this.#bytesPerMs = size / Math.max(1, elapsedMs() - this.#beganMs)
    onDisk.settle()
    onDisk.known = { position, hash, signature }
    this.#succeeded()
    await this.confirm(onDisk.known)
  }

  #succeeded(): void {
    this.#onDisk.trouble = undefined
    this.failure = undefined
    this.#isOverdue = false
  }

  /** Bytes of the journal that the file does not show. */
  get #appended(): number {
    return this.#options.journal().bytesAfter(this.#onDisk.position)
  }

  get #missingBytes(): number {
    return this.#budget.journalBytesFor(this.#onDisk.content?.size ?? 0) - this.#appended
  }

  /**
   * After a merged edit the file is written regardless of the settings: otherwise an item that was added without an id
   * would be added again by the next edit. The same holds for the remains of a write in place after a crash.
   */
  #isDue(isThere: boolean): boolean {
    const { isOff, isTorn } = this.#onDisk
    if (this.#isOverdue || (isThere && isOff) || isTorn) return true
    return this.#options.settings.write === 'auto' && (!isThere || this.#missingBytes <= 0)
  }

  #nextWrite(): WriteLag['nextWrite'] {
    const { now, elapsedMs, settings, views } = this.#options
    const { content } = this.#onDisk
    const { state } = this.#onDisk.stateAt(views.position)
    if (this.#closed || (state !== 'behind' && state !== 'failing')) return null
    if (this.#isDue(content !== undefined)) {
      return { at: new Date(now().getTime() + Math.max(0, this.#notBeforeMs - elapsedMs())).toISOString() }
    }
    if (this.#deadline) return { at: this.#deadline.at }
    return settings.write === 'auto' ? { afterJournalBytes: this.#missingBytes } : null
  }

  /** Starts the time limit for being behind. */
  #setDeadline(): void {
    const { schedule, now, inTurn, settings } = this.#options
    if (settings.maxDelaySeconds === undefined || this.#deadline || this.#closed) return
    const delayMs = 1000 * settings.maxDelaySeconds
    const timer = schedule(() => {
      this.#deadline = undefined
      this.#isOverdue = true
      void inTurn(() => this.write())
    }, delayMs)
    this.#deadline = { timer, at: new Date(now().getTime() + delayMs).toISOString() }
  }

  #clearDeadline(): void {
    this.#deadline?.timer.cancel()
    this.#deadline = undefined
  }

  /** Estimated duration of writing the file. Writing in place cannot be aborted. */
  #expectedMs(): number {
    const { content, isInPlace, isTorn } = this.#onDisk
    const size = content?.size ?? 0
    if (this.#bytesPerMs !== undefined) return size / this.#bytesPerMs
    return isInPlace && !isTorn && size >= SMALL_BYTES ? Number.POSITIVE_INFINITY : 0
  }

  /** Throws if the server is stopping and does not have this much time left. */
  #checkTime(neededMs: number): void {
    if (this.#stopByMs === undefined || this.#options.elapsedMs() + neededMs <= this.#stopByMs) return
    if (neededMs === 0) throw new LeftBehind(`writing it was given up after ${STOP_MS / 1000} seconds`)
    const takes = Number.isFinite(neededMs) ? `about ${Math.ceil(neededMs / 1000)} seconds` : 'nobody knows how long'
    throw new LeftBehind(`writing it takes ${takes}`)
  }

  async #leaveBehind(why: string): Promise<void> {
    const { log, path, views } = this.#options
    this.isLeftBehind = true
    const { position } = this.#onDisk
    log.info(
      { path, position, of: views.position },
      `The data file stays behind the journal, which has everything: ${why}.`,
    )
    await this.#forgetPending().catch((error) => this.#fails(error))
  }

  /**
   * Forgets and removes a new file that was not put in place. The file in place must be recognized first, also after a
   * crash.
   */
  async #forgetPending(): Promise<void> {
    const { origin, state, isTorn } = this.#onDisk
    if (state?.pending && !isTorn) await this.#note(origin, undefined)
    await this.#removeTemporary()
  }

  async #removeTemporary(): Promise<void> {
    const { files, path } = this.#options
    if (await files.stat(temporaryPath(path))) await files.remove(temporaryPath(path))
  }

  /**
   * Records that the file shows this state of the journal. If that fails the file is written again, which records it as
   * well.
   */
  async confirm(mark: ContentMark): Promise<void> {
    this.#onDisk.origin = mark
    this.#onDisk.addVersion(mark.position)
    try {
      await this.#note(mark, undefined)
      if (this.#isUpToDate()) this.#clearDeadline()
    } catch (error) {
      this.#fails(error)
    }
  }

  #note(confirmed: ContentMark | undefined, pending: ContentMark | undefined): Promise<void> {
    return this.#onDisk.note(this.#options.journal().id, { confirmed, pending })
  }

  #fails(error: unknown): void {
    const { log, path } = this.#options
    if (this.#onDisk.trouble?.state !== 'failing') log.error({ err: error, path }, 'the data file could not be written')
    this.failure = error as Error
    this.#onDisk.trouble = { state: 'failing', detail: this.failure.message }
    this.#isOverdue = true
    this.soon(RETRY_MS)
  }

  async #isThere(): Promise<boolean> {
    const { files, path } = this.#options
    return (await files.stat(path)) !== undefined
  }

  #isUpToDate(): boolean {
    const { known, state, isOff } = this.#onDisk
    const isNoted = known !== undefined && known === state?.confirmed
    return isNoted && !isOff && known.position === this.#options.views.position
  }

  /** The last check before the file is replaced, after recording the pending content. */
  async #beforeReplace(pending: ContentMark): Promise<void> {
    await this.#note(this.#onDisk.origin, pending)
    if (!(await this.#isEdited())) return
    await this.#note(this.#onDisk.origin, undefined)
    if (!pending.inPlace) await this.#removeTemporary()
    throw new EditedMeanwhile()
  }

  /** Whether the file has content that the server neither wrote nor imported. */
  async #isEdited(): Promise<boolean> {
    const { files, path, log, edited } = this.#options
    const onDisk = this.#onDisk
    const found = (await onDisk.isTouched()) ? await contentOf(files, path) : undefined
    if (!found || onDisk.isAccountedFor(found)) {
      if (onDisk.trouble?.state === 'edited') onDisk.trouble = undefined
      return false
    }
    const isMergedSoon = edited()
    if (onDisk.trouble?.state === 'edited') return true
    if (!isMergedSoon) log.warn(`${path} was edited. It is not written until POST /admin/reload merges the edit.`)
    onDisk.trouble = { state: 'edited', detail: 'The file was edited; POST /admin/reload merges the edit.' }
    return true
  }
}

class EditedMeanwhile extends Error {}

/** There is no time for the write before the process ends. */
class LeftBehind extends Error {}
