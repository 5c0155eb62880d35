import { writeSnapshot } from '../data-file/snapshot-text.ts'
import type { Position } from '../events/event.ts'
import { directoryOf, type Files } from '../files/files.ts'
import { fold, type Progress, parseUntil } from '../projections/journal-fold.ts'
import { Refusal } from '../runtime/errors.ts'

export interface ReplayResult {
  /** Position of the last event in the written state. */
  readonly position: Position
  readonly collections: number
  readonly items: number
}

/** Writes a past state as a data file. Never overwrites a file. */
export async function replay(
  files: Files,
  journal: string,
  to: string,
  out: string,
  progress: Progress,
): Promise<ReplayResult> {
  const until = parseUntil(to)
  if (!until)
    throw new Refusal('Invalid', `--to must be a position or an ISO 8601 date-time, not ${JSON.stringify(to)}.`)
  if (await files.stat(out)) throw new Refusal('Conflict', `${out} exists already; it is not overwritten.`)
  const { views, walked } = await fold(files, journal, until, progress)
  if (walked.id === undefined) throw new Refusal('NotFound', `There is no journal in ${journal}.`)
  if ('position' in until && until.position >= walked.next.position) {
    throw new Refusal('Invalid', `Position ${until.position} is beyond the journal's end, ${walked.next.position - 1}.`)
  }
  await files.makeDirectory(directoryOf(out))
  await writeSnapshot(files, out, views.snapshot())
  await files.syncDirectory(directoryOf(out))
  return { position: views.position, ...views.counts() }
}
