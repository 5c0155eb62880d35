import type { RestoreOutcome } from '../commands/handler.ts'
import type { RestoredCollection } from '../commands/restore.ts'
import { readDataFileBody } from '../data-file/file-reader.ts'
import { firstImportEnd } from '../data-file/merged-edits.ts'
import type { Engine } from '../engine/engine.ts'
import type { Origin } from '../events/journal.ts'
import { checkBuilt } from '../http/pipeline.ts'
import { pastCollections } from '../http/restoration.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import { Memory, type MemoryBudget } from '../runtime/memory.ts'
import { Turns } from '../runtime/turns.ts'
import type { Settings } from '../settings/settings.ts'

/** Returns all collections to what the journal's first import of the data file left, or to nothing. */
export async function resetToFirstData(engine: Engine, origin: Origin, isDryRun = false): Promise<RestoreOutcome> {
  const { handler, views, past, journal } = engine
  checkBuilt(engine.building())
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
 * Sets all collections to the JSON of a data file, with the next ids of a first start with it.
 * @throws {Refusal} with the places of all mistakes; nothing has changed then.
 */
export async function resetToData(
  engine: Engine,
  { dataStore, limits }: Settings,
  budget: MemoryBudget,
  data: Buffer,
  origin: Origin,
): Promise<RestoreOutcome> {
  checkBuilt(engine.building())
  const names = engine.views.namesEver()
  const collections = new Map<string, RestoredCollection | undefined>(names.map((name) => [name, undefined]))
  const options = { idField: dataStore.idField, mostValues: limits.itemValues }
  const memory = new Memory(budget, 'restores')
  const asker = { isGone: () => false, memory }
  try {
    const read = await new Turns().run((turn) => readDataFileBody(data, options, turn), asker)
    for (const [name, items] of read) collections.set(name, { items: () => items })
    return await engine.handler.restore({ type: 'import', collections }, origin, false)
  } finally {
    memory.release()
  }
}
