import { Corruption } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { directoryOf, type Files, replace } from '../../files/files.ts'

/** A content of the data file: the state after which event it shows, and its SHA-256. */
export interface Mark {
  readonly position: Position
  readonly hash: string
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
}

export function statePath(dataFile: string): string {
  const directory = directoryOf(dataFile)
  const name = dataFile.slice(dataFile.lastIndexOf('/') + 1)
  return `${directory}/.${name}.recollect`
}

/** The new content is written here first. */
export function temporaryPath(dataFile: string): string {
  return `${statePath(dataFile)}.new`
}

export async function readState(files: Files, dataFile: string): Promise<DataFileState | undefined> {
  const bytes = await files.read(statePath(dataFile))
  if (!bytes) return undefined
  try {
    const { journal, confirmed, pending } = JSON.parse(bytes.toString()) as DataFileState
    return { journal, confirmed, pending }
  } catch {
    throw new Corruption(
      `${statePath(dataFile)} is damaged. It tells an edit by hand from what the server wrote; without it the data file is taken for edited where it differs from the journal. Remove it to go on like that.`,
    )
  }
}

export async function writeState(files: Files, dataFile: string, state: DataFileState): Promise<void> {
  await replace(files, statePath(dataFile), Buffer.from(`${JSON.stringify(state)}\n`))
}
