import type { Logger } from 'pino'
import type { FileContents } from '../collections/file-items.ts'
import type { Files } from '../files/files.ts'
import { progressLog } from '../runtime/progress-log.ts'
import { Slices, type Steps } from '../runtime/time-slices.ts'
import { alwaysWritten } from './adapter.ts'
import { MOST_ATTEMPTS, type ReadResult, readDataFile } from './edit-merger.ts'
import { FileChanged } from './file-parser.ts'
import { adviceFor, findOrphan, renamedFile } from './orphan-journal.ts'
import { missingJournal, readStateFile } from './state-file.ts'

/** Throws if the journal is missing although a data file was written from it. Changes nothing. */
export async function checkNoJournalIsMissing(files: Files, path: string, journal: string): Promise<void> {
  const kept = await readStateFile(files, { dataFile: path, journal })
  if (kept) throw missingJournal(path, kept.state)
}

/**
 * Throws if the data file was renamed without its journal. If that is only possible, logs a warning. Changes nothing.
 */
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
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    let hasAllEdited = true
    try {
      const read = await readDataFile(files, path, {
        base: new Map(),
        idField,
        slices,
        progress: (left) =>
          logProgress({ bytes: stat.size - left, of: stat.size }, 'the first items are being checked'),
        full: async (contents) => {
          hasAllEdited = false
          await slices.run(() => check(contents))
          for (const items of contents.values()) items.takeEdited()
        },
      })
      await slices.run(() => check(read.file))
      return { ...read, hasAllEdited }
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error
    }
  }
  throw alwaysWritten(path)
}
