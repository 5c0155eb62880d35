import type { Position } from './event.ts'
import type { SegmentSpan } from './segment.ts'

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
