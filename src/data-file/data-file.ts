import type { ImportOutcome } from '../commands/handler.ts'
import type { Position } from '../events/event.ts'
import type { Projection } from '../events/journal.ts'
import { isOutOfSpace } from '../files/files.ts'
import { Ended, JournalMismatch, Refusal } from '../runtime/errors.ts'
import { type Schedule, Semaphore } from '../runtime/turns.ts'
import { type DataFileOptions, SMALL_BYTES } from './data-file-options.ts'
import { DataFileWriter } from './data-file-writer.ts'
import { EditImport } from './edit-import.ts'
import { contentOf, type FileContent, isJson5 } from './file-content.ts'
import { type DataFileStatus, FileOnDisk } from './file-on-disk.ts'
import { NotJson } from './file-reader.ts'
import { FileWatcher } from './file-watcher.ts'
import type { JournalConnection } from './journal-connection.ts'
import { type ContentMark, mismatchOf } from './state-file.ts'

/** How often to look for edits that are merged, or whose refusal is logged with its reason. */
const LOOK_MS = 500
/** How often to look for edits that are only logged. */
const REPORT_MS = 2000
/** Delay before a start retries while the disk is full. */
const RETRY_MS = 1000

/** The data file: the source of the first items, then a projection of the journal that people may edit. */
export class DataFile implements Projection {
  readonly #options: DataFileOptions
  readonly #onDisk: FileOnDisk
  readonly #writer: DataFileWriter
  readonly #import: EditImport
  readonly #watcher: FileWatcher
  #connection: JournalConnection | undefined
  #beginTimer: ReturnType<Schedule> | undefined
  /** Only one task at a time uses the file. */
  readonly #exclusive = new Semaphore(1)
  /** Whether edits are imported as soon as they are noticed. */
  readonly #importsEdits: boolean
  #closed = false
  /** The message of the last refused import, so that it is not logged again. */
  #refusal = ''

  constructor(options: DataFileOptions) {
    this.#options = options
    const { files, path, journal, schedule, mergedEdits } = options
    this.#importsEdits = options.eager && !options.readOnly
    this.#onDisk = new FileOnDisk(files, { dataFile: path, journal }, mergedEdits)
    this.#watcher = new FileWatcher({
      files,
      path,
      schedule,
      lookMs: this.#readsEdits ? LOOK_MS : REPORT_MS,
      settled: () => this.#importChanged(),
    })
    this.#writer = new DataFileWriter({
      ...options,
      onDisk: this.#onDisk,
      journal: () => this.#connected.journal,
      exclusive: this.#exclusive,
      edited: () => {
        if (this.#importsEdits && !this.#watcher.isChanging) this.#watcher.changed()
        return this.#importsEdits
      },
    })
    this.#import = new EditImport({
      ...options,
      onDisk: this.#onDisk,
      connection: () => this.#connected,
      confirm: (mark) => this.#writer.confirm(mark),
    })
  }

  get status(): DataFileStatus {
    const { position } = this.#options.views
    // Nothing is known about the journal until the start.
    const lag = this.#connection ? this.#writer.lag : { behind: { events: position, bytes: 0 }, nextWrite: null }
    const state = this.#onDisk.statusAt(position)
    const { progress } = this.#import
    if (!progress) return { ...state, ...lag }
    const { bytes, of } = progress
    return { ...state, state: 'merging', detail: `${bytes} of ${of} bytes were merged.`, ...lag }
  }

  /** Imports edits made while no server ran, and from now on keeps the file up to date. */
  start(connection: JournalConnection): Promise<void> {
    this.#connection = connection
    return this.#exclusive.run(async () => {
      await this.#onDisk.prepare()
      await this.#beginWhenRoom(connection.journal)
    })
  }

  apply(): void {
    this.#writer.changed()
  }

  /**
   * Imports edits of the file.
   * @throws {Refusal} `Unprocessable` when the file is invalid.
   */
  reload(): Promise<ImportOutcome> {
    return this.#exclusive.run(async () => {
      const { files, path, views, log } = this.#options
      try {
        const found = await contentOf(files, path)
        const imported = found && !this.#onDisk.acceptIfKnown(found) ? await this.#import.run() : undefined
        this.#refusal = ''
        if (imported) return imported
        this.#onDisk.trouble = undefined
        return { basis: views.position, events: 0, conflicts: [], basedOn: this.#onDisk.versions.at(-1)?.position ?? 0 }
      } catch (error) {
        if (error instanceof Ended)
          throw new Refusal('Unavailable', 'The server is stopping. The next start merges the edit.')
        if (error instanceof Refusal && error.message !== this.#refusal) {
          this.#refusal = error.message
          log.error(`The data file is not imported: ${error.message}`)
        }
        if (error instanceof Refusal && error.code === 'Invalid') {
          throw new Refusal('Unprocessable', error.message, error.faults)
        }
        throw error
      } finally {
        this.#writer.soon(0)
      }
    })
  }

  /** Writes the file now, regardless of the settings; resolves with the position that it shows. */
  snapshot(): Promise<Position> {
    return this.#exclusive.run(async () => {
      const { path } = this.#options
      if (isJson5(path)) throw new Refusal('Conflict', `${path} is JSON5, which is read and not written.`)
      await this.#writer.write(true)
      const { trouble, known } = this.#onDisk
      const { failure, isLeftBehind } = this.#writer
      if (isLeftBehind)
        throw new Refusal('Unavailable', 'The server is stopping. The data file stays behind the journal.')
      if (!trouble) return known?.position ?? 0
      const code = trouble.state !== 'failing' ? 'Conflict' : isOutOfSpace(failure) ? 'DiskFull' : 'Unavailable'
      throw new Refusal(code, `The data file is not written. ${trouble.detail}`)
    })
  }

  /** Aborts a running import, which the next start continues. */
  end(): void {
    this.#import.end()
  }

  /** Writes pending changes if there is time. Throws after a failure other than a full disk or a missing directory. */
  async close(): Promise<void> {
    this.end()
    this.#watcher.close()
    this.#beginTimer?.cancel()
    this.#writer.end()
    await this.#exclusive.run(() => this.#writer.finish())
    this.#closed = true
    const { failure } = this.#writer
    // The directory was removed on purpose, so the file is not written.
    const isGone = (failure as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
    if (!failure || isGone || isOutOfSpace(failure)) return
    throw new Error(
      `The data file ${this.#options.path} could not be written: ${failure.message}. The journal has everything.`,
    )
  }

  /** While the disk is full, leaves the file alone and retries later. */
  async #beginWhenRoom(journal: JournalConnection['journal']): Promise<void> {
    const { log, schedule, path } = this.#options
    try {
      await this.#begin(journal)
      if (this.#beginTimer) log.info({ path }, 'the disk has room for the data file again')
    } catch (error) {
      const isFull = isOutOfSpace(error) || (error instanceof Refusal && error.code === 'DiskFull')
      if (!isFull) throw error
      // Without the first items there is nothing to serve.
      if (this.#import.isFirst) throw new Refusal('DiskFull', `The disk is full. ${unfinished(path)}`)
      const { message: detail } = error as Error
      if (!this.#beginTimer) log.error(`The data file ${path} is left alone until the disk has room: ${detail}`)
      this.#onDisk.trouble = { state: 'failing', detail }
      this.#beginTimer = schedule(() => {
        this.#exclusive
          .run(async () => {
            if (!this.#closed) await this.#beginWhenRoom(journal)
          })
          .catch((error) => log.error({ err: error }, 'the data file could not be used'))
      }, RETRY_MS)
    }
  }

  /** Identifies the file's content, merges an edit of it, and keeps the file up to date from now on. */
  async #begin(journal: JournalConnection['journal']): Promise<void> {
    const { files, path, acceptJournal, checked, log, views } = this.#options
    const onDisk = this.#onDisk
    if (isJson5(path))
      log.info({ path }, 'the data file is JSON5: it is read, and not written; the journal has every change')
    this.#checkJournal(journal)
    const content = (await onDisk.contentIfUntouched(checked?.content)) ?? (await contentOf(files, path))
    await onDisk.recognize(content?.hash)
    if (content && !onDisk.state && journal.head === 0) await this.#writer.recordJournal()
    if (content && !onDisk.state && !onDisk.known && !this.#import.isFirst && !acceptJournal) {
      onDisk.base = views.snapshot()
      onDisk.isUnproven = true
    }
    if (content && onDisk.known) await this.#beginWithKnown(content, onDisk.known)
    else if (content) await this.#importAtStart(content)
    if (!content && onDisk.isFirstUnfinished && !acceptJournal) {
      throw new JournalMismatch(`${path} is missing. ${unfinished(path)}`)
    }
    // A large file is written in the background.
    const isSmall = (content?.size ?? journal.bytesAfter(0)) < SMALL_BYTES
    if ((!content || onDisk.isInexact) && isSmall) await this.#writer.write()
    else this.#writer.soon(0)
    if (this.#importsEdits) this.#watcher.changed()
    await this.#watcher.begin()
  }

  /** @throws {JournalMismatch} unless the file was written from this journal, or the journal is accepted anyway. */
  #checkJournal(journal: JournalConnection['journal']): void {
    const { path, log, acceptJournal, views } = this.#options
    const onDisk = this.#onDisk
    const mismatch = onDisk.state && mismatchOf(path, onDisk.state, journal)
    if (!mismatch) return
    if (!acceptJournal) throw mismatch
    log.warn(`${mismatch.message} It is accepted.`)
    onDisk.state = undefined
    onDisk.base = views.snapshot()
    onDisk.versions = []
  }

  /**
   * The file has a known content. If that is the pending one, the process ended before it was confirmed, which is done now;
   * if it is not the confirmed one either, it is a version of an edit that was merged.
   */
  async #beginWithKnown(content: FileContent, known: ContentMark): Promise<void> {
    const onDisk = this.#onDisk
    const { state } = onDisk
    onDisk.content = content
    const isPending = known === state?.pending
    if (!isPending) onDisk.isMerged = known !== state?.confirmed
    // With its signature the file need not be read at the next start.
    const isToBeSigned = !this.#options.readOnly && !onDisk.isMerged && known.signature !== content.signature
    const mark = isToBeSigned ? { ...known, signature: content.signature } : known
    onDisk.known = mark
    if (isPending || isToBeSigned) await this.#writer.confirm(mark)
  }

  async #importAtStart(content: FileContent): Promise<void> {
    const { path, log } = this.#options
    try {
      await this.#import.run(true)
    } catch (error) {
      const mustFit = this.#import.isFirst || this.#onDisk.isUnproven
      if (mustFit || !(error instanceof Refusal) || error.code === 'DiskFull') throw error
      // A write in place leaves the beginning of its content or zero bytes in it, and neither is JSON.
      if (error instanceof NotJson && this.#onDisk.state?.pending?.inPlace) this.#onDisk.setTorn(content)
      else log.error(`The data file ${path} is not imported, the last valid state is served: ${error.message}`)
    }
  }

  /** Imports an edit, or only logs it. A read-only server tries to import it, so that the log has the reason for the refusal. */
  async #importChanged(): Promise<void> {
    const { log } = this.#options
    try {
      const isToBeRead = (await this.#onDisk.isTouched()) || this.#onDisk.trouble
      if (!isToBeRead || this.#closed) return
      if (this.#readsEdits) await this.reload()
      else this.#writer.soon(0)
    } catch (error) {
      // A refusal was logged.
      if (!(error instanceof Refusal)) log.error({ err: error }, 'the data file could not be imported')
    }
  }

  get #readsEdits(): boolean {
    return this.#options.eager || this.#options.readOnly
  }

  get #connected(): JournalConnection {
    if (!this.#connection) throw new Error('the data file has no journal yet')
    return this.#connection
  }
}

function unfinished(path: string): string {
  return `The first items of ${path} are not imported completely: resolve this and start again; the import then continues.`
}
