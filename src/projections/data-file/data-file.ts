import type { Logger } from 'pino'
import type { FileContents } from '../../collections/snapshot.ts'
import { Refusal } from '../../errors.ts'
import { directoryOf, type Files, isOutOfSpace } from '../../files/files.ts'
import { Slices, type Steps } from '../../slices.ts'
import { collectionsAt, Picture, type Views } from '../views.ts'
import { Account, type DataFileStatus } from './account.ts'
import { contentOf, isBeginningOf } from './adapter.ts'
import type { Doubtful } from './base-search.ts'
import type { Connection, Merged, TakenInEdit } from './connection.ts'
import { type Edit, Edits } from './edits.ts'
import { collectionsOf, readingOf } from './reading.ts'
import { mismatchOf, missingJournal, readState } from './state.ts'
import type { TakenIn } from './taken-in.ts'
import { type Schedule, Writing } from './writing.ts'

export interface DataFileOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  /** The journal's directory, where the state is kept while the file cannot be replaced. */
  readonly journal: string
  readonly views: Views
  readonly log: Logger
  /** Take in an edit as soon as the file changes. */
  readonly eager: boolean
  /** Calls back once after so many milliseconds, unless it is cancelled; holds no process alive. */
  readonly schedule: Schedule
  /** The data file is believed against the journal: see docs/journal.md, "A journal that does not fit". */
  readonly acceptJournal: boolean
  readonly takenIn: TakenIn
}

const QUIET_MS = 200
/** While the disk is full, a start looks at the file again after so many milliseconds. */
const FULL_MS = 1000

/** The data file: the first items, then a projection like any other, and a door for edits by hand. */
export class DataFile {
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

  constructor(options: DataFileOptions) {
    this.#options = options
    const { files, path, journal, views, log, schedule, eager, takenIn } = options
    this.#account = new Account(files, { dataFile: path, journal }, takenIn)
    this.#edits = new Edits({
      files,
      path,
      views,
      account: this.#account,
      slices: this.#slices,
      journal: () => this.#connected.journal,
      door: takenIn.door,
    })
    this.#writing = new Writing({
      files,
      path,
      views,
      log,
      schedule,
      account: this.#account,
      journal: () => this.#connected.journal.id,
      inTurn: (work) => this.#inTurn(work),
      edited: () => {
        if (eager && !this.#reloadTimer) this.#reloadSoon()
        return eager
      },
    })
  }

  get status(): DataFileStatus {
    return this.#account.statusAt(this.#options.views.position)
  }

  /** Reads what the state file says; to be called before the journal is replayed. */
  prepare(): Promise<void> {
    return this.#account.prepare()
  }

  /** Takes in what was edited while nothing ran, and from now on keeps the file up to date. */
  start(connection: Connection): Promise<void> {
    this.#connection = connection
    return this.#inTurn(() => this.#begin(connection.journal))
  }

  /** While the disk is full, the file is left alone, and looked at again later. */
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

  /** Finds out what the file holds, merges an edit of it, and keeps it up to date from now on. */
  async #settle(journal: Connection['journal']): Promise<void> {
    const { files, path, eager, log, acceptJournal, views } = this.#options
    const account = this.#account
    const mismatch = account.state && mismatchOf(path, account.state, journal)
    if (mismatch) {
      if (!acceptJournal) throw mismatch
      log.warn(`${mismatch.message} It is accepted.`)
      account.state = undefined
      account.base = views.picture()
      account.shown = []
    }
    const content = (await account.untouched()) ?? (await contentOf(files, path))
    await account.recognise(content?.hash)
    const { known, state } = account
    if (content && known) {
      account.content = content
      if (known === state?.pending) await this.#writing.confirm(known)
      else if (known !== state?.confirmed) account.base = await this.#edits.baseOf(account.origin?.position ?? 0)
    } else if (content && (await this.#isTorn())) account.tear(content)
    else if (content) {
      try {
        await this.#takeIn()
      } catch (error) {
        if (journal.head === 0 || !(error instanceof Refusal) || error.code === 'DiskFull') throw error
        log.error(`The data file ${path} is not taken in, the last good state is served: ${error.message}`)
      }
    }
    if (!content || account.base) await this.#writing.write()
    else this.#writing.soon(0)
    if (eager) {
      this.#watch()
      this.#reloadSoon()
    }
  }

  /** Whether a crash has left a beginning of what was to be written in place. */
  async #isTorn(): Promise<boolean> {
    const { files, path, views } = this.#options
    const pending = this.#account.state?.pending
    if (!pending?.inPlace) return false
    const { position } = pending
    const then =
      position === views.position
        ? views.picture()
        : await collectionsAt(views.store.directory, this.#connected.journal, position, position, () => false)
    try {
      return await isBeginningOf(files, path, then)
    } finally {
      then.close()
    }
  }

  /** The views have another write. */
  changed(): void {
    this.#writing.soon()
  }

  /** Takes in the file's edits, if there are any; refuses an invalid file as Unprocessable. */
  reload(): Promise<TakenInEdit> {
    return this.#inTurn(async () => {
      const { files, path, views } = this.#options
      try {
        const found = await contentOf(files, path)
        if (found && !this.#account.isAccountedFor(found)) return await this.#takeIn()
        this.#account.trouble = undefined
        return { basis: views.position, events: 0, conflicts: [], basedOn: this.#account.shown.at(-1)?.position ?? 0 }
      } catch (error) {
        if (error instanceof Refusal && error.code === 'Invalid') {
          throw new Refusal('Unprocessable', error.message, error.faults)
        }
        throw error
      } finally {
        this.#writing.soon(0)
      }
    })
  }

  /** Writes what is still to be written. Fails when that cannot be, unless for want of space or of its directory. */
  async close(): Promise<void> {
    this.#watcher?.close()
    this.#reloadTimer?.cancel()
    this.#beginTimer?.cancel()
    this.#writing.end()
    await this.#inTurn(() => this.#writing.write())
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
    const { views, log, path } = this.#options
    const account = this.#account
    let edit: Edit | undefined
    let taken: Merged
    try {
      edit = await this.#edits.find()
      taken = await this.#connected.takeIn(edit, edit.content.hash)
    } catch (error) {
      if (error instanceof Refusal) {
        account.trouble = { state: error.code === 'Invalid' ? 'invalid' : 'edited', detail: error.message }
      }
      throw error
    } finally {
      const { base } = edit ?? {}
      if (base instanceof Picture && base !== account.base) base.close()
    }
    const { file, content, origin } = edit
    const { basis, events } = taken
    // Where items had no id, it is not the same that comes back.
    const hasAllIds = [...file].every(([name, items]) => taken.file.get(name) === items)
    const isExact = !account.base && edit.isLast && basis === (account.origin?.position ?? 0) && hasAllIds
    account.content = content
    account.trouble = undefined
    account.known = { position: isExact ? basis + events : views.position, hash: content.hash }
    if (isExact) await this.#writing.confirm(account.known)
    else {
      account.base = await this.#slices.run(() => collectionsOf(taken.file))
      if (events > 0) account.show(origin.position, [...origin.edits, [basis + 1, basis + events]])
    }
    const conflicts = withDoubtful(taken.conflicts, edit.doubtful)
    for (const { collection, id } of conflicts) {
      log.warn({ collection, id }, 'an edit of the data file replaced what was written since; the journal has both')
    }
    const basedOn = origin.position
    if (events > 0 || !edit.isLast) log.info({ events, path, basedOn }, 'the data file was taken in')
    return { basis, events, conflicts, basedOn }
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

  /** Takes in the file once nothing has changed it for a while. */
  #reloadSoon(): void {
    const { log, schedule } = this.#options
    this.#reloadTimer?.cancel()
    this.#reloadTimer = schedule(async () => {
      this.#reloadTimer = undefined
      try {
        const isToBeRead = (await this.#account.isTouched()) || this.#account.trouble
        if (isToBeRead && !this.#closed) await this.reload()
      } catch (error) {
        if (error instanceof Refusal) log.error(`The data file is not taken in: ${error.message}`)
        else log.error({ err: error }, 'the data file could not be taken in')
      }
    }, QUIET_MS)
  }
}

/** Refuses a journal that is gone although a data file was written from it. Touches nothing. */
export async function checkNoJournalIsMissing(files: Files, path: string, journal: string): Promise<void> {
  const kept = await readState(files, { dataFile: path, journal })
  if (kept) throw missingJournal(path, kept.state)
}

/** Refuses first items that are not valid. Touches nothing. */
export async function checkFirstItems(
  files: Files,
  path: string,
  check: (file: FileContents) => Steps<unknown>,
): Promise<void> {
  const bytes = await files.read(path)
  if (!bytes) return
  const slices = new Slices()
  const file = await slices.run(() => readingOf([bytes], new Map()))
  await slices.run(() => check(file))
}

/** The conflicts, and what an edit may have replaced unseen, each once. */
function withDoubtful(conflicts: Merged['conflicts'], doubtful: readonly Doubtful[]): Merged['conflicts'] {
  const named = new Set(conflicts.map(({ collection, id }) => JSON.stringify([collection, id])))
  return [...conflicts, ...doubtful.filter(({ collection, id }) => !named.has(JSON.stringify([collection, id])))]
}
