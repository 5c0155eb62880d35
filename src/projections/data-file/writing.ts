import { Low } from 'lowdb'
import type { Logger } from 'pino'
import type { Texts } from '../../collections/snapshot.ts'
import type { Position } from '../../events/event.ts'
import type { Files } from '../../files/files.ts'
import type { Views } from '../views.ts'
import type { Account, Lag } from './account.ts'
import { contentOf, DataFileAdapter } from './adapter.ts'
import type { Connection } from './connection.ts'
import { type Mark, temporaryPath } from './state.ts'
import { SMALL_BYTES, WriteBudget, type WriteSettings } from './write-budget.ts'

export type Schedule = (work: () => void, delayMs: number) => { cancel(): void }

export interface WritingOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  readonly views: Views
  readonly log: Logger
  readonly schedule: Schedule
  /** Milliseconds since some beginning, of a clock that nobody sets. */
  readonly elapsedMs: () => number
  readonly now: () => Date
  readonly settings: WriteSettings
  readonly account: Account
  /** The journal that the file is a projection of. */
  readonly journal: () => Connection['journal']
  /** Runs a piece of work when no other touches the file. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>
  /** An edit by hand was found: says whether it will be taken in without being asked for. */
  readonly edited: () => boolean
}

const DEBOUNCE_MS = 200
const RETRY_MS = 1000
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9
/** A clean stop takes at most so long for the file. */
const STOP_MS = 5000

/**
 * Keeps the file up to date with the views, in proportion to what changed. An edit that was not merged yet is never
 * overwritten.
 */
export class Writing {
  readonly #options: WritingOptions
  readonly #account: Account
  readonly #low: Low<Texts>
  readonly #budget = new WriteBudget()
  #timer: ReturnType<Schedule> | undefined
  #notBeforeMs = 0
  /** When the file is written whatever the budget says. */
  #deadline: { readonly timer: ReturnType<Schedule>; readonly at: string } | undefined
  /** It is to be written whatever the budget says: the deadline has passed, or a write has failed. */
  #isOverdue = false
  /** How fast the file was last written. */
  #bytesPerMs: number | undefined
  /** When a write that is not complete is given up; undefined until the server stops. */
  #stopByMs: number | undefined
  /** There was no time to write it before the end. */
  isLeftBehind = false
  /** The position of the snapshot that is being written, and when that began. */
  #position: Position = 0
  #beganMs = 0
  #closed = false
  /** Why it was not written when it last should have been. */
  failure: Error | undefined
  #isWriting = false
  /** After how many milliseconds it is to be written again, as was said while it was being written. */
  #again: number | undefined

  constructor(options: WritingOptions) {
    this.#options = options
    const { files, path, account, log } = options
    this.#account = account
    const adapter = new DataFileAdapter({
      files,
      path,
      beforePart: () => this.#checkTime(0),
      beforeReplace: (hash) => this.#beforeReplace({ position: this.#position, hash }),
      beforeOverwrite: () => {
        // It takes as long as the new file that could not be put in place. Once begun, it is not given up.
        this.#checkTime(options.elapsedMs() - this.#beganMs)
        if (!account.isInPlace) log.warn(`${path} cannot be replaced by a new file. It is written in place.`)
        account.isInPlace = true
        return this.#beforeReplace({ position: this.#position, hash: '', inPlace: true })
      },
      replaced: (content, isInPlace) => {
        account.content = content
        account.isInPlace = isInPlace
        account.isTorn = false
      },
      torn: (content) => account.tear(content),
      isTorn: () => account.isTorn,
    })
    this.#low = new Low<Texts>(adapter, new Map())
  }

  get lag(): Lag {
    const events = Math.max(0, this.#options.views.position - this.#account.position)
    return { behind: { events, bytes: events && this.#appended }, nextWrite: this.#nextWrite() }
  }

  /** The views have another write. */
  changed(): void {
    this.#setDeadline()
    this.soon()
  }

  /** Writes the file after so many milliseconds if it is due then, or later when it was written just now. */
  soon(delayMs = DEBOUNCE_MS): void {
    if (this.#timer || this.#closed) return
    // It does not know yet how long it has to rest after what it is doing.
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

  /** Nothing is begun by itself any more, and a new file that is being written is given up when it takes too long. */
  end(): void {
    this.#closed = true
    this.#timer?.cancel()
    this.#timer = undefined
    this.#clearDeadline()
    this.#stopByMs = this.#options.elapsedMs() + STOP_MS
  }

  /** Writes what a clean stop is to leave, if there is time for it; to be called in turn. */
  async finish(): Promise<void> {
    if (!this.isLeftBehind) await this.write(this.#options.settings.write !== 'never')
  }

  /**
   * Writes the file if that is due or demanded, unless it is up to date, edited or not valid; to be called in turn.
   */
  async write(isDemanded = false): Promise<void> {
    const { views, elapsedMs } = this.#options
    const account = this.#account
    if (account.trouble?.state === 'invalid') return
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
        account.trouble = undefined
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
      else if (isWritten && !account.trouble && views.position > account.position) this.soon()
    }
  }

  async #write(): Promise<void> {
    const { views, elapsedMs } = this.#options
    const account = this.#account
    await this.#forgetPending()
    const picture = views.picture()
    const { position } = picture
    const [before, appended, isWithinBudget] = [account.content?.size ?? 0, this.#appended, this.#missingBytes <= 0]
    // What comes from now on is not in it, and waits for the next time.
    this.#clearDeadline()
    this.#low.data = picture
    this.#position = position
    try {
      await this.#low.write()
    } finally {
      picture.close()
    }
    const { hash = '', signature = '', size = 0 } = account.content ?? {}
    if (isWithinBudget) this.#budget.spend(before, size, appended)
    this.#bytesPerMs = size / Math.max(1, elapsedMs() - this.#beganMs)
    account.settle()
    account.known = { position, hash, signature }
    this.#succeeded()
    await this.confirm(account.known)
  }

  #succeeded(): void {
    this.#account.trouble = undefined
    this.failure = undefined
    this.#isOverdue = false
  }

  /** Bytes that the journal has beyond what the file shows. */
  get #appended(): number {
    return this.#options.journal().bytesAfter(this.#account.position)
  }

  get #missingBytes(): number {
    return this.#budget.journalBytesFor(this.#account.content?.size ?? 0) - this.#appended
  }

  /**
   * After a merged edit the file is written whatever the settings say: an item that was added without an id would be
   * added again by the next edit. So is what a crash has left of a write in place.
   */
  #isDue(isThere: boolean): boolean {
    const { isOff, isTorn } = this.#account
    if (this.#isOverdue || (isThere && isOff) || isTorn) return true
    return this.#options.settings.write === 'auto' && (!isThere || this.#missingBytes <= 0)
  }

  #nextWrite(): Lag['nextWrite'] {
    const { now, elapsedMs, settings, views } = this.#options
    const { content } = this.#account
    const { state } = this.#account.stateAt(views.position)
    if (this.#closed || (state !== 'behind' && state !== 'failing')) return null
    if (this.#isDue(content !== undefined)) {
      return { at: new Date(now().getTime() + Math.max(0, this.#notBeforeMs - elapsedMs())).toISOString() }
    }
    if (this.#deadline) return { at: this.#deadline.at }
    return settings.write === 'auto' ? { afterJournalBytes: this.#missingBytes } : null
  }

  /** Begins to count how long the file is behind. */
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

  /** How long the file takes to be written, as far as that is known. What is written in place cannot be tried. */
  #expectedMs(): number {
    const { content, isInPlace, isTorn } = this.#account
    const size = content?.size ?? 0
    if (this.#bytesPerMs !== undefined) return size / this.#bytesPerMs
    return isInPlace && !isTorn && size >= SMALL_BYTES ? Number.POSITIVE_INFINITY : 0
  }

  /** Fails when the server stops, and has not so much time left. */
  #checkTime(neededMs: number): void {
    if (this.#stopByMs === undefined || this.#options.elapsedMs() + neededMs <= this.#stopByMs) return
    if (neededMs === 0) throw new LeftBehind(`writing it was given up after ${STOP_MS / 1000} seconds`)
    const takes = Number.isFinite(neededMs) ? `about ${Math.ceil(neededMs / 1000)} seconds` : 'nobody knows how long'
    throw new LeftBehind(`writing it takes ${takes}`)
  }

  async #leaveBehind(why: string): Promise<void> {
    const { log, path, views } = this.#options
    this.isLeftBehind = true
    const { position } = this.#account
    log.info({ path, position, of: views.position }, `The data file is left behind the journal, which has all: ${why}.`)
    await this.#forgetPending().catch((error) => this.#fails(error))
  }

  /** Forgets and removes a new file that was not put in place. What is in place must be known first, also after a crash. */
  async #forgetPending(): Promise<void> {
    const { origin, state, isTorn } = this.#account
    if (state?.pending && !isTorn) await this.#note(origin, undefined)
    await this.#removeTemporary()
  }

  async #removeTemporary(): Promise<void> {
    const { files, path } = this.#options
    if (await files.stat(temporaryPath(path))) await files.remove(temporaryPath(path))
  }

  /** Notes that the file is this state of the journal's. When that fails it is written again, which notes it, too. */
  async confirm(mark: Mark): Promise<void> {
    this.#account.origin = mark
    this.#account.show(mark.position)
    try {
      await this.#note(mark, undefined)
      if (this.#isUpToDate()) this.#clearDeadline()
    } catch (error) {
      this.#fails(error)
    }
  }

  #note(confirmed: Mark | undefined, pending: Mark | undefined): Promise<void> {
    return this.#account.note(this.#options.journal().id, { confirmed, pending })
  }

  #fails(error: unknown): void {
    const { log, path } = this.#options
    if (this.#account.trouble?.state !== 'failing')
      log.error({ err: error, path }, 'the data file could not be written')
    this.failure = error as Error
    this.#account.trouble = { state: 'failing', detail: this.failure.message }
    this.#isOverdue = true
    this.soon(RETRY_MS)
  }

  async #isThere(): Promise<boolean> {
    const { files, path } = this.#options
    return (await files.stat(path)) !== undefined
  }

  #isUpToDate(): boolean {
    const { known, state, isOff } = this.#account
    const isNoted = known !== undefined && known === state?.confirmed
    return isNoted && !isOff && known.position === this.#options.views.position
  }

  /** The last look before the file gets another content; before that it is noted as pending. */
  async #beforeReplace(pending: Mark): Promise<void> {
    await this.#note(this.#account.origin, pending)
    if (!(await this.#isEdited())) return
    await this.#note(this.#account.origin, undefined)
    if (!pending.inPlace) await this.#removeTemporary()
    throw new EditedMeanwhile()
  }

  /** Whether the file holds something that did not come from here and was not taken in yet. */
  async #isEdited(): Promise<boolean> {
    const { files, path, log, edited } = this.#options
    const account = this.#account
    const found = (await account.isTouched()) ? await contentOf(files, path) : undefined
    if (!found || account.isAccountedFor(found)) {
      if (account.trouble?.state === 'edited') account.trouble = undefined
      return false
    }
    const isMergedSoon = edited()
    if (account.trouble?.state === 'edited') return true
    if (!isMergedSoon)
      log.warn(`${path} was edited by hand. It is not written to until POST /admin/reload merges the edit.`)
    account.trouble = { state: 'edited', detail: 'The file was edited by hand; POST /admin/reload merges the edit.' }
    return true
  }
}

class EditedMeanwhile extends Error {}

/** There is no time for it before the end of the process. */
class LeftBehind extends Error {}
