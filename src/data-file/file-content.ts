import { createHash } from 'node:crypto'
import type { Position } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'

export interface FileContent {
  /** SHA-256. */
  readonly hash: string
  /** The signature of the file while it had this content. */
  readonly signature: string
  readonly size: number
}

/** How often to retry reading a file that changes while it is read. */
const MOST_READINGS = 20
const READ_BYTES = 1024 * 1024

/** Puts the next bytes of a file into the room. Resolves with their number, which is less only at the end of the file. */
export type ReadBytes = (room: Buffer) => Promise<number>

/** Reads a file consistently with `use`, which is called again if the file has changed meanwhile. It reads to the end. */
export async function contentOf(
  files: Files,
  path: string,
  use: (read: ReadBytes, size: number) => Promise<unknown> = discard,
): Promise<FileContent | undefined> {
  for (let readings = 0; readings < MOST_READINGS; readings++) {
    const stat = await files.stat(path).catch((error) => Promise.reject(unreadable(path, error)))
    if (!stat) return undefined
    if (!stat.isFile) throw noFile(path)
    const hash = createHash('sha256')
    const isThere = await reading(files, path, async (read, size) => {
      const hashed: ReadBytes = async (room) => {
        const bytes = await read(room)
        hash.update(room.subarray(0, bytes))
        return bytes
      }
      await use(hashed, size)
    })
    const isSame = (await files.stat(path))?.signature === stat.signature
    if (isThere && isSame) return { hash: hash.digest('hex'), signature: stat.signature, size: stat.size }
  }
  throw alwaysWritten(path)
}

/** Opens a file for `use`. False if it has disappeared. */
export async function reading(
  files: Files,
  path: string,
  use: (read: ReadBytes, size: number) => Promise<unknown>,
): Promise<boolean> {
  const file = await files.open(path, 'read').catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unreadable(path, error)
  })
  if (!file) return false
  try {
    const size = await file.size()
    let offset = 0
    await use(async (room) => {
      let filled = 0
      // Bounded by the initial size, so that a growing file is not read for ever.
      while (filled < room.length && offset < size) {
        const rest = room.subarray(filled, filled + size - offset)
        const bytes = await file.read(rest, offset).catch((error) => Promise.reject(unreadable(path, error)))
        if (bytes === 0) break
        filled += bytes
        offset += bytes
      }
      return filled
    }, size)
    return true
  } finally {
    await file.close()
  }
}

/** Reads bytes in memory like those of a file. */
export function bytesReader(bytes: Buffer): ReadBytes {
  let offset = 0
  return async (room) => {
    const copied = bytes.copy(room, 0, offset)
    offset += copied
    return copied
  }
}

async function discard(read: ReadBytes): Promise<void> {
  const room = Buffer.allocUnsafeSlow(READ_BYTES)
  while ((await read(room)) > 0);
}

export function alwaysWritten(path: string): Refusal {
  return new Refusal('Unavailable', `The data file ${path} keeps changing; try again later.`)
}

/** Checked before opening: opening a pipe without a writer would block. */
export function noFile(path: string): Refusal {
  const fault = { pointer: '', message: 'is a directory, a pipe or a device' }
  return new Refusal('Invalid', `The data file ${path} ${fault.message}. It must be a regular file.`, [fault])
}

/** Temporary: an operator may repair it at any time. */
function unreadable(path: string, error: unknown): Refusal {
  return new Refusal('Unavailable', `The data file ${path} cannot be read: ${(error as Error).message}.`)
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

/** The format of the state file: the position, then the first and last position of each edit. */
export function numbersOf({ position, edits }: FileVersion): readonly number[] {
  return [position, ...edits.flat()]
}

export function versionOf([position = 0, ...ends]: readonly number[]): FileVersion {
  const edits: [Position, Position][] = []
  for (let index = 0; index + 1 < ends.length; index += 2)
    edits.push([ends[index] as number, ends[index + 1] as number])
  return { position, edits }
}
