import type { Logger } from 'pino'
import { journalIdIn } from '../events/checkpoint.ts'
import { journalExists, wasUsedHere } from '../events/directory.ts'
import { directoryOf, type Files } from '../files/files.ts'
import { JournalMismatch } from '../runtime/errors.ts'
import { progressLog } from '../runtime/limited-log.ts'
import { Turns } from '../runtime/turns.ts'
import type { ReadOptions } from './file-reader.ts'
import { type CheckedFile, checkFile } from './first-items.ts'
import { missingJournal, readStateFile } from './state-file.ts'

interface JournalCheck {
  readonly dataFile: string
  readonly journal: string
  readonly acceptJournal: boolean
  readonly readOnly: boolean
}

/**
 * The reason to set a journal aside, as it is not the data file's; undefined if it is used. It is a copy of segments without
 * what belongs to them, as git makes one where they were committed. Or it has another UUID, and that is accepted.
 */
export async function whySetAside(files: Files, check: JournalCheck): Promise<string | undefined> {
  const { dataFile, journal, acceptJournal, readOnly } = check
  // Without a data file the journal has the state, wherever it is from. A read-only server does not continue it.
  if (readOnly || !(await journalExists(files, journal)) || !(await files.stat(dataFile))) return undefined
  const kept = await readStateFile(files, { dataFile, journal })
  if (kept) {
    const isOther = acceptJournal && ![undefined, kept.state.journal].includes(await journalIdIn(files, journal))
    return isOther ? `${dataFile} was written from another one` : undefined
  }
  if (acceptJournal || (await wasUsedHere(files, journal))) return undefined
  return (
    `no server has used it here, and nothing says that ${dataFile} was written from it. To continue with it, stop the server, ` +
    'put it back in place of the new one, remove .recollect, and start with --accept-journal'
  )
}

interface FirstItemsCheck extends Pick<JournalCheck, 'dataFile' | 'journal'> {
  /** A new journal is begun in any case, whatever the file was written from. */
  readonly isAccepted: boolean
}

/**
 * Reads and validates the data file that a new journal begins with; undefined if there is no file. Throws if its journal
 * is missing, or if it was renamed without its journal; logs a warning if that is only possible. Changes nothing.
 */
export async function checkFirstItems(
  files: Files,
  { dataFile, journal, isAccepted }: FirstItemsCheck,
  options: Pick<ReadOptions, 'idField' | 'check'>,
  log: Pick<Logger, 'info' | 'warn'>,
): Promise<CheckedFile | undefined> {
  const kept = isAccepted ? undefined : await readStateFile(files, { dataFile, journal })
  const missing = kept && missingJournal(dataFile, kept.state)
  if (missing) throw missing
  const logProgress = progressLog(log)
  const progress = (left: number, of: number): void =>
    logProgress({ bytes: of - left, of }, 'the first items are being checked')
  const checked = (await files.stat(dataFile))?.isFile
    ? await new Turns().run((turn) => checkFile(files, dataFile, { ...options, turn, progress }))
    : undefined
  const orphan = isAccepted ? undefined : await findOrphan(files, dataFile, checked?.content.hash)
  if (orphan?.isSame) throw renamedFile(orphan, dataFile, journal)
  if (orphan) log.warn(`${adviceFor(orphan, dataFile, journal)}, after removing the new journal.`)
  return checked
}

/** A journal in the same directory whose own data file is missing. */
interface Orphan {
  readonly journal: string
  /** Its missing data file. */
  readonly dataFile: string
  /** The data file of this start has the content of the missing one. */
  readonly isSame: boolean
}

/** Finds the journal of a data file that was renamed; prefers one with the same content. */
async function findOrphan(files: Files, path: string, hash: string | undefined): Promise<Orphan | undefined> {
  const directory = directoryOf(path)
  const names = await files.list(directory)
  let found: Orphan | undefined
  for (const name of names) {
    const [, stem] = /^(.+)\.journal$/.exec(name) ?? []
    if (stem === undefined || names.some((one) => one === stem || one.toLowerCase() === `${stem}.json`.toLowerCase())) {
      continue
    }
    const [journal, dataFile] = [`${directory}/${name}`, `${directory}/${stem}.json`]
    if (!(await journalExists(files, journal))) continue
    // Without its state file it may be the journal of a file with another name (--journal).
    const kept = await readStateFile(files, { dataFile, journal }).catch(() => undefined)
    if (!kept) continue
    const { confirmed, pending } = kept.state
    const isSame = hash !== undefined && [confirmed?.hash, pending?.hash].includes(hash)
    if (isSame) return { journal, dataFile, isSame }
    found ??= { journal, dataFile, isSame }
  }
  return found
}

/** Advice for an orphaned journal, when a start of `path` would create the journal `own`. */
function adviceFor({ journal, dataFile }: Orphan, path: string, own: string): string {
  return (
    `The data file of the journal ${journal} is missing. If it is ${path} under a new name, rename the journal to ${own}, ` +
    `or ${path} back to ${dataFile}`
  )
}

function renamedFile(orphan: Orphan, path: string, own: string): JournalMismatch {
  return new JournalMismatch(
    `${path} has the content that ${orphan.dataFile} had, and no journal. ${adviceFor(orphan, path, own)}; ` +
      'or start with --accept-journal to begin a new journal from it.',
  )
}
