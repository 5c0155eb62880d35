import type { RestoreOutcome } from '../commands/handler.ts'
import type { RestoredCollection } from '../commands/restore.ts'
import { readDataFileBody } from '../data-file/file-reader.ts'
import { firstImportEnd } from '../data-file/merged-edits.ts'
import type { Engine } from '../engine/engine.ts'
import type { Origin } from '../events/journal.ts'
import { checkBuilt } from '../http/pipeline.ts'
import { pastCollections } from '../http/restoration.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import { Turns } from '../runtime/turns.ts'
import type { Settings } from '../settings/settings.ts'

/** Returns all collections to the first data, or to given data, with the next ids of a first start with it. */
export class Resets {
  readonly #engine: Engine
  readonly #idField: string
  readonly #itemValues: number
  readonly #turns = new Turns()

  constructor(engine: Engine, { dataStore, limits }: Pick<Settings, 'dataStore' | 'limits'>) {
    this.#engine = engine
    this.#idField = dataStore.idField
    this.#itemValues = limits.itemValues
  }

  /** The first data is what the journal's first import of the data file left, or nothing. */
  async toFirstData(origin: Origin, isDryRun = false): Promise<RestoreOutcome> {
    const { handler, views, past, journal } = this.#engine
    checkBuilt(this.#engine.building())
    const to = await firstImportEnd(journal)
    const snapshots: CollectionSnapshot[] = []
    try {
      const collections = await pastCollections(views.namesEver(), to, past, snapshots)
      return await handler.restore({ type: 'reset', collections }, origin, isDryRun)
    } finally {
      for (const snapshot of snapshots) snapshot.release()
    }
  }

  /**
   * The data is the JSON of a data file.
   * @throws {Refusal} with the places of all mistakes; nothing has changed then.
   */
  async toData(data: Buffer, origin: Origin): Promise<RestoreOutcome> {
    const { handler, views } = this.#engine
    checkBuilt(this.#engine.building())
    const collections = new Map<string, RestoredCollection | undefined>(
      views.namesEver().map((name) => [name, undefined]),
    )
    const read = await this.#turns.run((turn) =>
      readDataFileBody(data, { idField: this.#idField, mostValues: this.#itemValues }, turn),
    )
    for (const [name, items] of read) collections.set(name, { items: () => items })
    return handler.restore({ type: 'import', collections }, origin, false)
  }
}
