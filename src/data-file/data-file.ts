import type { Logger } from 'pino'
import type { Position } from '../events/event.ts'
import type { Projection } from '../events/projection.ts'
import { directoryOf, type Files, isOutOfSpace } from '../files/files.ts'
import type { Views } from '../projections/views.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import { type ProgressLog, progressLog } from '../runtime/progress-log.ts'
import type { Schedule } from '../runtime/schedule.ts'
import { Slices } from '../runtime/time-slices.ts'
import { Account, type DataFileStatus } from './account.ts'
import { contentOf, isBeginningOf } from './adapter.ts'
import { baseAt } from './base.ts'
import type { Doubtful } from './base-search.ts'
import type { Connection, Merged, TakenInEdit } from './connection.ts'
import { Edits, type MergedEdit, type Read } from './edits.ts'
import type { TakenIn } from './merged-edits.ts'
import { mismatchOf } from './state.ts'
import { SMALL_BYTES, type WriteSettings } from './write-budget.ts'
import { Writing } from './writer.ts'

export interface DataFileOptions {
  readonly files: Files
  /** Symbolic links are resolved. */
  readonly path: string
  /** The member of an item that is its id. */
  readonly idField: string
  /** The journal's directory, which holds the state file while the data file cannot be replaced. */
  readonly journal: string
  readonly views: Views
  readonly log: Logger
  /** Import edits as soon as the file changes. */
  readonly eager: boolean
  /** Do not merge edits, except for the first items. */
  readonly readOnly: boolean
  /** Calls back once after a delay, unless cancelled; does not keep the process alive. */
  readonly schedule: Schedule
  /** A monotonic clock in milliseconds. */
  readonly elapsedMs: () => number
  readonly now: () => Date
  /** When the file is written. */
  readonly settings: WriteSettings
  /** The data file overrides the journal: see docs/journal.md, "A journal that does not fit". */
  readonly acceptJournal: boolean
  readonly takenIn: TakenIn
  /** The file as read when the first items were checked. */
  readonly checked?: Read | undefined
}

const READ_ONLY = 'The server is read-only (Api.ReadOnly): the edit is not merged until a start without that.'
const QUIET_MS = 200
/** Delay before a start retries while the disk is full. */
const FULL_MS = 1000

/** The data file: the source of the first items, then a projection of the journal that people may edit. */
export class DataFile implements Projection {
  readonly #options: DataFileOptions
  readonly #account: Account
  readonly #writing: Writing
  readonly #edits: Edits
  readonly #slices = new Slices()
  #connection: Connection | undefined
  #reloadTimer: ReturnType<Schedule> | undefined
  #beginTimer: ReturnType<Schedule> | undefined
  #turn: Promise<unknown> = Promise.resolve()
  #watcher: { close(): void } | undefined
  #closed = false
  #isEnding = false
  /** Progress of merging a large file. */
  #progress: { readonly bytes: number; readonly of: number } | undefined
  readonly #logProgress: ProgressLog
  #checked: Read | undefined

  constructor(options: DataFileOptions) {
    this.#options = options
    const { files, path, idField, journal, views, log, schedule, elapsedMs, now, settings, takenIn } = options
    const eager = options.eager && !options.readOnly
    this.#account = new Account(files, { dataFile: path, journal }, takenIn)
    this.#edits = new Edits({
      files,
      path,
      idField,
      views,
      account: this.#account,
      slices: this.#slices,
      connection: () => this.#connected,
      takenIn,
      progress: (bytes, of) => this.#tell(bytes, of),
    })
    this.#checked = options.checked
    this.#logProgress = progressLog(log)
    this.#writing = new Writing({
      files,
      path,
      views,
      log,
      schedule,
      elapsedMs,
      now,
      settings,
      account: this.#account,
      journal: () => this.#connected.journal,
      inTurn: (work) => this.#inTurn(work),
      edited: () => {
        if (eager && !this.#reloadTimer) this.#reloadSoon()
        return eager
      },
    })
  }

  get status(): DataFileStatus {
    const { position } = this.#options.views
    // Nothing is known about the journal until the start.
    const lag = this.#connection ? this.#writing.lag : { behind: { events: position, bytes: 0 }, nextWrite: null }
    const state = this.#account.stateAt(position)
    if (!this.#progress) return { ...state, ...lag }
    const { bytes, of } = this.#progress
    return { ...state, state: 'merging', detail: `${bytes} of ${of} bytes were merged.`, ...lag }
  }

  #tell(bytes: number, of: number): void {
    if (this.#isEnding) throw new Ended()
    if (of < SMALL_BYTES) return
    this.#progress = { bytes, of }
    this.#logProgress({ bytes, of }, 'the data file is being merged')
  }

  /** Reads the state file. Call it before the journal is replayed. */
  prepare(): Promise<void> {
    return this.#account.prepare()
  }

  /** Imports edits made while no server ran, and from now on keeps the file up to date. */
  start(connection: Connection): Promise<void> {
    this.#connection = connection
    return this.#inTurn(() => this.#begin(connection.journal))
  }

  /** While the disk is full, leaves the file alone and retries later. */
  async #begin(journal: Connection['journal']): Promise<void> {
    const { log, schedule, path } = this.#options
    try {
      await this.#settle(journal)
    } catch (error) {
      const isFull = isOutOfSpace(error) || (error instanceof Refusal && error.code === 'DiskFull')
      if (!isFull || journal.head === 0) throw error
      const { message: detail } = error as Error
      if (!this.#beginTimer) log.error(`The data file ${path} is left alone until the disk has room: ${detail}`)
      this.#account.trouble = { state: 'failing', detail }
      this.#beginTimer = schedule(() => {
        this.#beginAgain(journal).catch((error) => log.error({ err: error }, 'the data file could not be read'))
      }, FULL_MS)
    }
  }

  #beginAgain(journal: Connection['journal']): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.#closed) await this.#begin(journal)
    })
  }

  /** Identifies the file's content, merges an edit of it, and keeps the file up to date from now on. */
  async #settle(journal: Connection['journal']): Promise<void> {
    const { files, path, eager, readOnly, log, acceptJournal, views } = this.#options
    const account = this.#account
    const mismatch = account.state && mismatchOf(path, account.state, journal)
    if (mismatch) {
      if (!acceptJournal) throw mismatch
      log.warn(`${mismatch.message} It is accepted.`)
      account.state = undefined
      account.base = views.snapshot()
      account.shown = []
    }
    const { signature } = (await files.stat(path)) ?? {}
    const checked = this.#checked?.content
    const isChecked = checked !== undefined && checked.signature === signature
    const content = isChecked ? checked : ((await account.untouched()) ?? (await contentOf(files, path)))
    await account.recognise(content?.hash)
    const { known, state } = account
    if (content && known) {
      account.content = content
      const isPending = known === state?.pending
      if (!isPending) account.isMerged = known !== state?.confirmed
      // With its signature the file need not be read at the next start.
      const isToBeSigned = !readOnly && !account.isMerged && known.signature !== content.signature
      if (isToBeSigned) account.known = { ...known, signature: content.signature }
      if (isPending || isToBeSigned) await this.#writing.confirm(account.known ?? known)
    } else if (content && (await this.#isTorn())) account.tear(content)
    else if (content) {
      try {
        await this.#takeIn()
      } catch (error) {
        if (journal.head === 0 || !(error instanceof Refusal) || error.code === 'DiskFull') throw error
        log.error(`The data file ${path} is not imported, the last valid state is served: ${error.message}`)
      }
    }
    // A large file is written in the background.
    const isSmall = (content?.size ?? journal.bytesAfter(0)) < SMALL_BYTES
    if ((!content || account.isOff) && isSmall) await this.#writing.write()
    else this.#writing.soon(0)
    if (eager || readOnly) this.#watch()
    if (eager && !readOnly) this.#reloadSoon()
  }

  /** Whether a crash interrupted a write in place. */
  async #isTorn(): Promise<boolean> {
    const { files, path, views } = this.#options
    const pending = this.#account.state?.pending
    if (!pending?.inPlace) return false
    const { position } = pending
    const then = await baseAt({ views, ...this.#connected }, { position, edits: [] })
    try {
      return await isBeginningOf(files, path, then)
    } finally {
      then.close()
    }
  }

  apply(): void {
    this.#writing.changed()
  }

  /**
   * Imports edits of the file.
   * @throws {Refusal} `Unprocessable` when the file is invalid.
   */
  reload(): Promise<TakenInEdit> {
    return this.#inTurn(async () => {
      const { files, path, views } = this.#options
      try {
        const found = await contentOf(files, path)
        if (found && !this.#account.isAccountedFor(found)) return await this.#takeIn()
        this.#account.trouble = undefined
        return { basis: views.position, events: 0, conflicts: [], basedOn: this.#account.shown.at(-1)?.position ?? 0 }
      } catch (error) {
        if (error instanceof Ended)
          throw new Refusal('Unavailable', 'The server is stopping. The next start merges the edit.')
        if (error instanceof Refusal && error.code === 'Invalid') {
          throw new Refusal('Unprocessable', error.message, error.faults)
        }
        throw error
      } finally {
        this.#writing.soon(0)
      }
    })
  }

  /** Writes the file now, regardless of the settings; resolves with the position that it shows. */
  snapshot(): Promise<Position> {
    return this.#inTurn(async () => {
      await this.#writing.write(true)
      const { trouble, known } = this.#account
      const { failure, isLeftBehind } = this.#writing
      if (isLeftBehind)
        throw new Refusal('Unavailable', 'The server is stopping. The data file stays behind the journal.')
      if (!trouble) return known?.position ?? 0
      const code = trouble.state !== 'failing' ? 'Conflict' : isOutOfSpace(failure) ? 'DiskFull' : 'Unavailable'
      throw new Refusal(code, `The data file is not written. ${trouble.detail}`)
    })
  }

  /** Aborts a running merge, which the next start continues. */
  end(): void {
    this.#isEnding = true
  }

  /**
   * Writes pending changes, unless that takes too long. Throws if writing fails for a reason other than a full disk or
   * a missing directory.
   */
  async close(): Promise<void> {
    this.end()
    this.#watcher?.close()
    this.#reloadTimer?.cancel()
    this.#beginTimer?.cancel()
    this.#writing.end()
    await this.#inTurn(() => this.#writing.finish())
    this.#closed = true
    const { failure } = this.#writing
    // The directory was removed on purpose, so the file is not written.
    const isGone = (failure as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
    if (!failure || isGone || isOutOfSpace(failure)) return
    throw new Error(
      `The data file ${this.#options.path} could not be written: ${failure.message}. The journal has everything.`,
    )
  }

  async #takeIn(): Promise<TakenInEdit> {
    const { views, log, path, readOnly } = this.#options
    const account = this.#account
    if (readOnly && this.#connected.journal.head > 0) {
      account.trouble = { state: 'edited', detail: READ_ONLY }
      throw new Refusal('Conflict', READ_ONLY)
    }
    const { takenIn } = this.#options
    const { until } = takenIn
    let edit: MergedEdit
    try {
      edit = await this.#edits.merge(await this.#checkedBefore())
      account.merged()
    } catch (cause) {
      const error = cause instanceof Refusal && takenIn.until > until ? afterParts(cause) : cause
      if (error instanceof Refusal) {
        account.trouble = { state: error.code === 'Invalid' ? 'invalid' : 'edited', detail: error.message }
      }
      throw error
    } finally {
      this.#progress = undefined
    }
    const { basis, events, writes, content, origin, isLast, hasAllIds } = edit
    // If others wrote meanwhile, or items had no id, the written file differs from the edited one.
    const isUnmixed = basis === (account.origin?.position ?? 0) && (writes.at(-1)?.[1] ?? basis) === basis + events
    const isExact = !account.isOff && isLast && hasAllIds && isUnmixed
    account.content = content
    account.trouble = undefined
    const { hash, signature } = content
    account.known = { position: isExact ? basis + events : views.position, hash, signature }
    if (isExact) await this.#writing.confirm(account.known)
    else {
      account.settle()
      account.isMerged = true
      if (events > 0) account.show(origin.position, [...origin.edits, ...writes])
    }
    const conflicts = withDoubtful(edit.conflicts, edit.doubtful)
    for (const { collection, id } of conflicts) {
      log.warn({ collection, id }, 'an edit of the data file replaced what was written since; the journal has both')
    }
    const basedOn = origin.position
    if (events > 0 || !isLast) log.info({ events, path, basedOn }, 'the data file was imported')
    return { basis, events, conflicts, basedOn }
  }

  /** The result of reading the first items, if the file has not changed. */
  async #checkedBefore(): Promise<Read | undefined> {
    const checked = this.#checked
    this.#checked = undefined
    const stat = checked && (await this.#options.files.stat(this.#options.path))
    return stat?.signature === checked?.content.signature ? checked : undefined
  }

  get #connected(): Connection {
    if (!this.#connection) throw new Error('the data file has no journal yet')
    return this.#connection
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work)
    this.#turn = result.catch(() => {})
    return result
  }

  #watch(): void {
    const { files, path } = this.#options
    const name = path.slice(path.lastIndexOf('/') + 1)
    this.#watcher = files.watch(directoryOf(path), (changed) => {
      if (changed === name) this.#reloadSoon()
    })
  }

  /** Imports the file once it has not changed for a while. */
  #reloadSoon(): void {
    const { log, schedule } = this.#options
    this.#reloadTimer?.cancel()
    this.#reloadTimer = schedule(async () => {
      this.#reloadTimer = undefined
      try {
        const isToBeRead = (await this.#account.isTouched()) || this.#account.trouble
        if (isToBeRead && !this.#closed) await this.reload()
      } catch (error) {
        if (error instanceof Refusal) log.error(`The data file is not imported: ${error.message}`)
        else log.error({ err: error }, 'the data file could not be imported')
      }
    }, QUIET_MS)
  }
}

function afterParts({ code, message, faults }: Refusal): Refusal {
  const how = 'The next reload merges the rest, or takes these parts back if the file is as it was before the edit.'
  return new Refusal(code, `${message} Parts of the edit were merged before that. ${how}`, faults)
}

/** The conflicts and the doubtful items, each once. */
function withDoubtful(conflicts: Merged['conflicts'], doubtful: readonly Doubtful[]): Merged['conflicts'] {
  const named = new Set(conflicts.map(({ collection, id }) => JSON.stringify([collection, id])))
  return [...conflicts, ...doubtful.filter(({ collection, id }) => !named.has(JSON.stringify([collection, id])))]
}
