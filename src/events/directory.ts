import { directoryOf, type Files, ignoreInGit, type OpenFile, writeNew } from '../files/files.ts'
import { Locked, Refusal } from '../runtime/errors.ts'
import type { Checkpoint } from './checkpoint.ts'
import { type ChainState, FORMAT, NO_PREVIOUS } from './record-format.ts'
import { encodeHeader } from './record-writer.ts'
import { isSegment, type Segment, segmentAt, segmentName } from './segment.ts'
import { type Torn, type Walk, walk } from './walk.ts'

export interface DirectoryOptions {
  readonly files: Files
  readonly directory: string
  /** The UUID for a new journal. */
  readonly newId: () => string
  /** The directory's lock, if the caller holds it, who then releases it. */
  readonly lock?: JournalLock
  /** Where reading begins; undefined: at the beginning. It must match the journal (`checkpointMismatch`). */
  readonly from?: Checkpoint | undefined
  /** Called before each segment is read while it is opened. */
  readonly progress?: (segments: number, of: number) => void
}

/** The torn tail that opening cut off; `kept` is the file with its bytes. */
export interface Cut {
  readonly segment: string
  readonly offset: number
  readonly bytes: number
  readonly kept: string
  readonly why: string
}

/** A locked directory of segments, read to its end. */
export interface OpenDirectory extends Pick<Walk, 'segments' | 'next' | 'time' | 'lastOffset'> {
  readonly id: string
  /** Undefined if the caller holds the lock. */
  readonly lock: JournalLock | undefined
  /** The file of the last segment. */
  readonly file: OpenFile
  readonly cut: Cut | undefined
}

export interface JournalLock {
  release(): Promise<void>
}

/** Locks and verifies a directory; starts a journal if it is empty. */
export async function openDirectory(options: DirectoryOptions): Promise<OpenDirectory> {
  const { files, directory, newId, from, progress } = options
  const lock = options.lock ? undefined : await lockDirectory(files, directory)
  try {
    const walked = await walk(files, directory, undefined, { from, progress })
    const id = walked.id ?? newId()
    const { segments, next, time, lastOffset, torn } = walked
    const newest = segments.at(-1)
    if (!newest) await ignoreInGit(files, directory)
    // A compressed segment is never appended to.
    if (!newest || newest.members) segments.push(await beginSegment(files, directory, id, next))
    const cut = torn && (await cutOff(files, torn))
    const last = segments.at(-1) as Segment
    const file = await files.open(last.path, 'log')
    if (torn) await file.truncate(torn.offset)
    await file.sync()
    await files.syncDirectory(directory)
    return { id, lock, segments, file, next, time, lastOffset, cut }
  } catch (error) {
    await lock?.release()
    throw error
  }
}

/** Whether the directory holds a journal or remains of one; opening then reports what is missing. */
export async function journalExists(files: Files, directory: string): Promise<boolean> {
  return (await files.list(directory)).some(isSegment)
}

/** Whether a server has used the directory: a copy of its segments alone, as git makes one, has no lock. */
export async function wasUsedHere(files: Files, directory: string): Promise<boolean> {
  return (await files.stat(lockPath(directory))) !== undefined
}

/** Gives the directory another name, unless a server uses it. Resolves with its new path. */
export async function setDirectoryAside(files: Files, directory: string): Promise<string> {
  // A new lock would make a copy look used if it could not be renamed.
  const lock = (await wasUsedHere(files, directory)) ? await lockDirectory(files, directory) : undefined
  let aside = `${directory}.aside`
  for (let number = 2; await files.stat(aside); number++) aside = `${directory}.aside-${number}`
  try {
    await files.rename(directory, aside)
  } catch (error) {
    const why = `The journal ${directory} cannot be set aside: ${(error as Error).message}.`
    throw new Refusal('Unavailable', `${why} Move its files away, or name another directory with --journal.`)
  } finally {
    await lock?.release()
  }
  await ignoreInGit(files, aside)
  await files.syncDirectory(directoryOf(directory))
  return aside
}

/** Node reports ENOENT for a directory that cannot be created in a read-only file system. */
const NOT_CREATABLE = ['ENOENT', 'EROFS', 'EACCES', 'EPERM']

export async function lockDirectory(files: Files, directory: string): Promise<JournalLock> {
  await files.makeDirectory(directory).catch((error: NodeJS.ErrnoException) => {
    if (!NOT_CREATABLE.includes(error.code ?? '')) throw error
    const why = `${error.message}; is its file system read-only?`
    throw new Refusal('Unavailable', `The journal's directory cannot be created: ${why} --journal names another one.`)
  })
  const lock = await files.lock(lockPath(directory))
  if (!lock) throw new Locked(`The journal ${directory} is in use by another process.`)
  return lock
}

function lockPath(directory: string): string {
  return `${directory}/lock`
}

/** Saves the bytes to be cut off durably beside the segment. */
async function cutOff(files: Files, torn: Torn): Promise<Cut> {
  let kept = `${torn.segment.path}.torn-${torn.offset}`
  for (let number = 2; !(await isFreeFor(files, kept, torn.bytes)); number++)
    kept = `${torn.segment.path}.torn-${torn.offset}-${number}`
  await writeNew(files, kept, [torn.bytes])
  await files.syncDirectory(directoryOf(kept))
  return { segment: torn.segment.path, offset: torn.offset, bytes: torn.bytes.length, kept, why: torn.why }
}

/** Whether a file is missing, or has the first bytes of the torn tail, from a start that ended before it cut off the tail. */
async function isFreeFor(files: Files, path: string, torn: Buffer): Promise<boolean> {
  const found = await files.read(path)
  return !found || torn.subarray(0, found.length).equals(found)
}

/** temporary name → header → fsync → rename → fsync of the directory: a segment without header does not exist. */
export async function beginSegment(
  files: Files,
  directory: string,
  journal: string,
  next: ChainState,
): Promise<Segment> {
  const path = `${directory}/${segmentName(next.position)}`
  const previous = next.position === 1 ? NO_PREVIOUS : next.previous
  const header = encodeHeader({ format: FORMAT, journal, first: next.position, previous })
  await writeNew(files, `${path}.tmp`, [header.bytes])
  await files.rename(`${path}.tmp`, path)
  await files.syncDirectory(directory)
  return segmentAt(directory, next.position, header.bytes.length)
}
