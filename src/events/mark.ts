import { Corruption } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { Position } from './event.ts'
import { after, type Expected, misplaced, NO_PREVIOUS, parseHeader, parseRecord, readFrame } from './record.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'
import { segmentName } from './walk.ts'

/** A segment, or the beginning of one. */
export interface MarkedSegment {
  /** Of the first event. */
  readonly first: Position
  readonly size: number
  readonly index: { readonly positions: readonly Position[]; readonly offsets: readonly number[] }
}

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
    const { header } = parseHeader(bytes)
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

const CHECK_BYTES = 128 * 1024

/**
 * Checks every record before a mark as a walk does, a few at a time; `rest` is told how far it came and waited for in
 * between. Damage is thrown
 * as Corruption that names the place.
 */
export async function checkUpTo(
  files: Files,
  directory: string,
  mark: Pick<Mark, 'journal' | 'next' | 'segments'>,
  rest: (checked: Position) => Promise<void>,
): Promise<void> {
  let next: Expected = { position: 1, previous: NO_PREVIOUS, flush: 0 }
  for (const { first, size } of mark.segments) {
    const text = await openSegment(files, { path: `${directory}/${segmentName(first)}`, first })
    let offset = 0
    const corrupt = (why: string) =>
      new Corruption(`${text.path}, offset ${offset}, position ${next.position}: ${why}.`)
    try {
      for (let wanted = CHECK_BYTES; offset < size; ) {
        const { bytes, damage } = await readText(text, Math.min(wanted, size - offset), offset)
        let at = 0
        if (offset === 0) {
          if (damage && bytes.length === 0) throw corrupt(damage.message)
          const { header, end } = headerOf(bytes, corrupt)
          if (header.first !== next.position || header.previous !== next.previous || header.journal !== mark.journal) {
            throw corrupt('the segment does not follow the one before it')
          }
          at = end
        }
        while (at < bytes.length) {
          const found = readFrame(bytes, at)
          if (found.kind === 'cut' && !damage && offset + bytes.length < size) break
          if (found.kind !== 'whole') {
            offset += at
            throw corrupt(damage?.message ?? 'the record is damaged')
          }
          const record = parseRecord(bytes, found)
          const wrong = misplaced(record, next)
          if (wrong !== undefined) {
            offset += at
            throw corrupt(wrong)
          }
          next = after(record, found.crc)
          at = found.end
        }
        wanted = at === 0 ? wanted * 2 : CHECK_BYTES
        offset += at
        if (damage) throw corrupt(damage.message)
        await rest(next.position - 1)
      }
    } finally {
      await text.close()
    }
  }
  if (next.position !== mark.next.position || next.previous !== mark.next.previous) {
    throw new Corruption(
      `${directory}: its records up to position ${mark.next.position - 1} are not those that were marked.`,
    )
  }
}

function headerOf(bytes: Buffer, corrupt: (why: string) => Corruption): ReturnType<typeof parseHeader> {
  try {
    return parseHeader(bytes)
  } catch (error) {
    throw corrupt((error as Error).message)
  }
}
