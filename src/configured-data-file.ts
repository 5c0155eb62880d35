import type { Projections } from './engine-projections.ts'
import type { EngineSurroundings } from './engine-surroundings.ts'
import { DataFile } from './projections/data-file/data-file.ts'
import type { Read } from './projections/data-file/edits.ts'
import type { Settings } from './settings.ts'

/** The data file at a path, as the settings configure it. */
export function configuredDataFile(
  path: string,
  settings: Settings,
  { files, log, schedule, elapsedMs, now }: EngineSurroundings,
  { views, takenIn }: Pick<Projections, 'views' | 'takenIn'>,
  checked?: Read,
): DataFile {
  return new DataFile({
    files,
    path,
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
    takenIn,
    checked,
  })
}
