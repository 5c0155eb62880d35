import type { Logger } from 'pino'
import type { FileContents } from '../collections/file-items.ts'
import type { Files } from '../files/files.ts'
import { progressLog } from '../runtime/progress-log.ts'
import { Slices, type Steps } from '../runtime/time-slices.ts'
import { type ReadResult, readInParts, retryWhileChanging } from './file-reader.ts'
import { adviceFor, findOrphan, renamedFile } from './orphan-journal.ts'
import { missingJournal, readStateFile } from './state-file.ts'

/** Throws if the journal is missing although a data file was written from it. Changes nothing. */
export async function checkNoJournalIsMissing(files: Files, path: string, journal: string): Promise<void> {
  const kept = await readStateFile(files, { dataFile: path, journal })
  if (kept) throw missingJournal(path, kept.state)
}

/** Throws if the data file was renamed without its journal; logs a warning if that is only possible. */
export async function checkNotRenamed(
  files: Files,
  path: string,
  journal: string,
  log: Pick<Logger, 'warn'>,
  hash: string | undefined,
): Promise<void> {
  const orphan = await findOrphan(files, path, hash)
  if (orphan?.isSame) throw renamedFile(orphan, path, journal)
  if (orphan) log.warn(`${adviceFor(orphan, path, journal)}, after removing the new journal.`)
}

/** Reads and validates the first items. Changes nothing. `check` is called for all edited items, some at a time. */
export async function checkFirstItems(
  files: Files,
  path: string,
  idField: string,
  log: Pick<Logger, 'info'>,
  check: (file: FileContents) => Steps<void>,
): Promise<ReadResult | undefined> {
  const stat = await files.stat(path)
  if (!stat?.isFile) return undefined
  const slices = new Slices()
  const logProgress = progressLog(log)
  const options = {
    base: new Map(),
    idField,
    slices,
    progress: (left: number) =>
      logProgress({ bytes: stat.size - left, of: stat.size }, 'the first items are being checked'),
  }
  return retryWhileChanging(path, () => readInParts(files, path, options, check))
}
