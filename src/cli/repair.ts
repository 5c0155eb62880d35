import { lockDirectory } from '../events/directory.ts'
import { openSource, type Repair, repairJournal } from '../events/repair.ts'
import { isSegment, segmentsIn } from '../events/segment.ts'
import type { Files } from '../files/files.ts'
import type { Progress } from '../projections/journal-fold.ts'
import { Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'

interface RepairOptions {
  readonly journal: string
  /** A journal's directory, the data file beside one, or a directory that contains one, such as a backup. */
  readonly from: string
}

/** Replaces what is damaged or missing in a journal by the records of another copy. The server must have ended. */
export async function repair(
  files: Files,
  { journal, from }: RepairOptions,
  progress: Progress,
): Promise<Repair & { readonly source: string }> {
  const directory = await journalIn(files, from)
  if (directory === journal) {
    throw new Refusal('Invalid', `${from} is the journal to be repaired: --from names another copy of it, or a backup.`)
  }
  if ((await segmentsIn(files, journal)).length === 0) {
    throw new Refusal('NotFound', `There is no journal in ${journal}. recollect restore makes one from a backup.`)
  }
  const lock = await lockDirectory(files, journal)
  try {
    const source = await openSource(files, directory)
    return { ...(await repairJournal(files, journal, { source, progress })), source: directory }
  } finally {
    await lock.release()
  }
}

/** The result for people. */
export function repairText({ source, damage, repaired, problems }: Awaited<ReturnType<typeof repair>>): string {
  const lines = repaired.map(({ path, records }) => {
    const taken = records === 1 ? '1 record is' : `${records} records are`
    return `Repaired ${path}: ${records === 0 ? 'no record had to be replaced' : `${taken} from ${source}`}.`
  })
  if (damage.length === 0 && repaired.length === 0) lines.push('The journal is not damaged. Nothing was changed.')
  return [...lines, ...problems].map((line) => `${line}\n`).join('')
}

async function journalIn(files: Files, path: string): Promise<string> {
  const hasSegments = async (directory: string): Promise<boolean> => (await files.list(directory)).some(isSegment)
  const stat = await files.stat(path)
  if (stat?.isFile) {
    if (await hasSegments(journalOf(path))) return journalOf(path)
  } else if (stat) {
    if (await hasSegments(path)) return path
    const found: string[] = []
    for (const name of await files.list(path)) {
      const inner = `${path}/${name}`
      if ((await files.stat(inner))?.isFile === false && (await hasSegments(inner))) found.push(inner)
    }
    if (found.length > 1)
      throw new Refusal('Invalid', `${path} contains several journals: --from must name one of ${found.join(', ')}.`)
    if (found[0] !== undefined) return found[0]
  }
  const why = `There is no journal in ${path}. --from names the directory of a journal, or one that contains it, such as a backup.`
  throw new Refusal('NotFound', why)
}
