import type { Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import type { Position } from './event.ts'
import type { Expected } from './record-format.ts'
import { parseHeader, readFrame } from './record-reader.ts'
import { type MarkedSegment, segmentName } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

/**
 * A position in a journal between two writes, with the data to continue reading from there. It covers durable events
 * only.
 */
export interface Mark {
  /** The journal's UUID. */
  readonly journal: string
  /** The chain values of the next record. */
  readonly next: Expected
  /** Time of the last event. */
  readonly time: string
  /** Offset of the last record in the last segment. */
  readonly lastOffset: number
  /** All segments; the last one only up to the mark. */
  readonly segments: readonly MarkedSegment[]
}

/**
 * The mark after the last record of segments that are still written to, valid until the next write; undefined if the
 * last one has no record yet.
 */
export function markOf(
  segments: readonly MarkedSegment[],
  { lastOffset, ...place }: Omit<Mark, 'segments' | 'lastOffset'> & { readonly lastOffset: number | undefined },
): Mark | undefined {
  if (lastOffset === undefined) return undefined
  return { ...place, lastOffset, segments }
}

const HEADER_BYTES = 4096

/**
 * The reason why the journal in a directory is not the marked one, or lacks marked data; undefined if it matches.
 * Checks the segments' names, sizes and headers and the last record before the mark, not what lies between.
 */
export async function whyNotMarked(files: Files, directory: string, mark: Mark): Promise<string | undefined> {
  for (const [index, { first, size }] of mark.segments.entries()) {
    const path = `${directory}/${segmentName(first)}`
    const isLast = index === mark.segments.length - 1
    const text = await openSegment(files, { path, first }).catch((error) => {
      if (error instanceof Corruption) return error.message
      throw error
    })
    if (typeof text === 'string') return text
    try {
      const length = await text.size()
      if (isLast ? length < size : length !== size) return `${text.path} has another size`
      const why = await whyNotItsBeginning(text, mark.journal, first)
      if (why !== undefined) return `${text.path}: ${why}`
      if (isLast && !(await endsAsMarked(text, size, mark)))
        return `${text.path} has another record before offset ${size}`
    } finally {
      await text.close()
    }
  }
  return undefined
}

async function whyNotItsBeginning(text: SegmentText, journal: string, first: Position): Promise<string | undefined> {
  try {
    const { bytes, damage } = await readText(text, HEADER_BYTES, 0)
    if (damage) throw damage
    const header = parseHeader(bytes)
    return header.journal === journal && header.first === first ? undefined : 'it belongs to another journal'
  } catch (error) {
    return (error as Error).message
  }
}

async function endsAsMarked(text: SegmentText, size: number, { lastOffset, next }: Mark): Promise<boolean> {
  const { bytes } = await readText(text, size - lastOffset, lastOffset)
  const found = readFrame(bytes, 0)
  return found.kind === 'whole' && found.end === bytes.length && found.crc === next.previous
}
