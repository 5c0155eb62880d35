import { Corruption } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { Position } from './event.ts'
import type { InflatedMembers } from './inflated-members.ts'
import { lastPosition, type Recorded, slice } from './journal.ts'
import { type JournalRecord, parseRecord, positionAt, readFrame } from './record.ts'
import { openSegment, readSome } from './segment-text.ts'
import { joined, type Segment } from './walk.ts'

const READ_BYTES = 64 * 1024

/** The events from one position up to another (both inclusive), in order, of segments that were walked. */
export async function* readSegments(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<Recorded> {
  for await (const record of readRecords(files, segments, from, to, inflated)) yield withoutFrame(record)
}

/** The same, each write whole, also where the segments hold it in several records. */
export async function* readWrites(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<Recorded> {
  let parts: JournalRecord[] = []
  for await (const record of readRecords(files, segments, from, to, inflated)) {
    parts.push(record)
    if (record.more) continue
    yield withoutFrame(joined(parts))
    parts = []
  }
}

function withoutFrame({ previous, flush, more, ...recorded }: JournalRecord): Recorded {
  return recorded
}

async function* readRecords(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<JournalRecord> {
  for await (const { record } of readLines(files, segments, from, to, inflated)) yield slice(record, from, to)
}

/** A record as it stands in its segment. */
export interface ReadLine {
  readonly record: JournalRecord
  /** crc32 of the rest, 8 hex digits. */
  readonly crc: string
  readonly bytes: Uint8Array
}

/** The records, whole, that hold anything from one position up to another. */
export async function* readLines(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<ReadLine> {
  let at = Math.max(1, from)
  let index = segments.findLastIndex((segment) => segment.first <= at)
  while (at <= to) {
    const segment = segments[index++]
    if (!segment) return
    for await (const line of readSegment(files, segment, at, to, inflated)) {
      yield line
      at = lastPosition(line.record) + 1
      if (at > to) return
    }
  }
}

async function* readSegment(
  files: Files,
  segment: Segment,
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<ReadLine> {
  const nearest = floorIndex(segment.index.positions, from)
  let offset = segment.index.offsets[nearest]
  if (offset === undefined) return
  const { size } = segment
  const text = await openSegment(files, segment, inflated)
  const damagedAt = (at: number, why = 'the record is damaged') =>
    new Corruption(`${text.path}, offset ${at}: ${why} (looking for position ${from}).`)
  try {
    let wanted = READ_BYTES
    while (offset < size) {
      const asked = Math.min(wanted, size - offset)
      const { bytes: buffer, damage } = await readSome(text, asked, offset)
      let at = 0
      while (at < buffer.length) {
        const found = readFrame(buffer, at)
        if (found.kind === 'cut' && offset + buffer.length < size) break
        if (found.kind !== 'whole') throw damagedAt(offset + at)
        // What lies before the position is not parsed.
        if ((positionAt(buffer, found.end) ?? Number.POSITIVE_INFINITY) <= from) {
          at = found.end
          continue
        }
        const record = parseRecord(buffer, found)
        const bytes = buffer.subarray(at, found.end)
        at = found.end
        if (lastPosition(record) < from) continue
        yield { record, crc: found.crc, bytes }
        if (lastPosition(record) >= to) return
      }
      if (damage) throw damagedAt(offset + at, damage.message)
      if (at === 0 && buffer.length < asked) {
        throw new Corruption(`${text.path}: the segment ends at ${offset + buffer.length} and not at ${size}.`)
      }
      wanted = at === 0 ? wanted * 2 : READ_BYTES * 4
      offset += at
    }
  } finally {
    await text.close()
  }
}

/** The index of the last element that is not greater; the first when all are. */
function floorIndex(ascending: readonly number[], value: number): number {
  let low = 0
  let high = ascending.length - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if ((ascending[middle] as number) <= value) low = middle
    else high = middle - 1
  }
  return low
}
