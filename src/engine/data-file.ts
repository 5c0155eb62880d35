import { checkItem } from '../commands/decide-edit.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { Rules } from '../commands/rules.ts'
import { DataFile } from '../data-file/data-file.ts'
import type { CheckedFile } from '../data-file/first-items.ts'
import type { JournalConnection } from '../data-file/journal-connection.ts'
import { DATA_FILE_ACTOR } from '../data-file/merged-edits.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import type { Projections } from './projections.ts'

/** The data file as the settings describe it. */
export function configuredDataFile(
  settings: Settings,
  { files, log, schedule, elapsedMs, now, memory }: EngineDependencies,
  { views, mergedEdits }: Pick<Projections, 'views' | 'mergedEdits'>,
  checked?: CheckedFile,
): DataFile {
  return new DataFile({
    files,
    path: settings.file,
    idField: settings.dataStore.idField,
    journal: settings.journal,
    views,
    log,
    schedule,
    elapsedMs,
    now,
    settings: settings.dataFile,
    edits: settings.edits,
    memory,
    eager: settings.common.eagerDataReload,
    readOnly: settings.api.readOnly,
    acceptJournal: settings.acceptJournal,
    mergedEdits,
    checked,
  })
}

interface ConnectionOptions extends Pick<JournalConnection, 'journal' | 'past'> {
  readonly handler: Pick<CommandHandler, 'merge'>
  readonly rules: Rules
  /** The request id of the next import. */
  readonly requestId: () => string
}

/** The connection of a data file to its journal. */
export function connectionOf({ journal, past, handler, rules, requestId }: ConnectionOptions): JournalConnection {
  return {
    journal,
    past,
    check: (collection, item) => checkItem(rules, collection, item, 'first items'),
    merge: (edit, key, memory, latestWritten) =>
      handler.merge(edit, { actor: DATA_FILE_ACTOR, requestId: requestId(), key }, memory, latestWritten),
  }
}
