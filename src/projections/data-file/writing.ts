import { Low } from 'lowdb'
import type { Logger } from 'pino'
import type { Texts } from '../../collections/snapshot.ts'
import type { Position } from '../../events/event.ts'
import type { Files } from '../../files/files.ts'
import type { Views } from '../views.ts'
import type { Account } from './account.ts'
import { contentOf, DataFileAdapter } from './adapter.ts'
import { type Mark, temporaryPath } from './state.ts'

export type Schedule = (work: () => void, delayMs: number) => { cancel(): void }

export interface WritingOptions {
  readonly files: Files
  /** No symbolic link. */
  readonly path: string
  readonly views: Views
  readonly log: Logger
  readonly schedule: Schedule
  readonly account: Account
  /** The UUID of the journal that the file is a projection of. */
  readonly journal: () => string
  /** Runs a piece of work when no other touches the file. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>
  /** An edit by hand was found: says whether it will be taken in without being asked for. */
  readonly edited: () => boolean
}

const DEBOUNCE_MS = 200
const RETRY_MS = 1000
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9

/** Keeps the file up to date with the views. An edit that was not taken in yet is never overwritten. */
export class Writing {
  readonly #options: WritingOptions
  readonly #account: Account
  readonly #low: Low<Texts>
  #timer: ReturnType<Schedule> | undefined
  #notBefore = 0
  /** The position of the snapshot that is being written. */
  #position: Position = 0
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
      beforeReplace: (hash) => this.#beforeReplace({ position: this.#position, hash }),
      beforeOverwrite: () => {
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

  /** Writes the file after so many milliseconds, or later when it was written just now. */
  soon(delayMs = DEBOUNCE_MS): void {
    if (this.#timer || this.#closed) return
    // It does not know yet how long it has to rest after what it is doing.
    if (this.#isWriting) {
      this.#again = Math.max(delayMs, this.#again ?? 0)
      return
    }
    const { schedule, inTurn } = this.#options
    const wait = Math.max(delayMs, this.#notBefore - performance.now())
    this.#timer = schedule(() => {
      this.#timer = undefined
      void inTurn(() => this.write())
    }, wait)
  }

  /** Nothing is begun by itself any more. */
  end(): void {
    this.#closed = true
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /** Writes the file unless it is up to date, edited or not valid; to be called in turn. */
  async write(): Promise<void> {
    const { views } = this.#options
    const account = this.#account
    if (account.trouble?.state === 'invalid') return
    const began = performance.now()
    this.#isWriting = true
    try {
      if (await this.#isEdited()) return
      if (await this.#isUpToDate()) {
        account.trouble = undefined
        this.failure = undefined
        return
      }
      // The file may be what is pending: that must be known after a crash, too.
      if (account.state?.pending && !account.isTorn) await this.#note(account.origin, undefined)
      const picture = views.picture()
      const { position } = picture
      this.#low.data = picture
      this.#position = position
      try {
        await this.#low.write()
      } finally {
        picture.close()
      }
      account.base = undefined
      account.known = { position, hash: '', ...account.content }
      account.trouble = undefined
      this.failure = undefined
      await this.confirm(account.known)
    } catch (error) {
      if (!(error instanceof EditedMeanwhile)) this.#fails(error)
    } finally {
      this.#low.data = new Map()
      this.#notBefore = performance.now() + REST_FACTOR * (performance.now() - began)
      this.#isWriting = false
      const again = this.#again
      this.#again = undefined
      if (again !== undefined) this.soon(again)
      else if (!account.trouble && views.position > (account.known?.position ?? 0)) this.soon()
    }
  }

  /** Notes that the file is this state of the journal's. When that fails it is written again, which notes it, too. */
  async confirm(mark: Mark): Promise<void> {
    this.#account.origin = mark
    this.#account.show(mark.position)
    try {
      await this.#note(mark, undefined)
    } catch (error) {
      this.#fails(error)
    }
  }

  #note(confirmed: Mark | undefined, pending: Mark | undefined): Promise<void> {
    return this.#account.note(this.#options.journal(), { confirmed, pending })
  }

  #fails(error: unknown): void {
    const { log, path } = this.#options
    if (this.#account.trouble?.state !== 'failing')
      log.error({ err: error, path }, 'the data file could not be written')
    this.failure = error as Error
    this.#account.trouble = { state: 'failing', detail: this.failure.message }
    this.soon(RETRY_MS)
  }

  async #isUpToDate(): Promise<boolean> {
    const { files, path, views } = this.#options
    const { known, state, base } = this.#account
    const isThere = (await files.stat(path)) !== undefined
    const isNoted = known !== undefined && known === state?.confirmed
    return isThere && isNoted && !base && known?.position === views.position
  }

  /** The last look before the file gets another content; before that it is noted as pending. */
  async #beforeReplace(pending: Mark): Promise<void> {
    const { files, path } = this.#options
    await this.#note(this.#account.origin, pending)
    if (!(await this.#isEdited())) return
    await this.#note(this.#account.origin, undefined)
    if (!pending.inPlace) await files.remove(temporaryPath(path))
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
    if (!edited() && account.trouble?.state !== 'edited') {
      log.warn(`${path} was edited by hand. It is not written to until POST /admin/reload takes the edit in.`)
    }
    account.trouble = { state: 'edited', detail: 'The file was edited by hand; POST /admin/reload takes the edit in.' }
    return true
  }
}

class EditedMeanwhile extends Error {}
