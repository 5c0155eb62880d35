import type { Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import { writeOf } from './chain.ts'
import type { Position } from './event.ts'
import type { InflatedMembers } from './inflated-members.ts'
import { lastPosition, type Recorded, slice } from './journal.ts'
import type { JournalRecord } from './record-format.ts'
import { LineReader, type RecordLine } from './record-reader.ts'
import type { Segment } from './segment.ts'
import { openSegment } from './segment-text.ts'

/** The events in a range of positions (both inclusive), in order. */
export async function* readSegments(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<Recorded> {
  for await (const record of readRecords(files, segments, from, to, inflated)) yield writeOf([record])
}

/** `readSegments` with complete writes, even if these span several records. */
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
    yield writeOf(parts)
    parts = []
  }
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

/** The complete records with events in a range of positions. */
export async function* readLines(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  inflated?: InflatedMembers,
): AsyncGenerator<RecordLine> {
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
): AsyncGenerator<RecordLine> {
  const { positions, offsets } = segment.index
  const offset = offsets[floorIndex(positions, from)]
  if (offset === undefined) return
  const text = await openSegment(files, segment, inflated)
  try {
    const reader = new LineReader(text, offset, segment.size)
    for await (const lines of reader.read()) {
      for (const line of lines) {
        // Earlier records are not parsed.
        if ((line.nextPosition ?? Number.POSITIVE_INFINITY) <= from) continue
        const record = line.record()
        if (lastPosition(record) < from) continue
        yield { record, crc: line.crc, bytes: line.bytes }
        if (lastPosition(record) >= to) return
      }
    }
    if (reader.damage !== undefined) {
      throw new Corruption(`${text.path}, offset ${reader.offset}: ${reader.damage} (looking for position ${from}).`)
    }
  } finally {
    await text.close()
  }
}

/** The index of the last element that is not greater; 0 if all are. */
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
