import type { Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import { Chain, writeOf } from './chain.ts'
import type { Checkpoint } from './checkpoint.ts'
import type { Position } from './event.ts'
import type { Recorded } from './journal.ts'
import { type ChainState, DIGITS, type JournalRecord, NEWLINE, OPENING, PREFIX_BYTES } from './record-format.ts'
import { DAMAGED_HEADER, LineReader, parseHeader, parseRecord, readFrame, type ScannedLine } from './record-reader.ts'
import { addToIndex, removeFromIndex, type Segment, segmentAt, segmentsIn } from './segment.ts'
import { openSegment, readText, type SegmentText } from './segment-text.ts'

export interface Walk {
  /** The journal's UUID; undefined if there is no journal yet. */
  readonly id: string | undefined
  readonly segments: Segment[]
  readonly next: ChainState
  /** Time of the last event, '' if there is none. */
  readonly time: string
  /** Offset of the last record in the last segment; undefined if unknown. */
  readonly lastOffset: number | undefined
  /** The torn tail of the last segment, to be cut off. */
  readonly torn: Torn | undefined
}

export interface Torn {
  readonly segment: Segment
  readonly offset: number
  readonly bytes: Buffer
  readonly why: string
}

type Visit = (recorded: Recorded) => void

interface WalkOptions {
  readonly progress?: ((segments: number, of: number) => void) | undefined
  /** Where to begin. */
  readonly from?: Checkpoint | undefined
  /** Where to end. Everything before must be whole. */
  readonly until?: Pick<Checkpoint, 'journal' | 'next' | 'segments'>
  /** Called and awaited between batches. */
  readonly rest?: (checked: Position) => Promise<void>
}

/**
 * Reads a journal's directory from the first segment to the last and verifies every line (docs/journal.md, J14);
 * `visit` gets every complete write, in order. Changes nothing.
 * @throws {Corruption} for damage that a crash cannot have caused, with segment, offset and position.
 */
export async function walk(files: Files, directory: string, visit?: Visit, options: WalkOptions = {}): Promise<Walk> {
  const { progress = () => {}, from, until } = options
  const walker = new Walker(files, visit, options)
  const known = from?.segments ?? []
  const firsts = until ? until.segments.map(({ first }) => first) : await segmentsIn(files, directory)
  for (const [index, first] of firsts.entries()) {
    progress(index, firsts.length)
    const span = known[index]
    const segment = segmentAt(directory, span?.first ?? first, span?.size ?? 0, span?.index)
    const isLast = !until && index === firsts.length - 1
    if (index < known.length - 1) await walker.addUnread(segment)
    else await walker.addRead(segment, until?.segments[index]?.size, isLast)
  }
  progress(firsts.length, firsts.length)
  return walker
}

/**
 * Checks every record before a checkpoint. Calls and awaits `rest` between batches.
 * @throws {Corruption} which names the place of the damage
 */
export async function checkUpTo(
  files: Files,
  directory: string,
  until: Pick<Checkpoint, 'journal' | 'next' | 'segments'>,
  rest: (checked: Position) => Promise<void>,
): Promise<void> {
  const { next } = await walk(files, directory, undefined, { until, rest })
  const { position, previous } = until.next
  if (next.position === position && next.previous === previous) return
  throw new Corruption(`${directory}: its records up to position ${position - 1} are not those of the checkpoint.`)
}

class Walker implements Walk {
  id: string | undefined
  readonly segments: Segment[] = []
  time: string
  lastOffset: number | undefined
  torn: Torn | undefined
  readonly #files: Files
  readonly #visit: Visit | undefined
  readonly #options: WalkOptions
  readonly #chain: Chain
  /** The offset of the write of which more records follow; undefined between two writes. */
  #writeOffset: number | undefined
  /** Its records so far. */
  #parts: JournalRecord[] = []

  constructor(files: Files, visit: Visit | undefined, options: WalkOptions) {
    const { from, until } = options
    this.#files = files
    this.#visit = visit
    this.#options = options
    this.#chain = new Chain(from?.next)
    this.id = (from ?? until)?.journal
    this.time = from?.time ?? ''
    this.lastOffset = from?.lastOffset
  }

  get next(): ChainState {
    return this.#chain.next
  }

  /** Adds a segment that the checkpoint describes, unread. */
  async addUnread(segment: Segment): Promise<void> {
    await (await openSegment(this.#files, segment)).close()
    this.segments.push(segment)
  }

  /** Reads a segment from where the checkpoint ends, up to a size or its end. Only the last one may be torn. */
  async addRead(segment: Segment, size: number | undefined, isLast: boolean): Promise<void> {
    const text = await openSegment(this.#files, segment)
    try {
      await this.#readLines(text, segment, size ?? (await text.size()), isLast)
    } finally {
      await text.close()
    }
    this.segments.push(segment)
  }

  async #readLines(text: SegmentText, segment: Segment, size: number, isLast: boolean): Promise<void> {
    const { position } = this.#chain.next
    if (this.#writeOffset !== undefined)
      throw this.#corrupt(text, 0, 'the segment before it ends in the middle of a write')
    let hasHeader = segment.size > 0
    if (!hasHeader && segment.first !== position) {
      throw this.#corrupt(text, 0, `the segment that begins with position ${position} is missing`)
    }
    const reader = new LineReader(text, segment.size, size)
    for await (const lines of reader.read()) {
      for (const line of lines) {
        if (hasHeader) this.#addRecord(text, segment, line)
        else this.#addHeader(text, segment, line)
        hasHeader = true
      }
      await this.#options.rest?.(this.#chain.next.position - 1)
    }
    const { offset, damage } = reader
    if (!hasHeader) throw this.#corrupt(text, 0, DAMAGED_HEADER)
    segment.size = offset
    if (damage !== undefined) {
      const why = isLast && !segment.members ? await this.#whyNotTorn(text, offset, size) : damage
      if (why !== undefined) throw this.#corrupt(text, offset, why)
    }
    await this.#noteTorn(text, segment, size)
  }

  #addHeader(text: SegmentText, segment: Segment, line: ScannedLine): void {
    const { journal, first, previous } = this.#parse(text, 0, () => parseHeader(line.bytes))
    if (journal !== (this.id ?? journal)) {
      throw this.#corrupt(text, 0, `the segment belongs to another journal, ${journal}`)
    }
    if (first !== segment.first || previous !== this.#chain.next.previous) {
      throw this.#corrupt(text, 0, 'the segment does not follow the one before it')
    }
    this.id = journal
    this.lastOffset = undefined
  }

  #addRecord(text: SegmentText, segment: Segment, line: ScannedLine): void {
    const { offset } = line
    const record = this.#parse(text, offset, () => line.record())
    const wrong = this.#chain.add(record, line.crc)
    if (wrong !== undefined) throw this.#corrupt(text, offset, wrong)
    addToIndex(segment, record.position, offset)
    this.lastOffset = offset
    this.#writeOffset ??= offset
    if (this.#visit) this.#parts.push(record)
    if (record.more) return
    this.#visit?.(writeOf(this.#parts))
    this.time = record.time
    this.#writeOffset = undefined
    this.#parts = []
  }

  async #whyNotTorn(text: SegmentText, offset: number, size: number): Promise<string | undefined> {
    // Zeros are compared with whole sectors, so the bytes begin at one.
    const base = offset - (offset % SECTOR)
    const { bytes } = await readText(text, size - base, base)
    const why = whyNotTorn(bytes, offset - base, this.#chain.next.position)
    return why && `the record is damaged: ${why}`
  }

  /** Notes what must be cut off: the torn tail and the incomplete write. */
  async #noteTorn(text: SegmentText, segment: Segment, size: number): Promise<void> {
    const offset = this.#writeOffset ?? segment.size
    if (offset === size) return
    const { bytes } = await readText(text, size - offset, offset)
    this.torn = { segment, offset, bytes, why: this.#writeOffset === undefined ? 'a torn tail' : 'an unfinished write' }
    if (this.#writeOffset === undefined) return
    this.#chain.cutOff()
    this.lastOffset = undefined
    removeFromIndex(segment, offset)
    segment.size = offset
  }

  #parse<T>(text: SegmentText, offset: number, parse: () => T): T {
    try {
      return parse()
    } catch (error) {
      throw this.#corrupt(text, offset, (error as Error).message)
    }
  }

  #corrupt({ path }: SegmentText, offset: number, why: string): Corruption {
    return new Corruption(
      `${path}, offset ${offset}, position ${this.#chain.next.position}: ${why}. Nothing was changed.`,
    )
  }
}

/** The unit of writes to a disk. */
const SECTOR = 512
const PREFIX_SHAPE = `${OPENING}${'0'.repeat(DIGITS)}",`

/**
 * Whether the damage at `offset`, where the record of `position` belongs, can be the remains of the last write batch
 * after a crash (docs/journal.md, "Torn or corrupt"). Undefined: torn. Otherwise the reason why it is corruption.
 */
export function whyNotTorn(bytes: Buffer, offset: number, position: Position): string | undefined {
  // A whole record of a later batch proves that this one was synced, so that the damage is no torn tail.
  for (let at = bytes.indexOf(OPENING, offset + 1); at >= 0; at = bytes.indexOf(OPENING, at + 1)) {
    const found = readFrame(bytes, at)
    if (found.kind === 'whole' && parseRecord(bytes, found).flush > position) {
      return 'a later write batch follows it, so it had been synced'
    }
  }
  const rest = bytes.subarray(offset)
  const damaged = readFrame(bytes, offset)
  const firstZero = rest.indexOf(0)
  // Without zeros, only the end of the batch may be missing.
  if (firstZero < 0) {
    if (damaged.kind !== 'cut') return 'its bytes do not match its checksum'
    if (rest.includes(NEWLINE)) return 'a record is cut off, yet others follow it'
    const begun = rest.toString('latin1', 0, PREFIX_BYTES)
    const completed = begun + PREFIX_SHAPE.slice(begun.length)
    return /^\{"frame":"[0-9a-f]{24}",$/.test(completed) ? undefined : 'it does not begin as a record does'
  }
  // Zeros behind the damaged record do not explain its damage.
  if (damaged.kind !== 'cut' && offset + firstZero >= (damaged.end ?? offset + PREFIX_BYTES))
    return 'its bytes do not match its checksum'
  // Invariant: the zeros before `from` are whole sectors that did not reach the disk.
  for (let from = firstZero; from >= 0 && from < rest.length; ) {
    let to = from
    while (rest[to] === 0) to++
    const begins = from === 0 || (offset + from) % SECTOR === 0
    const ends = to === rest.length || (offset + to) % SECTOR === 0
    if (!begins || !ends) return 'it holds zeros that are not whole sectors'
    from = rest.indexOf(0, to)
  }
  return undefined
}
