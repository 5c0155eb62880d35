import { Corruption } from '../errors.ts'
import type { Files } from '../files/files.ts'
import type { Position } from './event.ts'
import type { Recorded } from './journal.ts'
import type { Mark, MarkedSegment } from './mark.ts'
import {
  after,
  type Expected,
  type JournalRecord,
  misplaced,
  NO_PREVIOUS,
  parseHeader,
  parseRecord,
  readFrame,
  SECTOR,
  whyNotTorn,
} from './record.ts'
import { openSegment, readText, type SegmentPlace, type TextRead } from './segment-text.ts'

/** All offsets and sizes are of the text, whether the file is plain or compressed. */
export interface Segment extends SegmentPlace {
  /** Durable bytes. */
  size: number
  /** Where some of the records begin, in ascending order, at most INDEX_BYTES of the file apart. */
  readonly index: { readonly positions: Position[]; readonly offsets: number[] }
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

export function note(segment: Segment, position: Position, offset: number): void {
  const { positions, offsets } = segment.index
  const last = offsets.at(-1)
  if (last === undefined || offset - last >= INDEX_BYTES) {
    positions.push(position)
    offsets.push(offset)
  }
}

function segmentAt(
  directory: string,
  { first, size, index }: Pick<MarkedSegment, 'first' | 'size'> & Partial<MarkedSegment>,
): Segment {
  const { positions = [], offsets = [] } = index ?? {}
  return {
    path: `${directory}/${segmentName(first)}`,
    first,
    size,
    index: { positions: [...positions], offsets: [...offsets] },
  }
}

export interface Walk {
  /** The journal's UUID; undefined when there is no journal yet. */
  readonly id: string | undefined
  readonly segments: Segment[]
  /** What the next record must carry. */
  readonly next: Expected
  /** Of the last event, '' for none. */
  readonly time: string
  /** Where the last record begins, in the last segment; undefined when that is not known. */
  readonly lastOffset: number | undefined
  /** What a crash left at the end of the last segment, and is to be cut off. */
  readonly torn: Torn | undefined
}

export interface Torn {
  readonly segment: Segment
  readonly offset: number
  readonly bytes: Buffer
  readonly why: string
}

/**
 * Reads a journal's directory from its first segment to its last and checks every line; `visit` gets every whole
 * write, in order. With a mark, which must be one of this journal's, it begins there. Changes nothing. Damage that a crash cannot have caused is thrown as Corruption, naming
 * segment, offset and position: it is never skipped.
 */
export async function walk(
  files: Files,
  directory: string,
  visit: (recorded: Recorded) => void,
  progress: (segments: number, of: number) => void = () => {},
  mark?: Mark,
): Promise<Walk> {
  const firsts = await segmentsIn(files, directory)
  const marked = (mark?.segments ?? []).map((known) => segmentAt(directory, known))
  const begun = marked.pop()
  let lastOffset = mark?.lastOffset
  const segments = [...marked]
  let id = mark?.journal
  let next: Expected = mark?.next ?? { position: 1, previous: NO_PREVIOUS, flush: 0 }
  let time = mark?.time ?? ''
  let torn: Torn | undefined
  let unfinished: { readonly offset: number; readonly before: Expected; readonly parts: JournalRecord[] } | undefined

  for (const [index, first] of firsts.entries()) {
    progress(index, firsts.length)
    const known = index < marked.length ? marked[index] : undefined
    if (known) {
      await (await openSegment(files, known)).close()
      continue
    }
    const isBegun = begun !== undefined && index === marked.length
    const segment = isBegun ? begun : segmentAt(directory, { first, size: 0 })
    // Whole sectors, as the kinds of damage are told apart by them.
    const base = segment.size - (segment.size % SECTOR)
    const { bytes, damage } = await readFrom(files, segment, base)
    let offset = segment.size
    const corrupt = (why: string) =>
      new Corruption(`${segment.path}, offset ${offset}, position ${next.position}: ${why}. Nothing was changed.`)

    if (unfinished) throw corrupt('the segment before it ends in the middle of a write')
    if (!isBegun) {
      if (segment.first !== next.position)
        throw corrupt(`the segment that begins with position ${next.position} is missing`)
      if (damage && bytes.length === 0) throw corrupt(damage.message)
      const { header, end } = inPlace(corrupt, () => parseHeader(bytes))
      if (header.journal !== (id ?? header.journal))
        throw corrupt(`the segment belongs to another journal, ${header.journal}`)
      if (header.first !== segment.first || header.previous !== next.previous) {
        throw corrupt('the segment does not follow the one before it')
      }
      id = header.journal
      offset = end
      lastOffset = undefined
    }

    while (offset < base + bytes.length) {
      const found = readFrame(bytes, offset - base)
      if (found.kind !== 'whole') {
        if (damage) throw corrupt(damage.message)
        const isLast = first === firsts.at(-1) && !segment.members
        const why = isLast
          ? whyNotTorn(bytes, offset - base, next.position)
          : 'the record is damaged, and segments follow'
        if (why !== undefined) throw corrupt(`the record is damaged: ${why}`)
        torn = { segment, offset, bytes: bytes.subarray(offset - base), why: 'a torn tail' }
        break
      }
      const record = inPlace(corrupt, () => parseRecord(bytes, found))
      const wrong = misplaced(record, next)
      if (wrong !== undefined) throw corrupt(wrong)
      if (record.more || unfinished) {
        unfinished ??= { offset, before: next, parts: [] }
        unfinished.parts.push(record)
      }
      note(segment, record.position, offset)
      lastOffset = offset
      next = after(record, found.crc)
      offset = base + found.end
      if (record.more) continue
      visit(unfinished ? joined(unfinished.parts) : record)
      time = record.time
      unfinished = undefined
    }
    if (damage) throw corrupt(damage.message)
    if (unfinished) {
      const { offset: from, before } = unfinished
      torn = { segment, offset: from, bytes: bytes.subarray(from - base), why: 'an unfinished write' }
      next = before
      offset = from
      lastOffset = undefined
      forget(segment, from)
    }
    segment.size = offset
    segments.push(segment)
  }
  progress(firsts.length, firsts.length)
  return { id, segments, next, time, lastOffset, torn }
}

function inPlace<T>(corrupt: (why: string) => Corruption, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw corrupt((error as Error).message)
  }
}

/** The records of one write, as the one write that they are. */
export function joined(parts: readonly JournalRecord[]): JournalRecord {
  const [first] = parts as readonly [JournalRecord]
  return { ...first, events: parts.flatMap((part) => part.events) }
}

function forget(segment: Segment, from: number): void {
  const { positions, offsets } = segment.index
  while ((offsets.at(-1) ?? -1) >= from) {
    offsets.pop()
    positions.pop()
  }
}

async function readFrom(files: Files, segment: Segment, offset: number): Promise<TextRead> {
  const text = await openSegment(files, segment)
  try {
    return await readText(text, Math.max(0, (await text.size()) - offset), offset)
  } finally {
    await text.close()
  }
}
