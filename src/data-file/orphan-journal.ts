import { journalExists } from '../events/directory.ts'
import { directoryOf, type Files } from '../files/files.ts'
import { JournalMismatch } from '../runtime/errors.ts'
import { readStateFile } from './state-file.ts'

/** A journal in the same directory whose own data file is missing. */
export interface Orphan {
  readonly journal: string
  /** Its missing data file. */
  readonly dataFile: string
  /** The data file of this start has the content of the missing one. */
  readonly isSame: boolean
}

/** Finds the journal of a data file that was renamed; prefers one with the same content. */
export async function findOrphan(files: Files, path: string, hash: string | undefined): Promise<Orphan | undefined> {
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
export function adviceFor({ journal, dataFile }: Orphan, path: string, own: string): string {
  return (
    `The data file of the journal ${journal} is missing. If it is ${path} under a new name, rename the journal to ${own}, ` +
    `or ${path} back to ${dataFile}`
  )
}

export function renamedFile(orphan: Orphan, path: string, own: string): JournalMismatch {
  return new JournalMismatch(
    `${path} has the content that ${orphan.dataFile} had, and no journal. ${adviceFor(orphan, path, own)}; ` +
      'or start with --accept-journal to begin a new journal from it.',
  )
}
