import { directoryOf, type Files, isOutOfSpace, writeNew } from '../files/files.ts'
import { Corruption, Refusal } from '../runtime/errors.ts'
import { Chain } from './chain.ts'
import { type Damage, JournalDamage } from './damage.ts'
import type { Position } from './event.ts'
import { lastPosition } from './journal.ts'
import { BEGINNING, type ChainState, FORMAT } from './record-format.ts'
import { findRecord, LineReader, type RecordLine, readHeader } from './record-reader.ts'
import { encodeHeader } from './record-writer.ts'
import { SegmentReader } from './segment-reader.ts'
import { compressedPath, openSegment, type SegmentFile, type SegmentText } from './segment-text.ts'
import { walk } from './walk.ts'

/** Another copy of a journal. */
export interface RecordSource {
  /** For messages. */
  readonly name: string
  readonly id: string
  /** The records with events in a range of positions, both inclusive, in order. */
  lines(from: Position, to: Position): AsyncIterable<RecordLine>
}

/** A damaged segment to be written again, from its own records and those of the source. */
interface DamagedSegment {
  /** Its plain file has this path, whether it exists or not. */
  readonly path: string
  readonly first: Position
  /** The first position after it. The last segment may have later ones. */
  readonly end: Position
  readonly isLast: boolean
  /** Its own records from this position on are not used: they are of the next segment, or of a write without its end. */
  readonly ownEnd: Position
  /** The chain values at its beginning. */
  readonly before: ChainState
  /** The checksum of its last record, as the next segment has it; undefined if that is unknown. */
  readonly last: string | undefined
}

interface RepairedSegment {
  readonly path: string
  /** Number of records taken from the source. */
  readonly records: number
  /** The chain values after its last record. */
  readonly after: ChainState
}

interface RepairOptions {
  readonly source: RecordSource
  readonly progress: (segments: number, of: number) => void
}

export interface Repair {
  readonly damage: readonly Damage[]
  readonly repaired: readonly RepairedSegment[]
  /** Why segments could not be repaired. */
  readonly problems: readonly string[]
}

/** Opens the journal in a directory as a source. Only reads it, once completely, so that any record is found at once. */
export async function openSource(files: Files, directory: string): Promise<RecordSource> {
  const { id, segments } = await walk(files, directory, undefined, { damaged: () => {} })
  const readable = segments.filter(({ index }) => index.positions.length > 0)
  if (id === undefined || readable.length === 0)
    throw new Refusal('NotFound', `${directory} has no readable segment of a journal.`)
  const reader = new SegmentReader(files, readable)
  return { name: directory, id, lines: (from, to) => reader.lines(from, to) }
}

/**
 * Repairs the journal in a directory that no server uses. Each segment is replaced as a whole, once its records are
 * complete and follow both neighbours; one that cannot be repaired stays as it is.
 */
export async function repairJournal(
  files: Files,
  directory: string,
  { source, progress }: RepairOptions,
): Promise<Repair> {
  const damage: Damage[] = []
  const damaged = new Map<Position, SegmentStart>()
  const walked = await walk(files, directory, undefined, {
    progress,
    damaged: (place, segment, before) => {
      damage.push(place)
      if (!damaged.has(segment.first)) damaged.set(segment.first, { path: segment.path, before })
    },
  })
  const { id, segments } = walked
  if (id !== undefined && id !== source.id) {
    throw new Refusal('Conflict', `${source.name} holds another journal, ${source.id}; this one is ${id}.`)
  }
  const lost = damage.find(({ next }) => next === undefined)?.position
  const newest = segments.at(-1)
  const hasLostEnd = lost === undefined && (await continues(source, walked.next))
  if (newest && hasLostEnd && !damaged.has(newest.first)) {
    const { first, path } = newest
    damaged.set(first, { path, before: { ...BEGINNING, position: first, previous: await previousOf(files, newest) } })
  }
  const least = lost ?? (hasLostEnd ? walked.next.position : 0)
  return { damage, ...(await repairSegments(files, { damaged, segments, least }, source)) }
}

/** The beginning of a damaged or missing segment. */
export interface SegmentStart {
  /** That of its plain file. */
  readonly path: string
  /** The chain values there; undefined if the segment before ends with damage. */
  readonly before: ChainState | undefined
}

interface SegmentsToRepair {
  /** By the position of the first event. */
  readonly damaged: ReadonlyMap<Position, SegmentStart>
  readonly segments: readonly SegmentFile[]
  /** The last position that the last segment must have, if it is damaged. */
  readonly least: Position
}

/** Repairs segments one after the other. */
export async function repairSegments(
  files: Files,
  { damaged, segments, least }: SegmentsToRepair,
  source: RecordSource,
): Promise<Omit<Repair, 'damage'>> {
  const repaired: RepairedSegment[] = []
  const problems: string[] = []
  // Missing segments are among the damaged ones.
  const firsts = [...new Set([...damaged.keys(), ...segments.map(({ first }) => first)])].sort((a, b) => a - b)
  for (const [index, first] of firsts.entries()) {
    const found = damaged.get(first)
    if (!found) continue
    const { path, before = repaired.at(-1)?.after } = found
    const following = firsts[index + 1]
    const next = segments.find((one) => one.first === following && !damaged.has(one.first))
    try {
      if (before?.position !== first) throw new Refusal('Conflict', 'the segment before it is damaged')
      const last = next && (await previousOf(files, next))
      const isLast = following === undefined
      const end = following ?? least + 1
      const ownEnd = following ?? (least > 0 ? least : Number.POSITIVE_INFINITY)
      repaired.push(await repairSegment(files, { path, first, end, ownEnd, isLast, before, last }, source))
    } catch (error) {
      problems.push(`${path} could not be repaired: ${whyNotRepaired(error)}`)
    }
  }
  return { repaired, problems }
}

/** Throws any other error than those that another attempt may overcome. */
function whyNotRepaired(error: unknown): string {
  if (isOutOfSpace(error)) return 'the disk is full. Repeat the repair when there is room for a segment.'
  if (error instanceof Refusal || error instanceof Corruption) return error.message
  throw error
}

/** Whether the source has the record after the end of the journal, which has then lost its end. */
async function continues(source: RecordSource, { position, previous }: ChainState): Promise<boolean> {
  for await (const { record } of source.lines(position, position)) return record.previous === previous
  return false
}

async function previousOf(files: Files, segment: SegmentFile): Promise<string> {
  const text = await openSegment(files, segment)
  try {
    return (await readHeader(text)).previous
  } finally {
    await text.close()
  }
}

/**
 * Writes a segment again: temporary name → verified → fsync → rename → fsync of the directory → removal of a compressed
 * file.
 * @throws {Refusal} if the source lacks a record, or has another one; the segment is unchanged after any error
 */
async function repairSegment(files: Files, damaged: DamagedSegment, source: RecordSource): Promise<RepairedSegment> {
  const { path, first, before, last } = damaged
  for (const file of [path, compressedPath(path)])
    if ((await files.stat(file))?.isFile === false)
      throw new Refusal('Conflict', `${file} is not a file. Remove what is in its place.`)
  const chain = new Chain(before)
  const header = encodeHeader({ format: FORMAT, journal: source.id, first, previous: before.previous })
  const text = await openSegment(files, { path, first }).catch((error: unknown) => {
    if (!(error instanceof JournalDamage)) throw error
    return undefined
  })
  let records = 0
  try {
    await writeNew(files, `${path}.tmp`, lines())
  } finally {
    await text?.close()
  }
  await files.rename(`${path}.tmp`, path)
  const directory = directoryOf(path)
  await files.syncDirectory(directory)
  if (await files.stat(compressedPath(path))) {
    await files.remove(compressedPath(path))
    await files.syncDirectory(directory)
  }
  return { path, records, after: chain.next }

  async function* lines(): AsyncGenerator<Uint8Array> {
    const { end, ownEnd, isLast } = damaged
    yield header.bytes
    // Invariant: the records before `chain.next.position` were yielded.
    for await (const { record, crc, bytes } of text ? readableLines(text) : []) {
      const { position } = chain.next
      if (record.position < position || record.position >= ownEnd) continue
      if (record.position > position) yield* taken(position, record.position - 1)
      if (chain.add(record, crc) === undefined) yield bytes
    }
    if (chain.next.position < end) yield* taken(chain.next.position, isLast ? Number.MAX_SAFE_INTEGER : end - 1)
    const { position, previous } = chain.next
    if (position < end) throw new Refusal('Conflict', `${source.name} has no record of position ${position}.`)
    if (last !== undefined && previous !== last)
      throw new Refusal('Conflict', `The records of ${source.name} do not lead to position ${end} of this journal.`)
  }

  async function* taken(from: Position, to: Position): AsyncGenerator<Uint8Array> {
    try {
      for await (const { record, crc, bytes } of source.lines(from, to)) {
        const wrong = lastPosition(record) > to ? 'it ends later' : chain.add(record, crc)
        if (wrong !== undefined) {
          const why = `${source.name} has another record at position ${record.position}: ${wrong}.`
          throw new Refusal('Conflict', why)
        }
        records++
        yield bytes
      }
    } catch (error) {
      // The end of a copy may be incomplete.
      if (!(error instanceof JournalDamage && chain.next.position >= damaged.end)) throw error
    }
  }
}

/** The records of a segment between its damaged places. */
async function* readableLines(text: SegmentText): AsyncGenerator<RecordLine> {
  const size = await text.size()
  for (let offset: number | undefined = 0; offset !== undefined && offset < size; ) {
    const found = await findRecord(text, offset, size, () => true)
    if (!found) return
    const reader = new LineReader(text, found.offset, size)
    for await (const lines of reader.read())
      for (const line of lines) yield { record: line.record(), crc: line.crc, bytes: line.bytes }
    offset = reader.offset + 1
  }
}
