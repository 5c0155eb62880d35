import type { Files } from '../files/files.ts'
import { lowerBound } from '../runtime/chunked-list.ts'
import { Corruption } from '../runtime/errors.ts'
import { writeOf } from './chain.ts'
import { JournalDamage, KnownDamage } from './damage.ts'
import type { Position } from './event.ts'
import { lastPosition, type Recorded, slice } from './journal.ts'
import { InflatedMembers } from './members.ts'
import type { JournalRecord } from './record-format.ts'
import { findRecord, LineReader, linesOf, type RecordLine, type ScannedLine, UnknownFormat } from './record-reader.ts'
import type { Segment } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

/** Reads ranges of positions, both inclusive, from the segments of a journal. Throws `JournalDamage` where it cannot. */
export class SegmentReader {
  readonly #files: Files
  readonly #segments: readonly Segment[]
  readonly #known: KnownDamage
  readonly #inflated = new InflatedMembers()

  /** Segments may be added later. */
  constructor(files: Files, segments: readonly Segment[], known = new KnownDamage()) {
    this.#files = files
    this.#segments = segments
    this.#known = known
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

  /** The events at ascending positions; those of a record that follow each other together. Others are not decoded. */
  async *at(positions: readonly Position[]): AsyncGenerator<Recorded> {
    for (let done = 0; done < positions.length; ) {
      const index = this.#segments.findLastIndex(({ first }) => first <= (positions[done] as Position))
      const next = lowerBound(positions, this.#segments[index + 1]?.first ?? Number.POSITIVE_INFINITY)
      const text = await this.#open(index)
      try {
        for (const parts of partsOf(this.#segments[index] as Segment, positions.slice(done, next))) {
          for (const { bytes, part } of await readParts(text, parts)) {
            let found = 0
            for (const record of recordsIn(bytes, part)) {
              found += record.events.length
              yield writeOf([record])
            }
            // Damage may hide other records.
            for (const position of part.positions.slice(found)) yield* this.events(position, position)
          }
        }
      } finally {
        await text.close()
      }
      done = next
    }
  }

  /** The complete records with events in the range. */
  async *lines(from: Position, to: Position): AsyncGenerator<RecordLine> {
    let at = Math.max(1, from)
    let index = this.#segments.findLastIndex((segment) => segment.first <= at)
    for (; at <= to && index < this.#segments.length; index++) {
      for await (const line of this.#linesOf(index, at, to)) {
        yield line
        at = lastPosition(line.record) + 1
      }
    }
  }

  /** Records before `from` may be damaged. */
  async *#linesOf(index: number, from: Position, to: Position): AsyncGenerator<RecordLine> {
    const segment = this.#segments[index] as Segment
    const { positions, offsets } = segment.index
    const indexed = Math.max(0, lowerBound(positions, from + 1) - 1)
    const text = await this.#open(index)
    try {
      let { size } = segment
      let offset = offsets[indexed]
      let next = positions[indexed] as Position
      let isFirst = true
      let skipped: ScannedLine | undefined
      // Invariant: the records before `next` were passed, and that of `next` belongs at `offset`.
      while (offset !== undefined) {
        const reader = new LineReader(text, offset, size)
        for await (const lines of reader.read()) {
          for (const line of lines) {
            // Earlier records are not parsed.
            skipped = (line.nextPosition ?? Number.POSITIVE_INFINITY) <= from ? line : undefined
            if (skipped) continue
            const record = line.record()
            const wanted = Math.max(from, next)
            if (record.position > wanted) this.#fail(text, line.offset, wanted, record.position, 'records are missing')
            // A doubled record is damage that hides nothing.
            if (lastPosition(record) < wanted) continue
            yield { record, crc: line.crc, bytes: line.bytes }
            next = lastPosition(record) + 1
            if (next > to) return
          }
        }
        const following = this.#segments[index + 1]?.first
        if (reader.damage === undefined) {
          const wanted = Math.max(from, next)
          if (following !== undefined && wanted < following && wanted <= to)
            this.#fail(text, reader.offset, wanted, following, 'records are missing')
          return
        }
        // The position after the last skipped record was read from a damaged one.
        const record = skipped?.record()
        if (skipped && record && record.position <= from && lastPosition(record) >= from) {
          yield { record, crc: skipped.crc, bytes: skipped.bytes }
          next = lastPosition(record) + 1
          if (next > to) return
        }
        // Bytes may have been added or removed, so that no record is where the index says.
        const isShifted = isFirst && reader.offset === offset
        isFirst = false
        if (index < this.#segments.length - 1) size = Math.max(size, await text.size())
        const wanted = Math.max(from, next)
        const found = await findRecord(text, isShifted ? 0 : reader.offset, size, (one) => lastPosition(one) >= wanted)
        if (!found || found.record.position > wanted)
          this.#fail(text, reader.offset, wanted, found?.record.position ?? following, reader.damage)
        offset = found.offset
      }
    } finally {
      await text.close()
    }
  }

  #fail({ path }: SegmentText, offset: number, position: Position, next: Position | undefined, why: string): never {
    const damage = { path, offset, position, next, why }
    this.#known.add(damage)
    throw new JournalDamage(damage)
  }

  async #open(index: number): Promise<SegmentText> {
    const segment = this.#segments[index] as Segment
    try {
      return await openSegment(this.#files, segment, this.#inflated)
    } catch (error) {
      if (!(error instanceof JournalDamage)) throw error
      const damage = { ...error.damage, next: this.#segments[index + 1]?.first }
      this.#known.add(damage)
      throw new JournalDamage(damage)
    }
  }
}

/** About the bytes that are read together: decoding them blocks the event loop. */
const BYTES_TOGETHER = 256 * 1024

/** Some lines of a segment, each from one of its index up to another, and ascending positions of events in them. */
interface Part {
  readonly from: number
  to: number
  readonly positions: Position[]
}

/** The parts with ascending positions, all of which are in the segment; about BYTES_TOGETHER at a time. */
function* partsOf(segment: Segment, wanted: readonly Position[]): Generator<readonly Part[]> {
  const { positions, offsets } = segment.index
  let parts: Part[] = []
  let bytes = 0
  /** The first position after the last part. */
  let next = 0
  for (const position of wanted) {
    if (position >= next) {
      if (bytes >= BYTES_TOGETHER) {
        yield parts
        parts = []
        bytes = 0
      }
      const following = lowerBound(positions, position + 1)
      const from = offsets[following - 1] ?? segment.size
      const to = offsets[following] ?? segment.size
      next = positions[following] ?? Number.POSITIVE_INFINITY
      bytes += to - from
      const last = parts.at(-1)
      // One read takes about as long as another, whatever its length.
      if (last?.to === from) last.to = to
      else parts.push({ from, to, positions: [] })
    }
    parts.at(-1)?.positions.push(position)
  }
  if (parts.length > 0) yield parts
}

interface PartRead {
  readonly part: Part
  readonly bytes: Buffer
}

async function readParts(text: SegmentText, parts: readonly Part[]): Promise<readonly PartRead[]> {
  const reads = parts.map(async (part) => ({
    part,
    bytes: (await readText(text, part.to - part.from, part.from)).bytes,
  }))
  // After one has failed, the others may still be reading, and the file must not be closed.
  await Promise.allSettled(reads)
  return Promise.all(reads)
}

/** The wanted events, up to the first line that is damaged or missing. */
function* recordsIn(bytes: Buffer, { from, positions }: Part): Generator<JournalRecord> {
  let done = 0
  try {
    for (const line of linesOf(bytes, from)) {
      const until = lowerBound(positions, line.nextPosition ?? Number.POSITIVE_INFINITY)
      for (const record of until > done ? line.recordsAt(positions.slice(done, until)) : []) {
        if (record.position !== positions[done]) return
        done += record.events.length
        yield record
      }
      if (done === positions.length) return
    }
  } catch (error) {
    if (!(error instanceof Corruption) || error instanceof UnknownFormat) throw error
  }
}
