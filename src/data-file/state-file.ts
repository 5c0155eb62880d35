import { Low } from 'lowdb'
import type { Position } from '../events/event.ts'
import { directoryOf, type Files, isUnwritable, JsonFile, makeIgnoredDirectory } from '../files/files.ts'
import { Corruption, JournalMismatch } from '../runtime/errors.ts'

/** A content of the data file: the position whose state it shows, and its SHA-256. */
export interface ContentMark {
  readonly position: Position
  readonly hash: string
  /** The signature of the file with this content: a file that still has it need not be read. */
  readonly signature?: string
  /** Set while the file is being overwritten. The hash is unknown; a crash leaves some beginning of the content. */
  readonly inPlace?: true
  /** Set in a pending mark: the hash of the content that is replaced. */
  readonly replaces?: string | undefined
}

/**
 * The known contents of the data file, stored in a small file in the directory `.recollect` beside it. A pending content is recorded before the file is
 * replaced, and kept until the replaced file was found to be unedited. Until then the data file and the temporary file each
 * have the confirmed content, the pending one, or an edit. Without a pending content the temporary file is the beginning of
 * a new one.
 */
export interface StateFile {
  /** The UUID of the journal of which the file is a projection. */
  readonly journal: string
  readonly confirmed: ContentMark | undefined
  readonly pending: ContentMark | undefined
  /** The versions that the file had, in order. */
  readonly versions: readonly FileVersion[]
}

/** The state is stored beside the data file, or in the journal's directory while the data file cannot be replaced. */
export interface StateFilePaths {
  readonly dataFile: string
  readonly journal: string
}

/** `isInPlace`: found in the journal's directory, which takes precedence over the place beside the data file. */
interface StoredStateFile {
  readonly state: StateFile
  readonly isInPlace: boolean
}

export async function readStateFile(
  files: Files,
  { dataFile, journal }: StateFilePaths,
): Promise<StoredStateFile | undefined> {
  const inPlace = await readState(files, inPlacePath(journal))
  if (inPlace) return { state: inPlace, isInPlace: true }
  const beside = await readBeside(files, await files.follow(dataFile))
  return beside && { state: beside.state, isInPlace: false }
}

/** An earlier release may have run after this one. But git brings an old file back where it was committed. */
async function readBeside(files: Files, target: string): Promise<{ state: StateFile; isEarlier: boolean } | undefined> {
  const state = await readState(files, statePath(target))
  const earlier = await readState(files, earlierPath(target))
  const isLater = state?.journal === earlier?.journal && earlier && lastPositionIn(earlier) > lastPositionIn(state)
  if (earlier && (!state || isLater)) return { state: earlier, isEarlier: true }
  return state && { state, isEarlier: false }
}

export async function writeStateFile(
  files: Files,
  { dataFile, journal }: StateFilePaths,
  state: StateFile,
  isInPlace = false,
): Promise<void> {
  const { versions, ...rest } = state
  const text: StateText = { ...rest, shown: versions.map(formatVersion) }
  const target = await files.follow(dataFile)
  if (!isInPlace) await makeIgnoredDirectory(files, directoryBeside(target))
  await new Low(new JsonFile<StateText>(files, isInPlace ? inPlacePath(journal) : statePath(target)), text).write()
}

/** Removes the state from the journal's directory once it is beside the data file again. */
export async function removeInPlaceState(files: Files, { journal }: StateFilePaths): Promise<void> {
  await files.remove(inPlacePath(journal))
  await files.syncDirectory(journal)
}

/** Moves what earlier releases kept in the directory of the data file itself, where git did not ignore it. */
export async function moveEarlierFiles(files: Files, dataFile: string): Promise<void> {
  const target = await files.follow(dataFile)
  const from = earlierPath(target)
  if (!(await readBeside(files, target))?.isEarlier) return
  try {
    await makeIgnoredDirectory(files, directoryBeside(target))
    if (await files.stat(`${from}.new`)) await files.rename(`${from}.new`, temporaryPath(target))
    await files.rename(from, statePath(target))
    await files.syncDirectory(directoryBeside(target))
    await files.syncDirectory(directoryOf(target))
  } catch (error) {
    // The directory is read-only now: the state is read where it is, and written into the journal's directory.
    if (!isUnwritable(error)) throw error
  }
}

/** Where a new content is written first, and where the replaced file is afterwards. `dataFile` has no symbolic links. */
export function temporaryPath(dataFile: string): string {
  return `${directoryBeside(dataFile)}/${nameOf(dataFile)}.new`
}

/** Where a new content is written first. `dataFile` has no symbolic links. */
export async function makeTemporaryPath(files: Files, dataFile: string): Promise<string> {
  await makeIgnoredDirectory(files, directoryBeside(dataFile))
  return temporaryPath(dataFile)
}

export async function removeTemporary(files: Files, dataFile: string): Promise<void> {
  const path = temporaryPath(await files.follow(dataFile))
  if (await files.stat(path)) await files.remove(path)
}

/** The error for a journal that is missing although the data file was written from it; undefined if it was not yet. */
export function missingJournal(dataFile: string, state: StateFile): JournalMismatch | undefined {
  if (!state.confirmed && !state.pending) return undefined
  return new JournalMismatch(
    `${dataFile} was written from the journal ${state.journal}, up to position ${lastPositionIn(state)}, and there is no journal. ` +
      'Put it back, or start with --accept-journal to begin a new one from the data file.',
  )
}

/** The error for a journal that is not the data file's, or has lost its end; undefined if it matches. */
export function mismatchOf(
  dataFile: string,
  state: StateFile,
  journal: { readonly id: string; readonly head: Position },
): JournalMismatch | undefined {
  const isAnother = state.journal !== journal.id
  const last = lastPositionIn(state)
  if (!isAnother && last <= journal.head) return undefined
  const why = isAnother
    ? `was written from the journal ${state.journal}, and this one is ${journal.id}`
    : `shows position ${last}, and the journal ends at ${journal.head}: it has lost the events ${journal.head + 1} to ${last}`
  return new JournalMismatch(
    `${dataFile} ${why}. Restore the right journal, or start with --accept-journal: ${
      isAnother ? 'a new one then begins with the data file' : 'differences of the data file then become new events'
    }.`,
  )
}

/** The error for a file that is not the journal's last state, without a state file that says why. */
export function unprovenFile(dataFile: string): JournalMismatch {
  return new JournalMismatch(
    `${dataFile} does not show the state at the end of the journal, and its state file is missing: it was edited, or the journal is ` +
      'another one, or has lost its end. Put the right files back; or start with --accept-journal to continue with this journal: ' +
      'differences of the data file then become new events. Without the journal, a start begins a new one from the data file.',
  )
}

function lastPositionIn(state: StateFile | undefined): Position {
  return Math.max(state?.confirmed?.position ?? 0, state?.pending?.position ?? 0)
}

async function readState(files: Files, path: string): Promise<StateFile | undefined> {
  const low = new Low<StateText | null>(new JsonFile(files, path), null)
  try {
    await low.read()
    if (!low.data) return undefined
    const { journal, confirmed, pending, shown = [] } = low.data
    return { journal, confirmed, pending, versions: shown.map(parseVersion) }
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error
    throw new Corruption(
      `${path} is damaged. It proves that the journal is the data file's. Remove it; the data file must then show the end of the journal, or the start needs --accept-journal.`,
    )
  }
}

/** The content of the state file. */
interface StateText extends Pick<StateFile, 'journal' | 'confirmed' | 'pending'> {
  /** For each version its position, then the first and last position of each edit. Not written by earlier releases. */
  readonly shown?: readonly (readonly number[])[]
}

function formatVersion({ position, edits }: FileVersion): readonly number[] {
  return [position, ...edits.flat()]
}

function parseVersion([position = 0, ...ends]: readonly number[]): FileVersion {
  const edits: [Position, Position][] = []
  for (let index = 0; index + 1 < ends.length; index += 2)
    edits.push([ends[index] as number, ends[index + 1] as number])
  return { position, edits }
}

function inPlacePath(journal: string): string {
  return `${journal}/data-file.recollect`
}

/** `dataFile` has no symbolic links, here and in the following. */
function directoryBeside(dataFile: string): string {
  return `${directoryOf(dataFile)}/.recollect`
}

function statePath(dataFile: string): string {
  return `${directoryBeside(dataFile)}/${nameOf(dataFile)}.state`
}

/** Where earlier releases stored the state. */
function earlierPath(dataFile: string): string {
  return `${directoryOf(dataFile)}/.${nameOf(dataFile)}.recollect`
}

function nameOf(dataFile: string): string {
  return dataFile.slice(dataFile.lastIndexOf('/') + 1)
}

/** A version of the data file: it shows the state right after an event, plus some later edits. */
export interface FileVersion {
  readonly position: Position
  /** The first and the last position of each edit. */
  readonly edits: readonly (readonly [Position, Position])[]
}

/** Highest number of remembered versions. */
const REMEMBERED = 1000
/** The search for the base of an edit covers versions up to this number of events older than the last one. */
const MOST_EVENTS = 100_000

export function showsEvent({ position, edits }: FileVersion, event: Position): boolean {
  return event <= position || edits.some(([first, last]) => first <= event && event <= last)
}

export function lastEventOf({ position, edits }: FileVersion): Position {
  return edits.at(-1)?.[1] ?? position
}

/** Adds a version. If there are too many, drops every other one of the older half, so that they reach far back. */
export function withVersion(versions: readonly FileVersion[], one: FileVersion): readonly FileVersion[] {
  const last = versions.at(-1)
  if (last && last.position === one.position && lastEventOf(last) === lastEventOf(one)) return versions
  const all = [...versions, one]
  if (all.length <= REMEMBERED) return all
  return all.filter((_, index) => index >= REMEMBERED / 2 || index % 2 === 0)
}

/** The versions from which an edit of the file may have been made. */
export function recentVersions(versions: readonly FileVersion[]): readonly FileVersion[] {
  const last = versions.at(-1)
  return last ? versions.filter(({ position }) => position >= last.position - MOST_EVENTS) : []
}
