import type { Files } from '../files/files.ts'
import type { Position } from './event.ts'
import type { SegmentFile } from './segment-text.ts'

/** A segment of an open journal. All offsets and sizes refer to the text, whether the file is plain or compressed. */
export interface Segment extends SegmentFile {
  /** Durable bytes. */
  size: number
  /** The offsets of some records, in ascending order, at most INDEX_BYTES apart. */
  readonly index: { readonly positions: Position[]; readonly offsets: number[] }
}

/** A segment, or the beginning of one, as a checkpoint describes it. */
export interface SegmentSpan {
  /** Position of the first event. */
  readonly first: Position
  readonly size: number
  readonly index: { readonly positions: readonly Position[]; readonly offsets: readonly number[] }
}

const INDEX_BYTES = 16 * 1024
const NAME = /^(\d{20})\.ndjson(\.gz)?$/

export function segmentName(first: Position): string {
  return `${String(first).padStart(20, '0')}.ndjson`
}

export function isSegment(name: string): boolean {
  return NAME.test(name)
}

/** The first position of each segment in a directory, ascending. */
export async function segmentsIn(files: Files, directory: string): Promise<readonly Position[]> {
  const names = (await files.list(directory)).filter(isSegment)
  return [...new Set(names.map((name) => Number(name.slice(0, 20))))].sort((a, b) => a - b)
}

/** Adds a record to the sparse index, if the last one there is far enough away. */
export function addToIndex(segment: Segment, position: Position, offset: number): void {
  const { positions, offsets } = segment.index
  const last = offsets.at(-1)
  if (last === undefined || offset - last >= INDEX_BYTES) {
    positions.push(position)
    offsets.push(offset)
  }
}

export function segmentAt(directory: string, first: Position, size: number, index?: SegmentSpan['index']): Segment {
  const { positions = [], offsets = [] } = index ?? {}
  const path = `${directory}/${segmentName(first)}`
  return { path, first, size, index: { positions: [...positions], offsets: [...offsets] } }
}

/** Removes the records from an offset on from the index. */
export function removeFromIndex(segment: Segment, from: number): void {
  const { positions, offsets } = segment.index
  while ((offsets.at(-1) ?? -1) >= from) {
    offsets.pop()
    positions.pop()
  }
}

export interface Sized {
  /** Approximate number of bytes in the journal after the event at a position. */
  bytesAfter(position: Position): number
}

/**
 * Bytes of segments after the event at a position, interpolated between indexed records.
 * @param next The position of the event after the last segment.
 */
export function bytesAfter(segments: readonly SegmentSpan[], next: Position, position: Position): number {
  let bytes = 0
  let end = next
  for (let at = segments.length - 1; at >= 0; at--) {
    const segment = segments[at] as SegmentSpan
    if (segment.first <= position) return bytes + segment.size - offsetAfter(segment, end, position)
    bytes += segment.size
    end = segment.first
  }
  return bytes
}

/** The offset of the event after a position, estimated from the indexed records around it; `end` follows the segment. */
function offsetAfter({ first, size, index }: SegmentSpan, end: Position, position: Position): number {
  const after = position + 1
  let [low, lowOffset] = [first, 0]
  let [high, highOffset] = [end, size]
  for (const [at, known] of index.positions.entries()) {
    const offset = index.offsets[at] as number
    if (known <= after) [low, lowOffset] = [known, offset]
    else {
      ;[high, highOffset] = [known, offset]
      break
    }
  }
  if (after >= high || high === low) return highOffset
  return lowOffset + Math.round(((highOffset - lowOffset) * (after - low)) / (high - low))
}
