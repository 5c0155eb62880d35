import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { writeSnapshot } from '../data-file/adapter.ts'
import { makeTemporaryPath, readStateFile } from '../data-file/state-file.ts'
import { compressSegment } from '../events/compression.ts'
import { damageText, JournalDamage } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import { lastPosition, type Recorded } from '../events/journal.ts'
import type { ChainState } from '../events/record-format.ts'
import { LineReader, parseHeader, readHeader } from '../events/record-reader.ts'
import { encodeHeader } from '../events/record-writer.ts'
import { type Segment, segmentAt, segmentsIn } from '../events/segment.ts'
import { openSegment, type SegmentText } from '../events/segment-text.ts'
import { walk } from '../events/walk.ts'
import { directoryOf, type Files, makeIgnoredDirectory, writeNew } from '../files/files.ts'
import { type Progress, untilOf } from '../projections/journal-fold.ts'
import { Views } from '../projections/views.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'
import {
  checkpointOf,
  damagedFile,
  dataFileIn,
  readBackupFile,
  repairOf,
  type VerifiedJournal,
  type VerifiedSegment,
  writeMark,
} from './backup-directory.ts'

export interface RestoreOptions {
  /** The directory of the backup. */
  readonly from: string
  readonly file: string
  readonly journal: string
  /** A position or a time; undefined: everything. */
  readonly to: string | undefined
}

interface RestoreResult {
  /** Position of the last event. */
  readonly position: Position
  readonly time: string
  /** The UUID of the new journal. */
  readonly id: string
}

/**
 * Makes a journal and a data file from a backup, up to a point. Overwrites nothing. The journal has a new UUID, since it
 * continues differently from what clients may have seen of the original.
 */
export async function restore(
  files: Files,
  { from, file, journal, to }: RestoreOptions,
  progress: Progress,
): Promise<RestoreResult> {
  const found = await readBackupFile(files, from)
  if (!found) throw new Refusal('NotFound', `${from} is not a backup: it has no backup.json.`)
  if (!found.verified) throw new Refusal('Conflict', `The first backup to ${from} was interrupted. Repeat it.`)
  await checkUnused(files, { from, file, journal })
  const source = journalOf(dataFileIn(from, found.dataFile))
  const verified = await withPresentSegments(files, source, found.verified)
  const { views, position, time } = await fold(files, { directory: from, source, verified }, to, progress)

  const id = randomUUID()
  // The mark comes first: an interrupted copy ends before it and is refused (docs/journal.md, J22).
  await writeMark(files, { dataFile: file, journal }, id, position)
  const temporary = await makeTemporaryPath(files, await files.follow(file))
  const hash = await writeSnapshot(files, temporary, views.snapshot())
  await writeMark(files, { dataFile: file, journal }, id, position, hash)
  await makeIgnoredDirectory(files, journal)
  const segments = verified.segments.filter(({ first }) => first <= position)
  for (const [index, { first, size }] of segments.entries()) {
    const isLast = index === segments.length - 1
    const text = await openSegment(files, segmentAt(source, first, size))
    try {
      const { path } = segmentAt(journal, first, 0)
      await writeNew(files, `${path}.tmp`, copiedText(text, size, id, isLast ? position : undefined))
      await files.rename(`${path}.tmp`, path)
      const isCompressed = text.path !== segmentAt(source, first, 0).path
      const { size: written } = (await files.stat(path)) as { size: number }
      if (isCompressed && !isLast) await compressSegment(files, segmentAt(journal, first, written), async () => {})
    } finally {
      await text.close()
    }
  }
  await files.syncDirectory(journal)
  await files.rename(temporary, file)
  await files.syncDirectory(directoryOf(file))
  return { position, time, id }
}

interface Source {
  /** The directory of the backup. */
  readonly directory: string
  /** The journal in it. */
  readonly source: string
  readonly verified: VerifiedJournal
}

/** @throws {Refusal} when something is where the restored files belong */
async function checkUnused(
  files: Files,
  { from, file, journal }: Pick<RestoreOptions, 'from' | 'file' | 'journal'>,
): Promise<void> {
  const backup = await files.follow(from)
  for (const path of [file, journal]) {
    if (!`${await files.follow(path)}/`.startsWith(`${backup}/`)) continue
    throw new Refusal('Conflict', `${path} is within the backup ${from}, which is only read. Name a place elsewhere.`)
  }
  const refuse = (what: string): never => {
    throw new Refusal(
      'Conflict',
      `${what} exists. A restore needs a new place and overwrites nothing; remove the files of an interrupted one.`,
    )
  }
  if (await files.stat(file)) refuse(file)
  if ((await files.stat(journal))?.isFile || (await files.list(journal)).length > 0) refuse(journal)
  if (await readStateFile(files, { dataFile: file, journal })) refuse(`The state of ${file} in .recollect beside it`)
}

/**
 * A repair may have joined or divided segments that `backup.json` lists. Then those that are there are used, if they lead
 * to the same record.
 */
async function withPresentSegments(files: Files, source: string, verified: VerifiedJournal): Promise<VerifiedJournal> {
  const { segments, next } = verified
  const firsts = (await segmentsIn(files, source)).filter((first) => first < next.position)
  const listed = segments.map(({ first }) => first)
  if (isDeepStrictEqual(firsts, listed)) return verified
  try {
    const present: VerifiedSegment[] = []
    for (const first of firsts) present.push({ first, size: await sizeUpTo(files, segmentAt(source, first, 0), next) })
    const changed = { ...verified, segments: present }
    const walked = await walk(files, source, undefined, { until: checkpointOf(changed) })
    return isDeepStrictEqual(walked.next, next) ? changed : verified
  } catch (error) {
    // The caller then reports missing and damaged segments by the list.
    if (error instanceof Corruption) return verified
    throw error
  }
}

/** The size of a segment's text, or of its part up to the last record of a backup. */
async function sizeUpTo(files: Files, segment: Segment, { position, previous }: ChainState): Promise<number> {
  const text = await openSegment(files, segment)
  try {
    const size = await text.size()
    const { end } = await readHeader(text)
    for await (const lines of new LineReader(text, end, size).read())
      for (const line of lines)
        if (line.crc === previous && lastPosition(line.record()) === position - 1)
          return line.offset + line.bytes.length
    return size
  } finally {
    await text.close()
  }
}

/** Verifies a backup, and folds its writes up to a point. Segments after a position are not read. */
async function fold(
  files: Files,
  { directory, source, verified }: Source,
  to: string | undefined,
  progress: Progress,
): Promise<{ readonly views: Views; readonly position: Position; readonly time: string }> {
  const last = verified.next.position - 1
  const until = to === undefined ? { ms: Number.POSITIVE_INFINITY } : untilOf(to)
  if ('position' in until && (until.position < 1 || until.position > last)) {
    throw new Refusal('Invalid', `--to must be a position from 1 to ${last}, and not ${until.position}.`)
  }
  const views = Views.temporary()
  let position = 0
  let time = ''
  const apply = (recorded: Recorded): void => {
    if ('ms' in until ? Date.parse(recorded.time) > until.ms : recorded.position > until.position) return
    const end = lastPosition(recorded)
    if ('position' in until && end > until.position) {
      const { position: first } = recorded
      const choice = first > 1 ? `${first - 1} or ${end}` : `${end}`
      const why = `is within the write of the events ${first} to ${end}, which is restored as a whole`
      throw new Refusal('Invalid', `Position ${until.position} ${why}: use --to ${choice}.`)
    }
    views.replay(recorded)
    position = end
    time = recorded.time
  }
  const whole = checkpointOf(verified)
  const segments = whole.segments.filter(({ first }) => 'ms' in until || first <= until.position)
  const { next } = await walk(files, source, apply, { progress, until: { ...whole, segments } }).catch((error) => {
    if (!(error instanceof JournalDamage)) throw error
    throw new Corruption(`The backup is damaged: ${damageText(error.damage)}. ${repairOf(source)} repairs it.`)
  })
  if (segments.length === whole.segments.length && !isDeepStrictEqual(next, whole.next)) throw damagedFile(directory)
  if (position === 0) throw new Refusal('Invalid', `The first event of the backup is later than --to ${to}.`)
  views.replayed()
  return { views, position, time }
}

/** The text of a segment with the UUID of another journal, up to a position. Each line is verified again. */
async function* copiedText(
  text: SegmentText,
  size: number,
  journal: string,
  last: Position | undefined,
): AsyncGenerator<Buffer> {
  const reader = new LineReader(text, 0, size)
  let isHeader = true
  for await (const lines of reader.read()) {
    const copied: Buffer[] = []
    for (const line of lines) {
      const isBeyond = !isHeader && last !== undefined && line.record().position > last
      if (isBeyond) return yield Buffer.concat(copied)
      copied.push(isHeader ? encodeHeader({ ...parseHeader(line.bytes), journal }).bytes : line.bytes)
      isHeader = false
    }
    yield Buffer.concat(copied)
  }
  if (reader.damage !== undefined) throw new Corruption(`${text.path}, offset ${reader.offset}: ${reader.damage}.`)
}
