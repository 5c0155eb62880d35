import { type Base, Difference } from '../commands/difference.ts'
import { alwaysWritten, contentOf } from '../data-file/file-content.ts'
import { readDataFile } from '../data-file/file-reader.ts'
import { checkFile } from '../data-file/first-items.ts'
import { readStateFile, unprovenFile } from '../data-file/state-file.ts'
import { type Damage, damageText, JournalDamage, MOST_PLACES, REPAIR_ADVICE } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import { walk } from '../events/walk.ts'
import type { Files } from '../files/files.ts'
import { fold, type Progress } from '../projections/journal-fold.ts'
import type { Views } from '../projections/views.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import { Turns } from '../runtime/turns.ts'

export interface VerifyResult {
  /** Nothing is damaged or missing. */
  readonly ok: boolean
  readonly journal: string
  readonly id?: string
  /** Position of the last event. */
  readonly head?: Position
  readonly segments?: number
  /** Bytes at the end that are not a complete write, or not yet. */
  readonly unfinishedBytes?: number
  /** The state of the data file relative to the journal. */
  readonly dataFile?: 'current' | 'behind' | 'edited' | 'invalid' | 'missing' | 'different' | 'ahead'
  readonly problems: readonly string[]
  /** How to repair them. */
  readonly advice?: string
}

interface VerifyOptions {
  readonly journal: string
  readonly file: string
  readonly idField: string
}

/** Verifies frames, checksums, positions, chain and headers, and compares the data file with the folded state. */
export async function verify(files: Files, options: VerifyOptions, progress: Progress): Promise<VerifyResult> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    try {
      return await verifyOnce(files, options, progress)
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error
    }
  }
  throw alwaysWritten(options.file)
}

/** The content of the file has changed since the previous reading. */
class FileChanged extends Error {}

/** How often to retry when a running server replaces the data file meanwhile. */
const MOST_ATTEMPTS = 20

async function verifyOnce(
  files: Files,
  { journal, file, idField }: VerifyOptions,
  progress: Progress,
): Promise<VerifyResult> {
  let known: DataFileState
  let folded: Awaited<ReturnType<typeof fold>>
  try {
    known = await knownContent(files, file, journal)
    // Without a state file the data file must show the end of the journal.
    const position = known.position ?? (known.journal === undefined ? Number.MAX_SAFE_INTEGER : 0)
    folded = await fold(files, journal, { position }, progress)
  } catch (error) {
    if (!(error instanceof Corruption)) throw error
    const problems = error instanceof JournalDamage ? await damageIn(files, journal) : []
    if (problems.length === 0) return { ok: false, journal, problems: [error.message] }
    return { ok: false, journal, problems, advice: REPAIR_ADVICE }
  }
  const { id, segments, next, torn } = folded.walked
  if (id === undefined) return { ok: false, journal, problems: [`There is no journal in ${journal}.`] }
  const head = next.position - 1
  const { state: dataFile, problem } = await compareFile(files, { journal, file, idField }, known, {
    id,
    head,
    views: folded.views,
  })
  return {
    ok: problem === undefined,
    journal,
    id,
    head,
    segments: segments.length,
    unfinishedBytes: torn?.bytes.length ?? 0,
    dataFile,
    problems: problem === undefined ? [] : [problem],
  }
}

/** All damage, up to a number of places. */
async function damageIn(files: Files, journal: string): Promise<readonly string[]> {
  const problems: string[] = []
  let others = 0
  const damaged = (damage: Damage): void => {
    if (problems.length < MOST_PLACES) problems.push(`${damageText(damage)}.`)
    else others++
  }
  await walk(files, journal, undefined, { damaged })
  if (others > 0) problems.push(`${others} other places are damaged.`)
  return problems
}

interface FileComparison {
  readonly state: Exclude<VerifyResult['dataFile'], undefined>
  readonly problem?: string
}

/** Compares the data file with the journal; `views` has the state at the position that the file shows. */
async function compareFile(
  files: Files,
  options: VerifyOptions,
  known: DataFileState,
  { id, head, views }: { readonly id: string; readonly head: Position; readonly views: Pick<Views, 'snapshot'> },
): Promise<FileComparison> {
  const { file } = options
  if (known.journal !== undefined && known.journal !== id) {
    const problem = `${file} was written from the journal ${known.journal}, and this one is ${id}.`
    return { state: 'different', problem }
  }
  if (known.last > head) {
    const problem = `${file} shows position ${known.last}, and the journal ends at ${head}: events are missing.`
    return { state: 'ahead', problem }
  }
  if (known.hash === undefined) return { state: 'missing' }
  if (known.position === undefined) {
    const why = await whyInvalid(files, options)
    if (why !== undefined) return { state: 'invalid', problem: `${file} is no data file: ${why}` }
    if (known.journal !== undefined) return { state: 'edited' }
    if (await showsSameItems(files, options, known.hash, views.snapshot())) return { state: 'current' }
    return { state: 'different', problem: unprovenFile(file).message }
  }
  if (!(await showsSameItems(files, options, known.hash, views.snapshot()))) {
    const problem = `${file} does not show what the journal's events up to position ${known.position} amount to.`
    return { state: 'different', problem }
  }
  return { state: known.position === head ? 'current' : 'behind' }
}

interface DataFileState {
  readonly journal: string | undefined
  /** The last position that the state file names. */
  readonly last: Position
  /** SHA-256 of the data file; undefined if it does not exist. */
  readonly hash: string | undefined
  /** The position whose state the file shows; undefined if no server wrote its content. */
  readonly position: Position | undefined
}

/** Retries, since a running server may replace the file between two reads. */
async function knownContent(files: Files, file: string, journal: string): Promise<DataFileState> {
  for (let attempt = 1; ; attempt++) {
    const state = (await readStateFile(files, { dataFile: file, journal }))?.state
    const found = await contentOf(files, file)
    const marks = [state?.confirmed, state?.pending]
    const position = marks.find((mark) => mark !== undefined && mark.hash === found?.hash)?.position
    if (position === undefined && found && attempt < 5) continue
    const last = Math.max(state?.confirmed?.position ?? 0, state?.pending?.position ?? 0)
    return { journal: state?.journal, last, hash: found?.hash, position }
  }
}

/** Whether a data file has the same collections with the same items in the same order. */
async function showsSameItems(
  files: Files,
  { file, idField }: VerifyOptions,
  hash: string,
  collections: Base,
): Promise<boolean> {
  const fileDiffers = new Refusal('Conflict', 'The data file differs.')
  const differs = (): never => {
    throw fileDiffers
  }
  const newDifference = () => new Difference({ base: collections, idField, differs, kind: 'edit', keeps: 'nothing' })
  try {
    return await new Turns().run(async (turn) => {
      const { content, visitor } = await readDataFile(files, file, { idField, turn }, newDifference)
      if (content.hash !== hash) throw new FileChanged()
      const edit = await visitor.end(turn)
      return edit.collections.every(({ isRemoved, wasThere, isReordered }) => !isRemoved && wasThere && !isReordered)
    })
  } catch (error) {
    if (error !== fileDiffers) throw error
    if ((await contentOf(files, file))?.hash !== hash) throw new FileChanged()
    return false
  }
}

async function whyInvalid(files: Files, { file, idField }: VerifyOptions): Promise<string | undefined> {
  try {
    await new Turns().run((turn) => checkFile(files, file, { idField, turn }))
    return undefined
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
