import type { Files } from '../files/files.ts'
import { lowerBound } from '../runtime/chunked-list.ts'
import { Corruption } from '../runtime/errors.ts'
import { writeOf } from './chain.ts'
import type { Position } from './event.ts'
import { lastPosition, type Recorded, slice } from './journal.ts'
import { InflatedMembers } from './members.ts'
import type { JournalRecord } from './record-format.ts'
import { LineReader, type RecordLine } from './record-reader.ts'
import type { Segment } from './segment.ts'
import { openSegment } from './segment-text.ts'

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
