import { basename } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { checkpointMismatch, differenceFrom } from '../events/checkpoint.ts'
import { compressSegment } from '../events/compression.ts'
import { damageText, JournalDamage } from '../events/damage.ts'
import { lockDirectory } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { isSegment, type Segment, segmentAt } from '../events/segment.ts'
import { compressedPath, openSegment, type SegmentText } from '../events/segment-text.ts'
import { type Walk, walk } from '../events/walk.ts'
import {
  type Files,
  isOutOfSpace,
  makeIgnoredDirectory,
  type OpenFile,
  readFully,
  writeAll,
  writeNew,
} from '../files/files.ts'
import type { Progress } from '../projections/journal-fold.ts'
import { Corruption, JournalMismatch, Locked, Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'
import {
  checkDirectory,
  checkpointOf,
  dataFileIn,
  readBackupFile,
  repairOf,
  type VerifiedJournal,
  type VerifiedSegment,
  writeBackupFile,
  writeMark,
} from './backup-directory.ts'

export interface BackupOptions {
  readonly file: string
  readonly journal: string
  /** The directory of the backup. */
  readonly to: string
  /** Sealed segments become hard links where the file system can do that. */
  readonly link: boolean
}

interface BackupResult {
  /** Position of the last event in the backup. */
  readonly position: Position
  /** Events that the backup did not have before. */
  readonly events: number
}

/**
 * Copies the events of a journal that a backup does not have yet, up to the last complete write, also while a server is
 * running. Verifies them in the journal, and again in the copy.
 */
export async function backup(
  files: Files,
  { file, journal, to, link }: BackupOptions,
  progress: Progress,
): Promise<BackupResult> {
  const found = await readBackupFile(files, to)
  await checkDirectory(files, to, { file, journal }, found)
  const before = found?.verified
  const source = await readSource(files, journal, to, before, progress)
  const position = source.next.position - 1
  const dataFile = dataFileIn(to, file)
  const copy = journalOf(dataFile)
  await makeIgnoredDirectory(files, copy)
  const lock = await lockDirectory(files, copy)
  try {
    if (!isDeepStrictEqual(await readBackupFile(files, to), found)) {
      throw new Locked(`Another backup to ${to} has just ended. Repeat this one.`)
    }
    if (!found) await writeBackupFile(files, to, { dataFile: basename(file) })
    if (!before) await writeMark(files, { dataFile, journal: copy }, source.id, position)
    const verified = await copySegments(files, source, copy, { before, link })
    await writeBackupFile(files, to, { dataFile: basename(file), verified })
    await writeMark(files, { dataFile, journal: copy }, source.id, position)
  } catch (error) {
    if (!isOutOfSpace(error)) throw error
    const kept = before ? `It still has the events up to ${before.next.position - 1}` : 'It has no events yet'
    throw new Refusal(
      'DiskFull',
      `The disk of the backup ${to} is full. ${kept}; repeat the backup when there is room.`,
    )
  } finally {
    await lock.release()
  }
  return { position, events: position + 1 - (before?.next.position ?? 1) }
}

interface Source extends Pick<Walk, 'segments' | 'next'> {
  readonly id: string
}

/** Verifies the part of the journal that a backup does not have. */
async function readSource(
  files: Files,
  journal: string,
  to: string,
  before: VerifiedJournal | undefined,
  progress: Progress,
): Promise<Source> {
  const from = before && checkpointOf(before)
  const why = from && (await checkpointMismatch(files, journal, from))
  if (from && why !== undefined) {
    // `walk` throws first if the journal is damaged.
    const { position, previous } = from.next
    const walked = await walk(files, journal, undefined, { passing: position })
    if (walked.id === from.journal && walked.passed?.previous === previous) throw otherBorders(journal, to)
    const what = differenceFrom(from, walked, why)
    throw new JournalMismatch(`The backup ${to} ${what}. Nothing was changed. Back up to another directory.`)
  }
  const walked = await walk(files, journal, undefined, { from, progress })
  const { id, next } = walked
  if (id === undefined) throw new Refusal('NotFound', `There is no journal in ${journal}.`)
  if (next.position === 1) throw new Refusal('NotFound', `The journal ${journal} has no events yet.`)
  return { id, segments: walked.segments, next }
}

/** A repair may join or divide segments, and nodes of a cluster divide theirs at different positions. */
function otherBorders(journal: string, to: string): Refusal {
  const what = `${journal} has the events of the backup ${to}, but its segments begin at other positions`
  const after = 'as after some repairs, and on another node of a cluster'
  return new Refusal(
    'Conflict',
    `${what}, ${after}. Nothing was changed. Back up to another directory; the former backup can still be restored.`,
  )
}

interface CopyOptions {
  readonly before: VerifiedJournal | undefined
  readonly link: boolean
}

/** Copies what is new, and verifies it there. Everything is durable when it resolves. */
async function copySegments(
  files: Files,
  source: Source,
  directory: string,
  { before, link }: CopyOptions,
): Promise<VerifiedJournal> {
  const open = source.segments.at(-1)
  // A new segment may have no record yet.
  const segments = source.segments.filter(({ first }) => first < source.next.position)
  const copied: string[] = []
  let isComplete = true
  for (const [index, segment] of segments.entries()) {
    const verified = before?.segments[index]
    const known = verified && (await hasCopy(files, directory, verified)) ? verified : undefined
    if (verified && !known) isComplete = false
    // The source may be damaged where the backup is not.
    if (known && known.size === segment.size && segment !== open) {
      await cutAt(files, segmentAt(directory, segment.first, 0).path, known.size)
      continue
    }
    const text = await openSegment(files, segment)
    const isText = known || segment === open
    const target = `${directory}/${basename(isText ? segment.path : text.path)}`
    try {
      if (isText) await copyText(files, text, segment, target, known)
      else await copyFile(files, text, target, link)
      // The text of a segment is read in place of its compressed form; an interrupted backup may have left a part of it.
      const plain = segmentAt(directory, segment.first, 0).path
      if (target !== plain && (await files.stat(plain))) await files.remove(plain)
    } finally {
      await text.close()
    }
    if (!known) copied.push(target)
  }
  await files.syncDirectory(directory)
  await removeOthers(files, directory, new Set(segments.map(({ first }) => first)))
  const from = before && isComplete ? checkpointOf(before) : undefined
  const walked = await walk(files, directory, undefined, { from }).catch(async (error) => {
    if (!(error instanceof JournalDamage)) throw error
    for (const path of copied) await files.remove(path)
    throw new Corruption(
      `The backup is damaged: ${damageText(error.damage)}. Repeat the backup; if it fails again, ${repairOf(directory)} repairs it.`,
    )
  })
  await compressAsSource(files, segments, directory)
  return verifiedJournal(source, walked)
}

/** Whether the copy of a segment was neither lost nor divided or joined to another one by a repair: then it is copied again. */
async function hasCopy(files: Files, directory: string, { first, size }: VerifiedSegment): Promise<boolean> {
  const { path } = segmentAt(directory, first, size)
  const plain = await files.stat(path)
  return plain ? plain.size >= size : (await files.stat(compressedPath(path))) !== undefined
}

/** Compresses the sealed segments that are compressed in the journal. */
async function compressAsSource(files: Files, segments: readonly Segment[], directory: string): Promise<void> {
  for (const { first, size, members } of segments) {
    const copy = segmentAt(directory, first, size)
    if (members && (await files.stat(copy.path))) await compressSegment(files, copy, async () => {})
  }
}

/** Copies the text of a segment, or appends what is new of it. */
async function copyText(
  files: Files,
  text: SegmentText,
  { size, path }: Segment,
  target: string,
  known: VerifiedSegment | undefined,
): Promise<void> {
  const stat = await files.stat(target)
  // A link to the original must not be written to.
  const isOwn = known && stat && stat.size >= known.size && !(await isSameFile(files, path, target))
  if (!isOwn) {
    const temporary = `${target}.tmp`
    await writeNew(files, temporary, pieces(text, 0, size))
    await files.rename(temporary, target)
    return
  }
  if (stat.size === size && known.size === size) return
  await cutAt(files, target, known.size)
  const file = await files.open(target, 'edit')
  try {
    let offset = known.size
    for await (const piece of pieces(text, offset, size)) {
      await writeAll(file, piece, offset)
      offset += piece.length
    }
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Removes what an interrupted backup, or a repair, may have left after the verified bytes. */
async function cutAt(files: Files, path: string, size: number): Promise<void> {
  const stat = await files.stat(path)
  if (!stat || stat.size <= size) return
  const file = await files.open(path, 'edit')
  try {
    await file.truncate(size)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function isSameFile(files: Files, one: string, other: string): Promise<boolean> {
  return (await files.stat(one))?.signature === (await files.stat(other))?.signature
}

/** Copies the file of a sealed segment. An interrupted backup may have done that. */
async function copyFile(files: Files, { path, file }: SegmentText, target: string, link: boolean): Promise<void> {
  const size = await file.size()
  if ((await files.stat(target))?.size === size) return
  const temporary = `${target}.tmp`
  if (await files.stat(temporary)) await files.remove(temporary)
  if (!(link && (await tryLink(files, path, temporary)))) await writeNew(files, temporary, pieces(file, 0, size))
  await files.rename(temporary, target)
}

/** False also if the segment has just been compressed. */
async function tryLink(files: Files, from: string, to: string): Promise<boolean> {
  try {
    return await files.link(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** Removes the remains of interrupted backups. */
async function removeOthers(files: Files, directory: string, firsts: ReadonlySet<Position>): Promise<void> {
  for (const name of await files.list(directory)) {
    const isOther = isSegment(name.replace(/\.tmp$/, '')) && !(isSegment(name) && firsts.has(Number(name.slice(0, 20))))
    if (isOther) await files.remove(`${directory}/${name}`)
  }
  await files.syncDirectory(directory)
}

function verifiedJournal({ id, next }: Source, copied: Walk): VerifiedJournal {
  const { segments, time, lastOffset } = copied
  if (!isDeepStrictEqual(copied.next, next) || lastOffset === undefined) {
    throw new Error(`the copy ends at position ${copied.next.position - 1}, and not at ${next.position - 1}`)
  }
  return {
    journal: id,
    next,
    time,
    lastOffset,
    segments: segments.map(({ first, size }) => ({ first, size })),
  }
}

const PIECE_BYTES = 4 * 1024 * 1024

/** The bytes from an offset up to a size. */
async function* pieces(source: Pick<OpenFile, 'read'>, from: number, size: number): AsyncGenerator<Buffer> {
  for (let offset = from; offset < size; offset += PIECE_BYTES) {
    yield await readFully(source, Math.min(PIECE_BYTES, size - offset), offset)
  }
}
