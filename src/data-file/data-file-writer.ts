import { Low } from 'lowdb'
import { isUnwritable } from '../files/files.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import type { Schedule, Semaphore } from '../runtime/turns.ts'
import { DataFileAdapter } from './adapter.ts'
import { type DataFileOptions, SMALL_BYTES } from './data-file-options.ts'
import { contentOf, isJson5 } from './file-content.ts'
import type { FileOnDisk, WriteLag } from './file-on-disk.ts'
import type { JournalConnection } from './journal-connection.ts'
import { type ContentMark, removeTemporary } from './state-file.ts'

interface DataFileWriterOptions
  extends Pick<
    DataFileOptions,
    'files' | 'path' | 'idField' | 'log' | 'views' | 'settings' | 'schedule' | 'elapsedMs' | 'now'
  > {
  readonly onDisk: FileOnDisk
  /** The journal of which the file is a projection. */
  readonly journal: () => JournalConnection['journal']
  /** Held while the file is used. */
  readonly exclusive: Semaphore
  /** Called when an edit is found; returns whether it will be imported automatically. */
  readonly edited: () => boolean
}

const RETRY_MS = 1000
const CANNOT_WRITE = 'the data file could not be written'

/** Keeps the file up to date, with writes in proportion to what changed. Never overwrites an unmerged edit. */
export class DataFileWriter {
  readonly #options: DataFileWriterOptions
  readonly #onDisk: FileOnDisk
  readonly #log: LimitedLog
  readonly #adapter: DataFileAdapter
  readonly #schedule: WriteSchedule
  /** Whether it must be written however little the journal has grown: the deadline has passed, or a write has failed. */
  #isOverdue = false
  /** Speed of the last write. */
  #bytesPerMs: number | undefined
  readonly #stopLimit: StopLimit
  /** Whether there was no time to write the file before the end. */
  isLeftBehind = false
  /** Why the last write failed. */
  failure: Error | undefined

  constructor(options: DataFileWriterOptions) {
    this.#options = options
    const { files, path, idField, onDisk, log, exclusive, settings } = options
    this.#onDisk = onDisk
    this.#log = new LimitedLog(log, options.elapsedMs)
    this.#stopLimit = new StopLimit(options.elapsedMs)
    this.#schedule = new WriteSchedule({
      ...options,
      maxDelaySeconds: settings.maxDelaySeconds,
      write: (isOverdue) => {
        this.#isOverdue ||= isOverdue
        void exclusive.run(() => this.write())
      },
    })
    this.#adapter = new DataFileAdapter({
      files,
      path,
      idField,
      beforePart: () => this.#stopLimit.check(0),
      onDisk,
      beforeReplace: (pending) => this.#beforeReplace(pending),
      beforeOverwrite: () => this.#beforeOverwrite(),
    })
  }

  get lag(): WriteLag {
    const events = Math.max(0, this.#options.views.position - this.#onDisk.position)
    return { behind: { events, bytes: events && this.#bytesBehind }, nextWrite: this.#nextWrite() }
  }

  /** The views have a new write. */
  changed(): void {
    this.#schedule.setDeadline()
    this.#schedule.soon()
  }

  /** Writes the file after a delay if it is due then, or later if it has just been written. */
  soon(delayMs?: number): void {
    this.#schedule.soon(delayMs)
  }

  /** Starts no further writes, and aborts a new file that takes too long. */
  end(): void {
    this.#schedule.close()
    this.#stopLimit.begin()
  }

  /** The write at a clean stop, if there is time. The caller holds `exclusive`. */
  async finish(): Promise<void> {
    if (!this.isLeftBehind) await this.write(this.#options.settings.write !== 'never')
  }

  /** Writes the file if it is due or requested, unless it is current, edited or invalid. The caller holds `exclusive`. */
  async write(isDemanded = false): Promise<void> {
    const { files, path, views } = this.#options
    const onDisk = this.#onDisk
    if (onDisk.trouble?.state === 'invalid') return
    this.#schedule.begin()
    let isWritten = false
    try {
      if ((await this.#noticeEdit()) || isJson5(path) || (await this.#putBackIfEdited())) return
      await this.#forgetPending()
      const isThere = (await files.stat(path)) !== undefined
      if (isThere && this.#isUpToDate()) {
        this.#schedule.clearDeadline()
        this.#succeeded()
      } else if (isDemanded || this.#isDue(isThere)) {
        this.#stopLimit.check(this.#expectedMs())
        await this.#writeSnapshot()
        isWritten = true
      } else {
        onDisk.trouble = undefined
        this.#schedule.setDeadline()
      }
    } catch (error) {
      if (error instanceof LeftBehind) await this.#leaveBehind(error.message)
      else if (!(error instanceof EditedMeanwhile)) this.#failed(error)
    } finally {
      this.#schedule.end(isWritten && !onDisk.trouble && views.position > onDisk.position)
    }
  }

  /** Records whose file it is, before its first items are merged. */
  async recordJournal(): Promise<void> {
    try {
      await this.#recordMarks(undefined, undefined)
    } catch (error) {
      if (!isUnwritable(error)) throw error
      this.#setInPlace()
      await this.#recordMarks(undefined, undefined)
    }
  }

  /** Records that the file shows this state of the journal. If that fails, the file is written and recorded again. */
  async confirm(mark: ContentMark): Promise<void> {
    this.#onDisk.lastExact = mark
    this.#onDisk.addVersion(mark.position)
    try {
      // A kept file may be an edit. Without the pending content it would be taken for the beginning of a new file.
      await this.#recordMarks(mark, this.#onDisk.replacedFile ? this.#onDisk.state?.pending : undefined)
      if (this.#isUpToDate()) this.#schedule.clearDeadline()
    } catch (error) {
      this.#failed(error)
    }
  }

  async #writeSnapshot(): Promise<void> {
    const { views } = this.#options
    const onDisk = this.#onDisk
    const snapshot = views.snapshot()
    const { position } = snapshot
    // Later changes are not in the snapshot and wait for the next write.
    this.#schedule.clearDeadline()
    try {
      await new Low(this.#adapter, snapshot).write()
    } finally {
      snapshot.close()
    }
    const { hash = '', signature = '', size = 0 } = onDisk.content ?? {}
    this.#bytesPerMs = size / Math.max(1, this.#schedule.writingMs)
    onDisk.forgetEdit()
    onDisk.known = { position, hash, signature }
    this.#succeeded()
    onDisk.lastExact = onDisk.known
    onDisk.addVersion(position)
    // Somebody may have saved between the last look at the file and its replacement.
    if (await this.#putBackIfEdited()) return
    onDisk.replacedFile = undefined
    await this.confirm(onDisk.known)
    await removeTemporary(this.#options.files, this.#options.path)
  }

  #succeeded(): void {
    this.#onDisk.trouble = undefined
    this.failure = undefined
    this.#log.recovered(CANNOT_WRITE, { path: this.#options.path }, 'the data file is written again')
    this.#isOverdue = false
  }

  /** Bytes of the journal that the file does not show. */
  get #bytesBehind(): number {
    return this.#options.journal().bytesAfter(this.#onDisk.position)
  }

  /**
   * How many bytes the journal must still grow before the file is written. A large file waits for as many as it has, so
   * that at most two bytes of it are written for each byte of the journal.
   */
  get #missingBytes(): number {
    const size = this.#onDisk.content?.size ?? 0
    return size < SMALL_BYTES ? 0 : size - this.#bytesBehind
  }

  /**
   * After a merged edit the file is written regardless of the settings: otherwise an item that was added without an id
   * would be added again by the next edit. The same holds for the remains of a write in place after a crash.
   */
  #isDue(isThere: boolean): boolean {
    const { isInexact, isTorn } = this.#onDisk
    if (this.#isOverdue || (isThere && isInexact) || isTorn) return true
    return this.#options.settings.write === 'auto' && (!isThere || this.#missingBytes <= 0)
  }

  #nextWrite(): WriteLag['nextWrite'] {
    const { settings, views, path } = this.#options
    const { content } = this.#onDisk
    const { state } = this.#onDisk.statusAt(views.position)
    if (isJson5(path) || this.#schedule.isClosed || (state !== 'behind' && state !== 'failing')) return null
    const at = this.#isDue(content !== undefined) ? this.#schedule.earliest : this.#schedule.deadline
    if (at !== undefined) return { at }
    return settings.write === 'auto' ? { afterJournalBytes: this.#missingBytes } : null
  }

  /** Estimated duration of writing the file. Writing in place cannot be aborted. */
  #expectedMs(): number {
    const { content, isInPlace, isTorn } = this.#onDisk
    const size = content?.size ?? 0
    if (this.#bytesPerMs !== undefined) return size / this.#bytesPerMs
    return isInPlace && !isTorn && size >= SMALL_BYTES ? Number.POSITIVE_INFINITY : 0
  }

  async #leaveBehind(why: string): Promise<void> {
    const { log, path, views } = this.#options
    this.isLeftBehind = true
    const { position } = this.#onDisk
    log.info(
      { path, position, of: views.position },
      `The data file stays behind the journal, which has everything: ${why}.`,
    )
    await this.#forgetPending().catch((error) => this.#failed(error))
  }

  /**
   * Forgets the pending content, and removes its file if that was not put in place, or else the replaced one. The file
   * in place must be recognized, and neither may be edited.
   */
  async #forgetPending(): Promise<void> {
    const { lastExact, state, isTorn } = this.#onDisk
    this.#onDisk.replacedFile = undefined
    if (state?.pending && !isTorn) await this.#recordMarks(lastExact, undefined)
    await removeTemporary(this.#options.files, this.#options.path)
  }

  /** Returns whether the file has content that the server neither wrote nor imported. It is merged, or reported. */
  async #noticeEdit(): Promise<boolean> {
    const { files, path, log, edited, onDisk } = this.#options
    const found = (await onDisk.isTouched()) ? await contentOf(files, path) : undefined
    if (!found || onDisk.acceptIfKnown(found)) {
      if (onDisk.trouble?.state === 'edited') onDisk.trouble = undefined
      return false
    }
    const isMergedSoon = edited()
    if (onDisk.trouble?.state === 'edited') return true
    if (!isMergedSoon) log.warn(`${path} was edited. ${MERGED_BY}; it is not written until then.`)
    onDisk.trouble = { state: 'edited', detail: `The file was edited. ${MERGED_BY}.` }
    return true
  }

  /** Puts the replaced file back if it was edited after the last look at it; returns whether. It is merged as any edit. */
  async #putBackIfEdited(): Promise<boolean> {
    const onDisk = this.#onDisk
    if (!(await onDisk.isReplacedFileEdited())) return false
    const { pending } = onDisk.state ?? {}
    // After a crash, the file that is replaced now is recognized by this hash.
    if (pending) await this.#recordMarks(onDisk.lastExact, { ...pending, replaces: onDisk.content?.hash })
    await onDisk.putBack()
    await this.#noticeEdit()
    return true
  }

  #recordMarks(confirmed: ContentMark | undefined, pending: ContentMark | undefined): Promise<void> {
    return this.#onDisk.writeState(this.#options.journal().id, { confirmed, pending })
  }

  #failed(error: unknown): void {
    this.#log.error({ err: error, path: this.#options.path }, CANNOT_WRITE)
    this.failure = error as Error
    this.#onDisk.trouble = { state: 'failing', detail: this.failure.message }
    this.#isOverdue = true
    this.soon(RETRY_MS)
  }

  #isUpToDate(): boolean {
    const { known, state, isInexact } = this.#onDisk
    const isRecorded = known !== undefined && known === state?.confirmed
    return isRecorded && !isInexact && known.position === this.#options.views.position
  }

  /** The last check before the file is replaced, after recording the pending content. */
  async #beforeReplace(pending: ContentMark): Promise<void> {
    await this.#recordMarks(this.#onDisk.lastExact, pending)
    if (!(await this.#noticeEdit())) return
    await this.#recordMarks(this.#onDisk.lastExact, undefined)
    if (!pending.inPlace) await removeTemporary(this.#options.files, this.#options.path)
    throw new EditedMeanwhile()
  }

  #beforeOverwrite(): void {
    // It takes as long as writing the new file that could not be put in place. Once begun, it is not aborted.
    this.#stopLimit.check(this.#schedule.writingMs)
    this.#setInPlace()
  }

  #setInPlace(): void {
    const { log, path, onDisk } = this.#options
    if (!onDisk.isInPlace) log.warn(`${path} cannot be replaced by a new file. It is written in place.`)
    onDisk.isInPlace = true
  }
}

const MERGED_BY = 'POST /admin/reload or the next start merges the edit, and --watch merges edits at once'

/** The file was edited since the write began. */
class EditedMeanwhile extends Error {}

/** How long a clean stop may take for the file. */
const STOP_MS = 5000

/** There is no time for the write before the process ends. */
class LeftBehind extends Error {}

/** Limits the time for writing the file at a clean stop. */
class StopLimit {
  readonly #elapsedMs: () => number
  /** Undefined until the server stops. */
  #stopByMs: number | undefined

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  begin(): void {
    this.#stopByMs = this.#elapsedMs() + STOP_MS
  }

  /** @throws {LeftBehind} if the server is stopping and does not have this much time left. */
  check(neededMs: number): void {
    if (this.#stopByMs === undefined || this.#elapsedMs() + neededMs <= this.#stopByMs) return
    if (neededMs === 0) throw new LeftBehind(`writing it was given up after ${STOP_MS / 1000} seconds`)
    const takes = Number.isFinite(neededMs) ? `about ${Math.ceil(neededMs / 1000)} seconds` : 'nobody knows how long'
    throw new LeftBehind(`writing it takes ${takes}`)
  }
}

const DEBOUNCE_MS = 200
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9

interface WriteScheduleOptions {
  readonly schedule: Schedule
  readonly elapsedMs: () => number
  readonly now: () => Date
  /** Longest time that the file may be behind; undefined for no limit. */
  readonly maxDelaySeconds: number | undefined
  /** Begins a write; `isOverdue` after the longest time. */
  readonly write: (isOverdue: boolean) => void
}

/** When the data file is written next: after a delay, a rest after the previous write, or at a deadline. */
class WriteSchedule {
  readonly #options: WriteScheduleOptions
  #timer: ReturnType<Schedule> | undefined
  #notBeforeMs = 0
  #deadline: { readonly timer: ReturnType<Schedule>; readonly at: string } | undefined
  #beganMs = 0
  #isWriting = false
  /** Delay in milliseconds of the next write, if requested during a write. */
  #again: number | undefined
  #isClosed = false

  constructor(options: WriteScheduleOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** When the next write may begin, as an ISO 8601 time. */
  get earliest(): string {
    const { now, elapsedMs } = this.#options
    return new Date(now().getTime() + Math.max(0, this.#notBeforeMs - elapsedMs())).toISOString()
  }

  /** When the file is written however little the journal has grown, as an ISO 8601 time. */
  get deadline(): string | undefined {
    return this.#deadline?.at
  }

  get writingMs(): number {
    return this.#options.elapsedMs() - this.#beganMs
  }

  /** Begins a write after a delay, or later if one has just ended. */
  soon(delayMs = DEBOUNCE_MS): void {
    if (this.#timer || this.#isClosed) return
    // The rest time after the current write is not known yet.
    if (this.#isWriting) {
      this.#again = Math.max(delayMs, this.#again ?? 0)
      return
    }
    const { schedule, elapsedMs, write } = this.#options
    const wait = Math.max(delayMs, this.#notBeforeMs - elapsedMs())
    this.#timer = schedule(() => {
      this.#timer = undefined
      write(false)
    }, wait)
  }

  /** Starts the time limit for being behind, unless it runs already. */
  setDeadline(): void {
    const { schedule, now, maxDelaySeconds, write } = this.#options
    if (maxDelaySeconds === undefined || this.#deadline || this.#isClosed) return
    const delayMs = 1000 * maxDelaySeconds
    const timer = schedule(() => {
      this.#deadline = undefined
      write(true)
    }, delayMs)
    this.#deadline = { timer, at: new Date(now().getTime() + delayMs).toISOString() }
  }

  clearDeadline(): void {
    this.#deadline?.timer.cancel()
    this.#deadline = undefined
  }

  begin(): void {
    this.#beganMs = this.#options.elapsedMs()
    this.#isWriting = true
  }

  /** The write has ended. `isBehind` when the file needs another one. */
  end(isBehind: boolean): void {
    this.#notBeforeMs = this.#options.elapsedMs() + REST_FACTOR * this.writingMs
    this.#isWriting = false
    const again = this.#again
    this.#again = undefined
    if (again !== undefined) this.soon(again)
    else if (isBehind) this.soon()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.clearDeadline()
  }
}
