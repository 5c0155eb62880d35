import type { Files } from '../files/files.ts'
import { lowerBound } from '../runtime/chunked-list.ts'
import { Corruption } from '../runtime/errors.ts'
import { writeOf } from './chain.ts'
import type { Position } from './event.ts'
import { lastPosition, type Recorded, slice } from './journal.ts'
import { InflatedMembers } from './members.ts'
import type { JournalRecord } from './record-format.ts'
import { LineReader, linesOf, type RecordLine } from './record-reader.ts'
import type { Segment } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

/** Reads ranges of positions, both inclusive, from the segments of a journal. */
export class SegmentReader {
  readonly #files: Files
  readonly #segments: readonly Segment[]
  readonly #inflated = new InflatedMembers()

  /** Segments may be added later. */
  constructor(files: Files, segments: readonly Segment[]) {
    this.#files = files
    this.#segments = segments
  }

  /** The events, in order; those of a write that spans several records in several parts. */
  async *events(from: Position, to: Position): AsyncGenerator<Recorded> {
    for await (const { record } of this.lines(from, to)) yield writeOf([slice(record, from, to)])
  }

  /** The events, in order, each write as a whole. */
  async *writes(from: Position, to: Position): AsyncGenerator<Recorded> {
    let parts: JournalRecord[] = []
    for await (const { record } of this.lines(from, to)) {
      parts.push(slice(record, from, to))
      if (record.more) continue
      yield writeOf(parts)
      parts = []
    }
  }

  /** The events at ascending positions, each by itself. Of their records, others are not decoded. */
  async *at(positions: readonly Position[]): AsyncGenerator<Recorded> {
    for (let done = 0; done < positions.length; ) {
      const index = this.#segments.findLastIndex(({ first }) => first <= (positions[done] as Position))
      const segment = this.#segments[index] as Segment
      const parts = firstParts(segment, positions.slice(done, done + MOST_TOGETHER), this.#segments[index + 1]?.first)
      const text = await openSegment(this.#files, segment, this.#inflated)
      const reads = parts.map((part) => recordsIn(text, part))
      // After one has failed, the others may still be reading.
      await Promise.allSettled(reads)
      await text.close()
      const found = (await Promise.all(reads)).flat()
      for (const record of found) yield writeOf([record])
      done += found.length
    }
  }

  /** The complete records with events in the range. */
  async *lines(from: Position, to: Position): AsyncGenerator<RecordLine> {
    let at = Math.max(1, from)
    let index = this.#segments.findLastIndex((segment) => segment.first <= at)
    while (at <= to) {
      const segment = this.#segments[index++]
      if (!segment) return
      for await (const line of this.#linesOf(segment, at, to)) {
        yield line
        at = lastPosition(line.record) + 1
        if (at > to) return
      }
    }
  }

  async *#linesOf(segment: Segment, from: Position, to: Position): AsyncGenerator<RecordLine> {
    const { positions, offsets } = segment.index
    const offset = offsets[Math.max(0, lowerBound(positions, from + 1) - 1)]
    if (offset === undefined) return
    const text = await openSegment(this.#files, segment, this.#inflated)
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
}

/** Highest number of events, and about the bytes of parts, that are read together: decoding blocks the event loop. */
const MOST_TOGETHER = 256
const BYTES_TOGETHER = 256 * 1024

/** The lines of a segment from one of its index up to the next one, and ascending positions of events in them. */
interface Part {
  readonly from: number
  readonly to: number
  readonly positions: Position[]
}

/**
 * The parts with the first of ascending positions, whose first one is in the segment.
 * @param end the position after its last event, unless it is the last segment
 */
function firstParts(
  { index: { positions, offsets }, size }: Segment,
  wanted: readonly Position[],
  end = Number.POSITIVE_INFINITY,
): readonly Part[] {
  const parts: Part[] = []
  let bytes = 0
  /** The first position after the last part. */
  let next = 0
  for (const position of wanted) {
    if (position >= end) break
    if (position >= next) {
      if (bytes >= BYTES_TOGETHER) break
      const following = lowerBound(positions, position + 1)
      const from = offsets[following - 1] ?? size
      const to = offsets[following] ?? size
      parts.push({ from, to, positions: [] })
      next = positions[following] ?? end
      bytes += to - from
    }
    parts.at(-1)?.positions.push(position)
  }
  return parts
}

async function recordsIn(text: SegmentText, { from, to, positions }: Part): Promise<readonly JournalRecord[]> {
  const { bytes, damage } = await readText(text, to - from, from)
  if (damage) throw damage
  const found: JournalRecord[] = []
  try {
    for (const line of linesOf(bytes, from)) {
      const until = lowerBound(positions, line.nextPosition ?? Number.POSITIVE_INFINITY)
      if (until > found.length) found.push(...line.recordsAt(positions.slice(found.length, until)))
      if (found.length === positions.length) return found
    }
  } catch (error) {
    if (!(error instanceof Corruption)) throw error
    throw new Corruption(`${text.path}, ${error.message} (looking for position ${positions[0]}).`)
  }
  throw new Corruption(`${text.path}: the event at position ${positions[found.length]} is missing.`)
}
