import type { Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import type { Position } from './event.ts'
import type { ChainState, SegmentHeader } from './record-format.ts'
import { parseHeader, readFrame } from './record-reader.ts'
import { type SegmentSpan, segmentName } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

/** A position in a journal between two durable writes, with the data to continue reading from there. */
export interface Checkpoint {
  /** The journal's UUID. */
  readonly journal: string
  readonly next: ChainState
  /** Time of the last event. */
  readonly time: string
  /** Offset of the last record in the last segment. */
  readonly lastOffset: number
  /** All segments; the last one only up to the checkpoint. */
  readonly segments: readonly SegmentSpan[]
}

const HEADER_BYTES = 4096

/**
 * The reason why the journal in a directory is not that of the checkpoint, or lacks data before it; undefined if it matches.
 * Checks the segments' names, sizes and headers and the last record before the checkpoint, not what lies between.
 */
export async function checkpointMismatch(
  files: Files,
  directory: string,
  checkpoint: Checkpoint,
): Promise<string | undefined> {
  for (const [index, { first, size }] of checkpoint.segments.entries()) {
    const path = `${directory}/${segmentName(first)}`
    const isLast = index === checkpoint.segments.length - 1
    const text = await openSegment(files, { path, first }).catch((error) => {
      if (error instanceof Corruption) return error.message
      throw error
    })
    if (typeof text === 'string') return text
    try {
      const length = await text.size()
      if (isLast ? length < size : length !== size) return `${text.path} has another size`
      const why = await headerMismatch(text, checkpoint.journal, first)
      if (why !== undefined) return `${text.path}: ${why}`
      if (isLast && !(await endsAtCheckpoint(text, size, checkpoint)))
        return `${text.path} has another record before offset ${size}`
    } finally {
      await text.close()
    }
  }
  return undefined
}

/** The UUID of the journal in a directory; undefined if its first segment is missing or damaged. */
export async function journalIdIn(files: Files, directory: string): Promise<string | undefined> {
  let text: SegmentText | undefined
  try {
    text = await openSegment(files, { path: `${directory}/${segmentName(1)}`, first: 1 })
    return (await readHeader(text)).journal
  } catch (error) {
    if (error instanceof Corruption) return undefined
    throw error
  } finally {
    await text?.close()
  }
}

async function headerMismatch(text: SegmentText, journal: string, first: Position): Promise<string | undefined> {
  try {
    const header = await readHeader(text)
    return header.journal === journal && header.first === first ? undefined : 'it belongs to another journal'
  } catch (error) {
    return (error as Error).message
  }
}

async function readHeader(text: SegmentText): Promise<SegmentHeader> {
  const { bytes, damage } = await readText(text, HEADER_BYTES, 0)
  if (damage) throw damage
  return parseHeader(bytes)
}

async function endsAtCheckpoint(text: SegmentText, size: number, { lastOffset, next }: Checkpoint): Promise<boolean> {
  const { bytes } = await readText(text, size - lastOffset, lastOffset)
  const found = readFrame(bytes, 0)
  return found.kind === 'whole' && found.end === bytes.length && found.crc === next.previous
}
