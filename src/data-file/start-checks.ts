import type { Logger } from 'pino'
import { Difference } from '../commands/difference.ts'
import type { Files } from '../files/files.ts'
import { progressLog } from '../runtime/progress-log.ts'
import { Turns } from '../runtime/turns.ts'
import { type ReadOptions, readDataFile } from './file-reader.ts'
import { checkFile, type FirstItems } from './first-items.ts'
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

/** Reads and validates the first items. Changes nothing. A file of up to `bytes` is held in memory. */
export async function checkFirstItems(
  files: Files,
  path: string,
  options: Pick<ReadOptions, 'idField' | 'check'> & { readonly bytes: number },
  log: Pick<Logger, 'info'>,
): Promise<FirstItems | undefined> {
  const stat = await files.stat(path)
  if (!stat?.isFile) return undefined
  const logProgress = progressLog(log)
  const progress = (left: number, of: number): void =>
    logProgress({ bytes: of - left, of }, 'the first items are being checked')
  return new Turns().run((turn) =>
    readFirstItems(files, path, { ...options, turn, progress }, stat.size > options.bytes),
  )
}

async function readFirstItems(files: Files, path: string, options: ReadOptions, isLarge: boolean): Promise<FirstItems> {
  if (isLarge) return checkFile(files, path, options)
  const { idField, turn } = options
  const newDifference = () => new Difference({ base: new Map(), idField, kind: 'first items', keeps: 'ids' })
  const { content, visitor } = await readDataFile(files, path, options, newDifference)
  return { content, edit: await visitor.end(turn) }
}
