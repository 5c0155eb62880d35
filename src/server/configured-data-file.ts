import { DataFile } from '../data-file/data-file.ts'
import type { Read } from '../data-file/edits.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import type { Projections } from './projections.ts'

/** The data file at a path, as the settings configure it. */
export function configuredDataFile(
  path: string,
  settings: Settings,
  { files, log, schedule, elapsedMs, now }: EngineDependencies,
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
