import { randomUUID } from 'node:crypto'
import type { ImportOutcome } from '../commands/handler.ts'
import type { DataFile } from '../data-file/data-file.ts'
import type { DataFileStatus } from '../data-file/file-on-disk.ts'
import type { JournalConnection } from '../data-file/journal-connection.ts'
import { readStateFile } from '../data-file/state-file.ts'
import { configuredDataFile } from '../engine/data-file.ts'
import type { EngineDependencies } from '../engine/dependencies.ts'
import type { Projections } from '../engine/projections.ts'
import type { Position } from '../events/event.ts'
import type { Projection } from '../events/journal.ts'
import { type Files, replace } from '../files/files.ts'
import { Ended, Refusal } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'

interface ClusterDataFileOptions {
  readonly settings: Settings
  readonly dependencies: EngineDependencies
  readonly projections: Pick<Projections, 'views' | 'mergedEdits'>
}

/** The id by which the imports of this node's data file differ from those of other nodes. It is created when there is none. */
export async function dataFileIdOf(files: Files, journal: string): Promise<string> {
  const path = `${journal}/data-file.id`
  const known = (await files.read(path))?.toString()
  if (known) return known
  const dataFileId = randomUUID()
  await replace(files, path, Buffer.from(dataFileId))
  return dataFileId
}

/**
 * The data file of a cluster node: written and imported while the node is the leader, and left alone otherwise. It
 * provides the first items only if the journal is empty.
 */
export class ClusterDataFile implements Projection {
  readonly #options: ClusterDataFileOptions
  #open: DataFile | undefined
  /** While its edits are imported before it is open. */
  #starting: DataFile | undefined
  #trouble: DataFileStatus | undefined

  constructor(options: ClusterDataFileOptions) {
    this.#options = options
  }

  get status(): DataFileStatus | undefined {
    return this.#trouble ?? this.#open?.status
  }

  apply(): void {
    this.#open?.apply()
  }

  /** Imports edits, and keeps the file up to date from now on. */
  async open(connection: JournalConnection): Promise<void> {
    const { settings, dependencies, projections } = this.#options
    const { journal } = connection
    const { mergedEdits } = projections
    const { files, log, sampleFile } = dependencies
    this.#trouble = undefined
    try {
      const isThere = (await files.stat(settings.file)) !== undefined
      const state = await readStateFile(files, { dataFile: settings.file, journal: settings.journal })
      // A state is recorded once the first items are completely merged.
      if (isThere && !state && journal.head > 0 && mergedEdits.until === 0) {
        throw new Refusal(
          'Conflict',
          `The data file ${settings.file} was not written by this cluster, whose journal is not empty: it is neither imported nor written. Remove it, or name another one.`,
        )
      }
      const sample = settings.isSample && !isThere && journal.head === 0 ? await files.read(sampleFile) : undefined
      if (sample) await replace(files, await files.follow(settings.file), sample)
      const file = configuredDataFile(settings, dependencies, projections)
      this.#starting = file
      await file.start(connection)
      this.#open = file
    } catch (error) {
      if (error instanceof Ended) {
        log.info('The import of the data file is continued when this node leads again.')
        return
      }
      const { message } = error as Error
      log.error(`The data file is left alone: ${message}`)
      const behind = { events: journal.head, bytes: journal.bytesAfter(0) }
      this.#trouble = { state: 'failing', position: 0, detail: message, behind, nextWrite: null }
    } finally {
      this.#starting = undefined
    }
  }

  /** Aborts the import of `open`, which the next one continues. */
  end(): void {
    this.#starting?.end()
  }

  /** Writes pending changes, and leaves the file alone from now on. */
  async close(): Promise<void> {
    const file = this.#open
    this.#open = undefined
    this.#trouble = undefined
    try {
      await file?.close()
    } catch (error) {
      this.#options.dependencies.log.error((error as Error).message)
    }
  }

  async reload(): Promise<ImportOutcome> {
    return this.#opened.reload()
  }

  async snapshot(): Promise<Position> {
    return this.#opened.snapshot()
  }

  get #opened(): DataFile {
    if (this.#open) return this.#open
    throw new Refusal('Unavailable', this.#trouble?.detail ?? 'The data file is not open at the moment.')
  }
}
