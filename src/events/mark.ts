import { Corruption } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { Position } from './event.ts'
import type { Expected } from './record-format.ts'
import { parseHeader, readFrame } from './record-reader.ts'
import { type MarkedSegment, segmentName } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

/**
 * A place in a journal between two writes, and all that must be known to read on from there. It is about durable
 * events alone.
 */
export interface Mark {
  /** The journal's UUID. */
  readonly journal: string
  /** What the next record must carry. */
  readonly next: Expected
  /** Of the last event. */
  readonly time: string
  /** Where the last record begins, in the last segment. */
  readonly lastOffset: number
  /** All segments; the last one reaches up to the mark. */
  readonly segments: readonly MarkedSegment[]
}

/**
 * The mark behind the last record of segments that are written to, to be used at once; undefined when the last one has no
 * record yet.
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
 * Why the journal in a directory is not the one that was marked, or no longer has all that was marked; undefined
 * when it is. It looks at the segments' names, sizes and headers and at the last record before the mark, not at what
 * lies between.
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
