import { Low } from 'lowdb'
import type { Logger } from 'pino'
import { hasAllIds, type Snapshot } from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { lastPosition, type Recorded } from '../../events/journal.ts'
import { directoryOf, type Files } from '../../files/files.ts'
import { snapshotAt, type Views } from '../views.ts'
import { type Content, DataFileAdapter, parseFile, readContent } from './adapter.ts'
import type { Connection, Merged, TakenInEdit } from './connection.ts'
import {
  type DataFileState,
  type Mark,
  mismatchOf,
  missingJournal,
  readState,
  temporaryPath,
  writeState,
} from './state.ts'

/** The actor of events that a hand edit became. Their `key` is the SHA-256 of the file that was taken in. */
export const DATA_FILE_ACTOR = 'data-file'

export type Schedule = (work: () => void, delayMs: number) => { cancel(): void }

export interface DataFileOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  readonly views: Views
  readonly log: Logger
  /** Take in an edit as soon as the file changes. */
  readonly eager: boolean
  /** Calls back once after so many milliseconds, unless it is cancelled; holds no process alive. */
  readonly schedule: Schedule
  /** The data file is believed against the journal: see docs/journal.md, "A journal that does not fit". */
  readonly acceptJournal: boolean
}

export interface DataFileStatus {
  readonly state: 'current' | 'behind' | 'edited' | 'invalid' | 'failing'
  /** The state after which event the file shows. */
  readonly position: Position
  readonly detail?: string
}

const DEBOUNCE_MS = 200
const RETRY_MS = 1000
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9

/**
 * The data file: the first items, then a projection like any other, and a door for edits by hand. An edit that
 * was not taken in yet is never overwritten.
 */
export class DataFile {
  readonly #options: DataFileOptions
  readonly #adapter: DataFileAdapter
  readonly #low: Low<Snapshot>
  #connection: Connection | undefined
  /** As the state file has it. */
  #state: DataFileState | undefined
  /** The content on disk that is accounted for: written from the journal, or taken in. */
  #known: Mark | undefined
  /** The last content on disk that was a state of the journal's; an edited file was edited from it. */
  #origin: Mark | undefined
  /** What the file on disk says, where that is no state of the journal's: it goes before the origin. */
  #base: Snapshot | undefined
  #lastTakenIn: Mark | undefined
  #trouble: Pick<DataFileStatus, 'state' | 'detail'> | undefined
  #timer: ReturnType<Schedule> | undefined
  #reloadTimer: ReturnType<Schedule> | undefined
  #notBefore = 0
  /** The position of the snapshot that is being written. */
  #writing: Position = 0
  #turn: Promise<unknown> = Promise.resolve()
  #watcher: { close(): void } | undefined
  #closed = false

  constructor(options: DataFileOptions) {
    this.#options = options
    const { files, path } = options
    this.#adapter = new DataFileAdapter({ files, path, beforeReplace: (hash) => this.#beforeReplace(hash) })
    this.#low = new Low<Snapshot>(this.#adapter, new Map())
  }

  get status(): DataFileStatus {
    const position = this.#known?.position ?? 0
    if (this.#trouble) return { ...this.#trouble, position }
    return { state: position < this.#options.views.position || this.#base ? 'behind' : 'current', position }
  }

  /** Reads what the state file says; to be called before the journal is replayed. */
  async prepare(): Promise<void> {
    this.#state = await readState(this.#options.files, this.#options.path)
  }

  /** Refuses a journal that is gone although a data file was written from it. Touches nothing. */
  async checkJournalIsThere(exists: boolean): Promise<void> {
    const { files, path, acceptJournal } = this.#options
    const state = await readState(files, path)
    if (state && !exists && !acceptJournal) throw missingJournal(path, state)
  }

  /** Refuses first items that are not valid. Touches nothing. */
  async checkFirstItems(check: (file: Snapshot) => void): Promise<void> {
    const bytes = await this.#options.files.read(this.#options.path)
    if (bytes) check(parseFile(bytes))
  }

  /** A write that the journal held when it was opened; the views have it. */
  replay(recorded: Recorded): void {
    if (isTakenIn(recorded)) this.#lastTakenIn = { position: lastPosition(recorded), hash: recorded.key }
  }

  /** Takes in what was edited while nothing ran, and from now on keeps the file up to date. */
  start(connection: Connection): Promise<void> {
    this.#connection = connection
    return this.#inTurn(() => this.#begin(connection.journal))
  }

  async #begin(journal: Connection['journal']): Promise<void> {
    const { files, path, eager, log, acceptJournal, views } = this.#options
    const mismatch = this.#state && mismatchOf(path, this.#state, journal)
    if (mismatch) {
      if (!acceptJournal) throw mismatch
      log.warn(`${mismatch.message} It is accepted.`)
      this.#state = undefined
      this.#base = views.snapshot()
    }
    const found = await readContent(files, path)
    const known = this.#written(found?.content.hash)
    this.#origin = known && known !== this.#lastTakenIn ? known : await this.#editedFrom()
    // What --accept-journal goes on with is compared, whatever it is.
    this.#known = this.#base ? undefined : known
    if (found && this.#known) {
      const { confirmed, pending } = this.#state ?? {}
      this.#adapter.content = found.content
      if (this.#known === pending) await this.#confirm(pending)
      else if (this.#known !== confirmed) this.#base = await this.#baseOf(this.#origin?.position ?? 0)
    } else if (found) {
      try {
        await this.#takeIn(found.bytes, found.content)
      } catch (error) {
        if (journal.head === 0 || !(error instanceof Refusal)) throw error
        log.error(`The data file ${path} is not taken in, the last good state is served: ${error.message}`)
      }
    }
    if (!found || this.#base) await this.#write()
    else this.#schedule(0)
    if (eager) {
      this.#watch()
      this.#reloadSoon()
    }
  }

  /** The views have changed. */
  changed(): void {
    this.#schedule(DEBOUNCE_MS)
  }

  /** Takes in the file's edits, if there are any; refuses an invalid file as Unprocessable. */
  reload(): Promise<TakenInEdit> {
    return this.#inTurn(async () => {
      const { files, path, views } = this.#options
      const found = await readContent(files, path)
      if (!found || this.#isAccountedFor(found.content)) {
        this.#trouble = undefined
        this.#schedule(0)
        return { basis: views.position, events: 0, conflicts: [] }
      }
      try {
        return await this.#takeIn(found.bytes, found.content)
      } catch (error) {
        if (error instanceof Refusal && error.code === 'Invalid') {
          throw new Refusal('Unprocessable', error.message, error.faults)
        }
        throw error
      } finally {
        this.#schedule(0)
      }
    })
  }

  /** Writes what is still to be written. */
  async close(): Promise<void> {
    this.#watcher?.close()
    this.#timer?.cancel()
    this.#reloadTimer?.cancel()
    await this.#inTurn(() => this.#write())
    this.#closed = true
    this.#timer?.cancel()
  }

  /**
   * The mark of this content. An edit that was taken in, when the state file does not know of it because of a crash,
   * came after what it knows: who brings that back has edited the file again.
   */
  #written(hash: string | undefined): Mark | undefined {
    const { confirmed, pending } = this.#state ?? {}
    const taken = this.#lastTakenIn
    if (!taken || taken.position <= (confirmed?.position ?? 0)) {
      return [confirmed, pending].find((mark) => mark?.hash === hash)
    }
    return [taken, pending].find((mark) => mark?.hash === hash && mark !== undefined && mark.position >= taken.position)
  }

  /** A pending content was put in place unless it still waits under its temporary name. */
  async #editedFrom(): Promise<Mark | undefined> {
    const { files, path } = this.#options
    const { confirmed, pending } = this.#state ?? {}
    if (!pending) return confirmed
    const waiting = await readContent(files, temporaryPath(path))
    return waiting?.content.hash === pending.hash ? confirmed : pending
  }

  /** What the file said before it was edited: a state of the journal's, and any edit that was taken in since. */
  async #baseOf(origin: Position): Promise<Snapshot> {
    if (this.#base) return this.#base
    const { views } = this.#options
    return origin === views.position ? views.snapshot() : snapshotAt(this.#connected.journal, origin, isTakenIn)
  }

  async #takeIn(bytes: Buffer, content: Content): Promise<TakenInEdit> {
    const { views, log, path } = this.#options
    const origin = this.#origin?.position ?? 0
    let file: Snapshot
    let taken: Merged
    try {
      file = parseFile(bytes)
      taken = await this.#connected.takeIn({ file, base: await this.#baseOf(origin) }, content.hash)
    } catch (error) {
      if (error instanceof Refusal) {
        this.#trouble = { state: error.code === 'Invalid' ? 'invalid' : 'edited', detail: error.message }
      }
      throw error
    }
    const isExact = !this.#base && taken.basis === origin && hasAllIds(file)
    this.#adapter.content = content
    this.#trouble = undefined
    this.#known = { position: isExact ? taken.basis + taken.events : views.position, hash: content.hash }
    if (isExact) await this.#confirm(this.#known)
    else this.#base = taken.file
    for (const { collection, id } of taken.conflicts) {
      log.warn({ collection, id }, 'an edit of the data file replaced what was written since; the journal has both')
    }
    if (taken.events > 0) log.info({ events: taken.events, path }, 'the data file was taken in')
    return taken
  }

  get #connected(): Connection {
    if (!this.#connection) throw new Error('the data file has no journal yet')
    return this.#connection
  }

  #schedule(delayMs: number): void {
    if (this.#timer || this.#closed) return
    const wait = Math.max(delayMs, this.#notBefore - performance.now())
    this.#timer = this.#options.schedule(() => {
      this.#timer = undefined
      void this.#inTurn(() => this.#write())
    }, wait)
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => {})
    return result
  }

  async #write(): Promise<void> {
    const { views } = this.#options
    if (this.#trouble?.state === 'invalid') return
    const began = performance.now()
    try {
      if ((await this.#isEdited()) || (await this.#isUpToDate())) return
      // The file may be what is pending: that must be known after a crash, too.
      if (this.#state?.pending) await this.#writeState({ confirmed: this.#origin, pending: undefined })
      const { position } = views
      this.#low.data = views.snapshot()
      this.#writing = position
      await this.#low.write()
      this.#base = undefined
      this.#known = { position, hash: this.#adapter.content?.hash ?? '' }
      this.#trouble = undefined
      await this.#confirm(this.#known)
    } catch (error) {
      if (!(error instanceof EditedMeanwhile)) this.#fails(error)
    } finally {
      this.#low.data = new Map()
      this.#notBefore = performance.now() + REST_FACTOR * (performance.now() - began)
      if (!this.#trouble && views.position > (this.#known?.position ?? 0)) this.#schedule(DEBOUNCE_MS)
    }
  }

  /** Notes that the file is this state of the journal's. When that fails it is written again, which notes it, too. */
  async #confirm(mark: Mark): Promise<void> {
    this.#origin = mark
    try {
      await this.#writeState({ confirmed: mark, pending: undefined })
    } catch (error) {
      this.#fails(error)
    }
  }

  #fails(error: unknown): void {
    const { log, path } = this.#options
    if (this.#trouble?.state !== 'failing') log.error({ err: error, path }, 'the data file could not be written')
    this.#trouble = { state: 'failing', detail: (error as Error).message }
    this.#schedule(RETRY_MS)
  }

  async #isUpToDate(): Promise<boolean> {
    const { files, path, views } = this.#options
    const isThere = (await files.stat(path)) !== undefined
    const isNoted = this.#known !== undefined && this.#known === this.#state?.confirmed
    return isThere && isNoted && !this.#base && this.#known?.position === views.position
  }

  /** The last look before the rename; then the new content is noted as pending. */
  async #beforeReplace(hash: string): Promise<void> {
    const { files, path } = this.#options
    await this.#writeState({ confirmed: this.#origin, pending: { position: this.#writing, hash } })
    if (!(await this.#isEdited())) return
    await this.#writeState({ confirmed: this.#origin, pending: undefined })
    await files.remove(temporaryPath(path))
    throw new EditedMeanwhile()
  }

  /** Whether the file holds something that did not come from here and was not taken in yet. */
  async #isEdited(): Promise<boolean> {
    const { files, path, log, eager } = this.#options
    const found = (await this.#isTouched()) ? await readContent(files, path) : undefined
    if (!found || this.#isAccountedFor(found.content)) {
      if (this.#trouble?.state === 'edited') this.#trouble = undefined
      return false
    }
    if (eager) {
      if (!this.#reloadTimer) this.#reloadSoon()
    } else if (this.#trouble?.state !== 'edited') {
      log.warn(`${path} was edited by hand. It is not written to until POST /admin/reload takes the edit in.`)
    }
    this.#trouble = { state: 'edited', detail: 'The file was edited by hand; POST /admin/reload takes the edit in.' }
    return true
  }

  /** Whether somebody else may have written to the file, or removed it. */
  async #isTouched(): Promise<boolean> {
    const stat = await this.#options.files.stat(this.#options.path)
    return stat?.signature !== this.#adapter.content?.signature
  }

  /** Whether it is the known content, or the one that was to be put in place when that failed half-way. */
  #isAccountedFor(content: Content): boolean {
    const pending = this.#state?.pending
    if (content.hash !== this.#known?.hash && content.hash !== pending?.hash) return false
    if (content.hash !== this.#known?.hash) {
      this.#known = this.#origin = pending
      this.#base = undefined
    }
    this.#adapter.content = content
    return true
  }

  async #writeState(marks: Pick<DataFileState, 'confirmed' | 'pending'>): Promise<void> {
    const state = { journal: this.#connected.journal.id, ...marks }
    await writeState(this.#options.files, this.#options.path, state)
    this.#state = state
  }

  #watch(): void {
    const { files, path } = this.#options
    const name = path.slice(path.lastIndexOf('/') + 1)
    this.#watcher = files.watch(directoryOf(path), (changed) => {
      if (changed === name) this.#reloadSoon()
    })
  }

  /** Takes in the file once nothing has changed it for a while. */
  #reloadSoon(): void {
    const { log, schedule } = this.#options
    this.#reloadTimer?.cancel()
    this.#reloadTimer = schedule(async () => {
      this.#reloadTimer = undefined
      try {
        if (((await this.#isTouched()) || this.#trouble) && !this.#closed) await this.reload()
      } catch (error) {
        if (error instanceof Refusal) log.error(`The data file is not taken in: ${error.message}`)
        else log.error({ err: error }, 'the data file could not be taken in')
      }
    }, DEBOUNCE_MS)
  }
}

function isTakenIn(recorded: Recorded): recorded is Recorded & { readonly key: string } {
  return recorded.actor === DATA_FILE_ACTOR && recorded.key !== undefined
}

class EditedMeanwhile extends Error {}
