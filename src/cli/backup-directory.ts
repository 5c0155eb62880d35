import { basename } from 'node:path'
import { writeStateFile } from '../data-file/state-file.ts'
import type { Checkpoint } from '../events/checkpoint.ts'
import { journalExists } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { type Files, JsonFile } from '../files/files.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'

/**
 * The directory of a backup:
 *
 * | File | Content | Written |
 * |---|---|---|
 * | `backup.json` | `BackupFile`: what of the journal was copied and verified | before the first segment, then at the end of each backup |
 * | `<name>.journal/` | an ordinary journal. What exceeds `verified` is of an interrupted backup, and is replaced | between the two |
 * | `.recollect/<name>.json.state` | a mark without a data file: a start is refused while the journal is shorter (docs/journal.md, J22) | before the first segment, then at the end |
 */
export interface BackupFile {
  readonly format: typeof FORMAT
  /** The name of the data file, from which the name of the journal follows. */
  readonly dataFile: string
  /** Undefined until the first backup is complete. */
  readonly verified?: VerifiedJournal
}

/** The part of the journal that the backup has. */
export interface VerifiedJournal extends Omit<Checkpoint, 'segments'> {
  readonly segments: readonly VerifiedSegment[]
}

export interface VerifiedSegment {
  readonly first: Position
  /** Bytes of text. */
  readonly size: number
}

const FORMAT = 1
const NAME = 'backup.json'

/** Undefined if no backup was made there. */
export async function readBackupFile(files: Files, directory: string): Promise<BackupFile | undefined> {
  const path = `${directory}/${NAME}`
  const found = await new JsonFile<Partial<BackupFile>>(files, path).read().catch((error) => {
    if (!(error instanceof SyntaxError)) throw error
    throw damagedFile(directory)
  })
  if (!found) return undefined
  const { format, dataFile, verified } = found
  if (verified && !(verified.segments?.length > 0 && verified.next?.position > 1)) throw damagedFile(directory)
  if (format === FORMAT && typeof dataFile === 'string') return { format, dataFile, ...(verified && { verified }) }
  throw new Refusal('Conflict', `${path} is not of this version of Recollect. Make a new backup in another directory.`)
}

/** The journal beside the file may be intact. */
export function damagedFile(directory: string): Corruption {
  const instead = 'If the journal is lost, serve the backup itself: its own journal may be intact.'
  return new Corruption(`${directory}/${NAME} is damaged. Make a new backup in another directory. ${instead}`)
}

/** The command that repairs the journal of a backup. */
export function repairOf(journal: string): string {
  return `recollect repair --journal ${journal} --from <the journal or another copy>`
}

export function writeBackupFile(files: Files, directory: string, content: Omit<BackupFile, 'format'>): Promise<void> {
  return new JsonFile<BackupFile>(files, `${directory}/${NAME}`).write({ format: FORMAT, ...content })
}

/** Makes a start and `verify` refuse a journal that ends before the position. The hash is that of the data file, if there is one. */
export function writeMark(
  files: Files,
  paths: { readonly dataFile: string; readonly journal: string },
  id: string,
  position: Position,
  hash = '',
): Promise<void> {
  return writeStateFile(files, paths, {
    journal: id,
    confirmed: { position, hash },
    pending: undefined,
    versions: [],
  })
}

export function checkpointOf({ segments, ...end }: VerifiedJournal): Checkpoint {
  const index = { positions: [], offsets: [] }
  return { ...end, segments: segments.map(({ first, size }) => ({ first, size, index })) }
}

/** The data file that a start would write in the directory. */
export function dataFileIn(directory: string, dataFile: string): string {
  return `${directory}/${basename(dataFile)}`
}

/** @throws {Refusal} unless a backup may begin in the directory, or continue there */
export async function checkDirectory(
  files: Files,
  directory: string,
  { file, journal }: { readonly file: string; readonly journal: string },
  found: BackupFile | undefined,
): Promise<void> {
  const refuse = (why: string): never => {
    throw new Refusal('Conflict', `${directory} ${why}`)
  }
  const copy = journalOf(dataFileIn(directory, file))
  const [target, source] = [await files.follow(directory), await files.follow(journal)]
  if (`${target}/`.startsWith(`${source}/`)) {
    refuse(`is within the journal ${journal}. Name a directory elsewhere, best on another disk.`)
  }
  if (found && (await files.follow(copy)) === source) {
    refuse(`is the backup that ${journal} belongs to. Name another directory.`)
  }
  if (found && found.dataFile !== basename(file)) {
    refuse(`has the backup of ${found.dataFile}, and the data file is ${basename(file)}. Name another directory.`)
  }
  if ((await files.list(`${copy}/store`)).length > 0) {
    refuse(
      'was served: its journal may have events of its own. Back up to another directory, and see recollect restore.',
    )
  }
  if (found) return
  if ((await files.stat(directory))?.isFile) refuse('is a file. A backup needs a directory.')
  // An interrupted first backup may leave these files.
  const names = (await files.list(directory)).filter((name) => ![basename(copy), `${NAME}.tmp`].includes(name))
  if (names.length > 0 || (await journalExists(files, copy))) {
    refuse(`is not empty, and has no ${NAME}. A backup begins in a new or empty directory.`)
  }
}
