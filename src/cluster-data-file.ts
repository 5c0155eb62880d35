import { randomUUID } from 'node:crypto'
import type { EngineSurroundings } from './engine.ts'
import { Refusal } from './errors.ts'
import type { Position } from './events/event.ts'
import type { Origin } from './events/journal.ts'
import { directoryOf, replace } from './files/files.ts'
import type { DataFileStatus } from './projections/data-file/account.ts'
import type { Connection, Merging, TakenInEdit } from './projections/data-file/connection.ts'
import { DataFile } from './projections/data-file/data-file.ts'
import { readState } from './projections/data-file/state.ts'
import { DATA_FILE_ACTOR, TakenIn } from './projections/data-file/taken-in.ts'
import type { Views } from './projections/views.ts'
import type { Settings } from './settings.ts'

export interface ClusterDataFileOptions {
  readonly settings: Settings
  readonly surroundings: EngineSurroundings
  readonly views: Views
  readonly check: Connection['check']
  readonly merge: (edit: Parameters<Connection['merge']>[0], origin: Origin) => Merging
  /** Past states, from this node's copy of the journal. */
  readonly past: () => Connection['past']
}

/**
 * The data file of one node of a cluster: written and taken in while the node decides, and left alone while it does
 * not. The first items come from it only where the journal is empty.
 */
export class ClusterDataFile {
  readonly #options: ClusterDataFileOptions
  readonly #path: string
  /** What this file's edits are known by among those of other nodes' files. */
  readonly #door: string
  readonly #takenIn: TakenIn
  #open: DataFile | undefined
  #trouble: DataFileStatus | undefined

  private constructor(options: ClusterDataFileOptions, path: string, door: string) {
    this.#options = options
    this.#path = path
    this.#door = door
    this.#takenIn = new TakenIn(options.views, door)
  }

  /** To be called before the store is built. */
  static async prepare(options: ClusterDataFileOptions): Promise<ClusterDataFile> {
    const { settings, surroundings } = options
    const { files } = surroundings
    const path = await files.resolve(settings.file)
    await files.makeDirectory(directoryOf(path))
    await files.makeDirectory(settings.journal)
    const named = `${settings.journal}/data-file.id`
    let door = (await files.read(named))?.toString()
    if (!door) {
      door = randomUUID()
      await replace(files, named, Buffer.from(door))
    }
    return new ClusterDataFile(options, path, door)
  }

  get status(): DataFileStatus | undefined {
    return this.#trouble ?? this.#open?.status
  }

  changed(): void {
    this.#open?.changed()
  }

  /** Takes in what was edited, and writes the file from now on. */
  async open(journal: Connection['journal']): Promise<void> {
    const { settings, surroundings, views, check, merge, past } = this.#options
    const { files, log, schedule, elapsedMs, now, sampleFile } = surroundings
    this.#trouble = undefined
    try {
      const isThere = (await files.stat(this.#path)) !== undefined
      const state = await readState(files, { dataFile: this.#path, journal: settings.journal })
      // A state is noted when the first items are merged, whole.
      if (isThere && !state && journal.head > 0 && this.#takenIn.until === 0) {
        throw new Refusal(
          'Conflict',
          `The data file ${this.#path} was not written by this cluster, whose journal is not empty: it is neither taken in nor written. Remove it, or name another one.`,
        )
      }
      const sample = settings.isSample && !isThere && journal.head === 0 ? await files.read(sampleFile) : undefined
      if (sample) await replace(files, this.#path, sample)
      const file = new DataFile({
        files,
        path: this.#path,
        idField: settings.dataStore.idField,
        journal: settings.journal,
        views,
        log,
        schedule,
        elapsedMs,
        now,
        settings: settings.dataFile,
        eager: settings.common.eagerDataReload,
        readOnly: settings.api.readOnly,
        acceptJournal: settings.acceptJournal,
        takenIn: this.#takenIn,
      })
      await file.prepare()
      await file.start({
        journal,
        past: past(),
        check,
        merge: (edit, hash) => merge(edit, { actor: DATA_FILE_ACTOR, requestId: this.#door, key: hash }),
      })
      this.#open = file
    } catch (error) {
      const { message } = error as Error
      log.error(`The data file is left alone: ${message}`)
      const behind = { events: journal.head, bytes: journal.bytesAfter(0) }
      this.#trouble = { state: 'failing', position: 0, detail: message, behind, nextWrite: null }
    }
  }

  /** Writes what is to be written, and leaves the file alone from now on. */
  async close(): Promise<void> {
    const file = this.#open
    this.#open = undefined
    this.#trouble = undefined
    try {
      await file?.close()
    } catch (error) {
      this.#options.surroundings.log.error((error as Error).message)
    }
  }

  async reload(): Promise<TakenInEdit> {
    return this.#opened.reload()
  }

  async snapshot(): Promise<Position> {
    return this.#opened.snapshot()
  }

  get #opened(): DataFile {
    if (this.#open) return this.#open
    throw new Refusal('Unavailable', this.#trouble?.detail ?? 'The data file is not looked at at the moment.')
  }
}
