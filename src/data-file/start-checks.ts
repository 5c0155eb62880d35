import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import { progressLog } from '../runtime/progress-log.ts'
import { Turns } from '../runtime/turns.ts'
import type { ReadOptions } from './file-reader.ts'
import { type CheckedFile, checkFile } from './first-items.ts'
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

/** Reads and validates the first items. Changes nothing. */
export async function checkFirstItems(
  files: Files,
  path: string,
  options: Pick<ReadOptions, 'idField' | 'check'>,
  log: Pick<Logger, 'info'>,
): Promise<CheckedFile | undefined> {
  if (!(await files.stat(path))?.isFile) return undefined
  const logProgress = progressLog(log)
  const progress = (left: number, of: number): void =>
    logProgress({ bytes: of - left, of }, 'the first items are being checked')
  return new Turns().run((turn) => checkFile(files, path, { ...options, turn, progress }))
}
