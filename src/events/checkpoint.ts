import type { Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import type { ChainState } from './record-format.ts'
import { readFrame, readHeader, UnknownFormat } from './record-reader.ts'
import { type SegmentSpan, segmentName, segmentsIn } from './segment.ts'
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

/**
 * The reason why the journal in a directory is not that of the checkpoint, or lacks its end; undefined if it matches.
 * Each record holds the checksum of the one before, so the last one proves the whole history. Damage of earlier ones is
 * found later.
 */
export async function checkpointMismatch(
  files: Files,
  directory: string,
  { journal, segments, lastOffset, next }: Checkpoint,
): Promise<string | undefined> {
  const { first, size } = segments.at(-1) as SegmentSpan
  const known = new Set(segments.map((segment) => segment.first))
  const there = new Set(await segmentsIn(files, directory))
  for (const one of known) if (!there.has(one)) return `the segment ${directory}/${segmentName(one)} is missing`
  for (const one of there)
    if (one < first && !known.has(one)) return `the segment ${directory}/${segmentName(one)} was added`
  let text: SegmentText | undefined
  try {
    text = await openSegment(files, { path: `${directory}/${segmentName(first)}`, first })
    if ((await text.size()) < size) return `${text.path} is shorter`
    const { bytes } = await readText(text, size - lastOffset, lastOffset)
    const found = readFrame(bytes, 0)
    const isSame = found.kind === 'whole' && found.end === bytes.length && found.crc === next.previous
    if (!isSame) return `${text.path} has another record before offset ${size}`
    const id = await idOf(text)
    return id === undefined || id === journal ? undefined : `${text.path} belongs to another journal`
  } catch (error) {
    if (error instanceof Corruption) return error.message
    throw error
  } finally {
    await text?.close()
  }
}

/**
 * Describes how an intact journal differs from that of a checkpoint; the subject of the sentence has the checkpoint.
 * @param why the reason why the journal does not match the checkpoint
 */
export function differenceFrom(
  { journal, next }: Pick<Checkpoint, 'journal' | 'next'>,
  found: { readonly id: string | undefined; readonly next: ChainState },
  why: string,
): string {
  const [last, head] = [next.position - 1, found.next.position - 1]
  if (found.id !== journal) return `was built from the journal ${journal}, and this one is ${found.id ?? 'empty'}`
  if (head < last) {
    return `has position ${last}, and the journal ends at ${head}: it has lost the events ${head + 1} to ${last}`
  }
  return `was built up to position ${last} of a journal that continued differently: ${why}`
}

/** The UUID of the journal in a directory; undefined if there is no readable segment. */
export async function journalIdIn(files: Files, directory: string): Promise<string | undefined> {
  for (const first of await segmentsIn(files, directory)) {
    let text: SegmentText | undefined
    try {
      text = await openSegment(files, { path: `${directory}/${segmentName(first)}`, first })
      const id = await idOf(text)
      if (id !== undefined) return id
    } catch (error) {
      if (!(error instanceof Corruption)) throw error
    } finally {
      await text?.close()
    }
  }
  return undefined
}

/** Undefined if the header is damaged. */
async function idOf(text: SegmentText): Promise<string | undefined> {
  try {
    return (await readHeader(text)).journal
  } catch (error) {
    if (!(error instanceof Corruption) || error instanceof UnknownFormat) throw error
    return undefined
  }
}
