import { Corruption, JournalMismatch } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { directoryOf, type Files, replace } from '../../files/files.ts'
import { numbersOf, type Shown, shownOf } from './shown.ts'

/** A content of the data file: the state after which event it shows, and its SHA-256. */
export interface Mark {
  readonly position: Position
  readonly hash: string
  /** Of the file that was put in place with it: one that still has it need not be read to be known. */
  readonly signature?: string
  /** It is being written over the file that is there. The hash is not known yet; a crash leaves any beginning of it. */
  readonly inPlace?: true
}

/**
 * What the data file is known to hold, kept in a small file beside it. The pending content is noted before the
 * rename that puts it in place, so that at any moment the file is one of the two, or edited by hand.
 */
export interface DataFileState {
  /** The UUID of the journal that the file is a projection of. */
  readonly journal: string
  readonly confirmed: Mark | undefined
  readonly pending: Mark | undefined
  /** The contents that the file has had, in order. */
  readonly shown: readonly Shown[]
}

/** Where the state is kept: beside the data file, or with the journal while the data file cannot be replaced by a rename. */
export interface StatePlace {
  readonly dataFile: string
  readonly journal: string
}

function statePathOf({ dataFile, journal }: StatePlace, isInPlace: boolean): string {
  return isInPlace ? `${journal}/data-file.recollect` : statePath(dataFile)
}

function statePath(dataFile: string): string {
  const directory = directoryOf(dataFile)
  const name = dataFile.slice(dataFile.lastIndexOf('/') + 1)
  return `${directory}/.${name}.recollect`
}

/** The new content is written here first. */
export function temporaryPath(dataFile: string): string {
  return `${statePath(dataFile)}.new`
}

/** Whether it was kept with the journal, which then goes before one that is left beside the data file. */
export interface KeptState {
  readonly state: DataFileState
  readonly isInPlace: boolean
}

export async function readState(files: Files, place: StatePlace): Promise<KeptState | undefined> {
  for (const isInPlace of [true, false]) {
    const path = statePathOf(place, isInPlace)
    const bytes = await files.read(path)
    if (bytes) return { state: parseState(path, bytes), isInPlace }
  }
  return undefined
}

function parseState(path: string, bytes: Buffer): DataFileState {
  try {
    const { journal, confirmed, pending, shown } = JSON.parse(bytes.toString()) as StateText
    return { journal, confirmed, pending, shown: (shown ?? []).map(shownOf) }
  } catch {
    throw new Corruption(
      `${path} is damaged. It tells an edit by hand from what the server wrote; without it the data file is taken for edited where it differs from the journal. Remove it to go on like that.`,
    )
  }
}

export async function writeState(
  files: Files,
  place: StatePlace,
  state: DataFileState,
  isInPlace = false,
): Promise<void> {
  const text: StateText = { ...state, shown: state.shown.map(numbersOf) }
  await replace(files, statePathOf(place, isInPlace), Buffer.from(`${JSON.stringify(text)}\n`))
}

/** Removes the state that was kept with the journal, when it is beside the data file again. */
export async function forgetInPlace(files: Files, place: StatePlace): Promise<void> {
  await files.remove(statePathOf(place, true))
  await files.syncDirectory(place.journal)
}

interface StateText extends Pick<DataFileState, 'journal' | 'confirmed' | 'pending'> {
  /** Not written by earlier versions. */
  readonly shown?: readonly (readonly number[])[]
}

/** Refuses a journal that is gone although the data file was written from it. */
export function missingJournal(dataFile: string, state: DataFileState): JournalMismatch {
  return new JournalMismatch(
    `${dataFile} was written from the journal ${state.journal}, up to position ${lastOf(state)}, and there is no journal. ` +
      'Put it back, or start with --accept-journal to begin a new one from the data file.',
  )
}

/** A journal that is another one than the data file's, or has lost its end; undefined when it fits. */
export function mismatchOf(
  dataFile: string,
  state: DataFileState,
  journal: { readonly id: string; readonly head: Position },
): JournalMismatch | undefined {
  const isAnother = state.journal !== journal.id
  const last = lastOf(state)
  if (!isAnother && last <= journal.head) return undefined
  const why = isAnother
    ? `was written from the journal ${state.journal}, and this one is ${journal.id}`
    : `shows position ${last}, and the journal ends at ${journal.head}: it has lost the events ${journal.head + 1} to ${last}`
  return new JournalMismatch(
    `${dataFile} ${why}. Put the right journal back, or start with --accept-journal to go on with this one: what the data file holds then becomes new events.`,
  )
}

function lastOf({ confirmed, pending }: DataFileState): Position {
  return Math.max(confirmed?.position ?? 0, pending?.position ?? 0)
}
