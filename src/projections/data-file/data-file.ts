import { Low } from 'lowdb'
import type { Logger } from 'pino'
import type { Snapshot } from '../../collections/snapshot.ts'
import { JournalMismatch, Refusal } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { lastPosition, type Recorded } from '../../events/journal.ts'
import { directoryOf, type Files } from '../../files/files.ts'
import { Views } from '../views.ts'
import { type Content, DataFileAdapter, parseFile, readContent } from './adapter.ts'
import { type DataFileState, type Mark, readState, temporaryPath, writeState } from './state.ts'

/** The actor of events that a hand edit became. Their `key` is the SHA-256 of the file that was taken in. */
export const DATA_FILE_ACTOR = 'data-file'

export interface TakenInEdit {
  /** Of the last event before the edit's own, which follow it. */
  readonly basis: Position
  readonly events: number
  readonly conflicts: readonly { readonly collection: string; readonly id: string | number }[]
}

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

/** What the data file needs once there is a journal. */
export interface Connection {
  readonly journal: {
    readonly id: string
    readonly head: Position
    read(from: Position, to: Position): AsyncIterable<Recorded>
  }
  /** Makes events of an edit; `hash` is that of the edited file. */
  readonly takeIn: (edit: { readonly file: Snapshot; readonly base: Snapshot }, hash: string) => Promise<TakenInEdit>
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
  #state: DataFileState | undefined
  /** The content on disk that is accounted for: written from the journal, or taken in. */
  #known: Mark | undefined
  /** What the file on disk says, where that is no state of the journal's. */
  #base: Snapshot | undefined
  #lastTakenIn: Mark | undefined
  #trouble: Pick<DataFileStatus, 'state' | 'detail'> | undefined
  #timer: { cancel(): void } | undefined
  #notBefore = 0
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
    const state = await readState(this.#options.files, this.#options.path)
    if (!state || exists || this.#options.acceptJournal) return
    throw new JournalMismatch(
      `${this.#options.path} was written from the journal ${state.journal}, up to position ${lastOf(state)}, and there is no journal. ` +
        'Put it back, or start with --accept-journal to begin a new one from the data file.',
    )
  }

  /** A write that the journal held when it was opened; the views have it. */
  replay(recorded: Recorded): void {
    if (recorded.actor === DATA_FILE_ACTOR && recorded.key !== undefined) {
      this.#lastTakenIn = { position: lastPosition(recorded), hash: recorded.key }
    }
  }

  /** Takes in what was edited while nothing ran, and from now on keeps the file up to date. */
  async start(connection: Connection): Promise<void> {
    this.#connection = connection
    const { files, path, eager, log } = this.#options
    this.#checkFits(connection.journal)
    const found = await readContent(files, path)
    const marks = [this.#state?.confirmed, this.#state?.pending, this.#takenInSince()]
    this.#known = marks.find((mark) => mark !== undefined && mark.hash === found?.content.hash)
    if (found && this.#known) {
      this.#adapter.content = found.content
      if (this.#known !== this.#state?.confirmed) await this.#writeState({ confirmed: this.#known, pending: undefined })
    } else if (found) {
      const isFirst = connection.journal.head === 0
      try {
        await this.#takeIn(found.bytes, found.content)
      } catch (error) {
        if (isFirst || !(error instanceof Refusal)) throw error
        log.error(`The data file ${path} is not taken in, the last good state is served: ${error.message}`)
      }
    }
    if (!found || this.#base) await this.#inTurn(() => this.#write())
    else this.#schedule(0)
    if (eager) this.#watch()
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
      if (!found || found.content.hash === this.#known?.hash) {
        if (found) this.#adapter.content = found.content
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
    await this.#inTurn(() => this.#write())
    this.#closed = true
    this.#timer?.cancel()
  }

  #checkFits(journal: Connection['journal']): void {
    const state = this.#state
    const { acceptJournal, path, log } = this.#options
    if (!state) return
    const isAnother = state.journal !== journal.id
    if (!isAnother && lastOf(state) <= journal.head) return
    const why = isAnother
      ? `${path} was written from the journal ${state.journal}, and this one is ${journal.id}`
      : `${path} shows position ${lastOf(state)}, and the journal ends at ${journal.head}: it has lost the events ${journal.head + 1} to ${lastOf(state)}`
    if (!acceptJournal) {
      throw new JournalMismatch(
        `${why}. Put the right journal back, or start with --accept-journal to go on with this one: what the data file holds then becomes new events.`,
      )
    }
    log.warn(`${why}. It is accepted, as --accept-journal says.`)
    this.#state = undefined
    this.#base = this.#options.views.snapshot()
  }

  /** The last edit that was taken in, if the file was not written since. */
  #takenInSince(): Mark | undefined {
    const taken = this.#lastTakenIn
    return taken && taken.position > (this.#state?.confirmed?.position ?? 0) ? taken : undefined
  }

  async #takeIn(bytes: Buffer, content: Content): Promise<TakenInEdit> {
    const { views, log, path } = this.#options
    const { takeIn } = this.#connected
    let file: Snapshot
    let taken: TakenInEdit
    const basePosition = await this.#basePosition()
    const base = this.#base ?? (await this.#stateAt(basePosition))
    try {
      file = parseFile(bytes)
      taken = await takeIn({ file, base }, content.hash)
    } catch (error) {
      if (error instanceof Refusal) {
        this.#trouble = { state: error.code === 'Invalid' ? 'invalid' : 'edited', detail: error.message }
      }
      throw error
    }
    const isExact = !this.#base && taken.basis === basePosition && hasAllIds(file)
    this.#adapter.content = content
    this.#known = { position: isExact ? taken.basis + taken.events : views.position, hash: content.hash }
    this.#trouble = undefined
    if (isExact) {
      await this.#writeState({ confirmed: this.#known, pending: undefined })
    } else {
      this.#base = file
    }
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

  /**
   * The position that an edited file was edited from: a pending content was put in place unless it still waits
   * under its temporary name.
   */
  async #basePosition(): Promise<Position> {
    const { files, path } = this.#options
    if (this.#known) return this.#known.position
    const { confirmed, pending } = this.#state ?? {}
    if (!pending) return confirmed?.position ?? this.#takenInSince()?.position ?? 0
    const waiting = await readContent(files, temporaryPath(path))
    return waiting?.content.hash === pending.hash ? (confirmed?.position ?? 0) : pending.position
  }

  async #stateAt(position: Position): Promise<Snapshot> {
    const { views } = this.#options
    if (position === views.position) return views.snapshot()
    const past = new Views()
    for await (const recorded of this.#connected.journal.read(1, position)) past.apply(recorded)
    return past.snapshot()
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
    const { views, log, path } = this.#options
    if (this.#trouble?.state === 'invalid') return
    const began = performance.now()
    try {
      if ((await this.#isEdited()) || (await this.#isUpToDate())) return
      const { position } = views
      this.#low.data = views.snapshot()
      this.#writing = position
      await this.#low.write()
      this.#known = { position, hash: this.#adapter.content?.hash ?? '' }
      this.#base = undefined
      await this.#writeState({ confirmed: this.#known, pending: undefined })
      this.#trouble = undefined
    } catch (error) {
      if (error instanceof EditedMeanwhile) return
      if (this.#trouble?.state !== 'failing') log.error({ err: error, path }, 'the data file could not be written')
      this.#trouble = { state: 'failing', detail: (error as Error).message }
      this.#schedule(RETRY_MS)
    } finally {
      this.#low.data = new Map()
      this.#notBefore = performance.now() + REST_FACTOR * (performance.now() - began)
      if (!this.#trouble && views.position > (this.#known?.position ?? 0)) this.#schedule(DEBOUNCE_MS)
    }
  }

  /** The position of the snapshot that is being written. */
  #writing: Position = 0

  async #isUpToDate(): Promise<boolean> {
    const { files, path, views } = this.#options
    const isThere = (await files.stat(path)) !== undefined
    return isThere && !this.#base && this.#known?.position === views.position
  }

  /** The last look before the rename; then the new content is noted as pending. */
  async #beforeReplace(hash: string): Promise<void> {
    const { files, path } = this.#options
    await this.#writeState({ confirmed: this.#state?.confirmed, pending: { position: this.#writing, hash } })
    if (!(await this.#isEdited())) return
    await this.#writeState({ confirmed: this.#state?.confirmed, pending: undefined })
    await files.remove(temporaryPath(path))
    throw new EditedMeanwhile()
  }

  /** Whether the file holds something that did not come from here and was not taken in yet. */
  async #isEdited(): Promise<boolean> {
    const { files, path, log, eager } = this.#options
    const stat = await files.stat(path)
    if (!stat || stat.signature === this.#adapter.content?.signature) return false
    const found = await readContent(files, path)
    if (!found) return false
    if (found.content.hash === this.#known?.hash) {
      this.#adapter.content = found.content
      return false
    }
    if (this.#trouble?.state !== 'edited' && !eager) {
      log.warn(`${path} was edited by hand. It is not written to until POST /admin/reload takes the edit in.`)
    }
    this.#trouble = { state: 'edited', detail: 'The file was edited by hand; POST /admin/reload takes the edit in.' }
    return true
  }

  async #writeState(marks: Pick<DataFileState, 'confirmed' | 'pending'>): Promise<void> {
    const state = { journal: this.#connected.journal.id, ...marks }
    await writeState(this.#options.files, this.#options.path, state)
    this.#state = state
  }

  #watch(): void {
    const { files, path, log } = this.#options
    const name = path.slice(path.lastIndexOf('/') + 1)
    let timer: { cancel(): void } | undefined
    this.#watcher = files.watch(directoryOf(path), (changed) => {
      if (changed !== name) return
      timer?.cancel()
      timer = this.#options.schedule(() => {
        if (this.#closed) return
        this.reload().catch((error: unknown) => {
          if (error instanceof Refusal) log.error(`The data file is not taken in: ${error.message}`)
          else log.error({ err: error }, 'the data file could not be taken in')
        })
      }, DEBOUNCE_MS)
    })
  }
}

class EditedMeanwhile extends Error {}

function lastOf(state: DataFileState | undefined): Position {
  return Math.max(state?.confirmed?.position ?? 0, state?.pending?.position ?? 0)
}

function hasAllIds(file: Snapshot): boolean {
  for (const items of file.values()) if (!items.every((item) => Object.hasOwn(item, 'id'))) return false
  return true
}
