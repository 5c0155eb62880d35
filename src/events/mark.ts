import { Corruption } from '../errors.ts'
import { type Files, type OpenFile, readFully } from '../files/files.ts'
import type { Position } from './event.ts'
import { after, type Expected, misplaced, NO_PREVIOUS, parseHeader, parseRecord, readFrame } from './record.ts'
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
    const stat = await files.stat(path)
    if (!stat) return `${path} is missing`
    if (isLast ? stat.size < size : stat.size !== size) return `${path} has another size`
    const file = await files.open(path, 'read')
    try {
      const why = await whyNotItsBeginning(file, mark.journal, first)
      if (why !== undefined) return `${path}: ${why}`
      if (isLast && !(await endsAsMarked(file, size, mark))) return `${path} has another record before offset ${size}`
    } finally {
      await file.close()
    }
  }
  return undefined
}

async function whyNotItsBeginning(file: OpenFile, journal: string, first: Position): Promise<string | undefined> {
  try {
    const { header } = parseHeader(await readFully(file, HEADER_BYTES, 0))
    return header.journal === journal && header.first === first ? undefined : 'it belongs to another journal'
  } catch (error) {
    return (error as Error).message
  }
}

async function endsAsMarked(file: OpenFile, size: number, { lastOffset, next }: Mark): Promise<boolean> {
  const bytes = await readFully(file, size - lastOffset, lastOffset)
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
    const path = `${directory}/${segmentName(first)}`
    let offset = 0
    const corrupt = (why: string) => new Corruption(`${path}, offset ${offset}, position ${next.position}: ${why}.`)
    const file = await files.open(path, 'read')
    try {
      for (let wanted = CHECK_BYTES; offset < size; ) {
        const bytes = await readFully(file, Math.min(wanted, size - offset), offset)
        let at = 0
        if (offset === 0) {
          const { header, end } = headerOf(bytes, corrupt)
          if (header.first !== next.position || header.previous !== next.previous || header.journal !== mark.journal) {
            throw corrupt('the segment does not follow the one before it')
          }
          at = end
        }
        while (at < bytes.length) {
          const found = readFrame(bytes, at)
          if (found.kind === 'cut' && offset + bytes.length < size) break
          if (found.kind !== 'whole') {
            offset += at
            throw corrupt('the record is damaged')
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
        await rest(next.position - 1)
      }
    } finally {
      await file.close()
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
