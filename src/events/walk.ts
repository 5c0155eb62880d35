import { directoryOf, type Files } from '../files/files.ts'
import { Corruption } from '../runtime/errors.ts'
import { Chain, writeOf } from './chain.ts'
import type { Checkpoint } from './checkpoint.ts'
import { type Damage, damageText, JournalDamage, REPAIR_ADVICE } from './damage.ts'
import type { Position } from './event.ts'
import type { Recorded } from './journal.ts'
import { type ChainState, DIGITS, type JournalRecord, NEWLINE, OPENING, PREFIX_BYTES } from './record-format.ts'
import {
  findRecord,
  LineReader,
  parseRecord,
  readFrame,
  readHeader,
  type ScannedLine,
  UnknownFormat,
} from './record-reader.ts'
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
  /** The chain values at the position `passing` of the options; undefined if no record begins there. */
  readonly passed: ChainState | undefined
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
  /** Where to end. */
  readonly until?: Pick<Checkpoint, 'journal' | 'next' | 'segments'>
  /** The position whose chain values are `passed`. */
  readonly passing?: Position
  /** Called and awaited between batches. */
  readonly rest?: (checked: Position) => Promise<void>
  /**
   * Called with each damaged place, after which the walk continues. Undefined: the first one is thrown. `before` has the
   * chain values at the beginning of its segment; undefined if they are damaged, too.
   */
  readonly damaged?: (damage: Damage, segment: Segment, before: ChainState | undefined) => void
}

/**
 * Reads a journal's directory from the first segment to the last and verifies every line (docs/journal.md, J14);
 * `visit` gets every complete write, in order. Changes nothing.
 * @throws {JournalDamage} for damage that a crash cannot have caused, with segment, offset and position.
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
    const isLast = index === firsts.length - 1
    if (index < known.length - 1) await walker.addUnread(segment)
    else await walker.addRead(segment, until?.segments[index]?.size, isLast)
  }
  progress(firsts.length, firsts.length)
  walker.end()
  return walker
}

/**
 * Checks every record before a checkpoint. Calls and awaits `rest` between batches, and `damaged` with each damaged place.
 * @throws {Corruption} if the records are other ones than the checkpoint describes
 */
export async function checkUpTo(
  files: Files,
  directory: string,
  until: Pick<Checkpoint, 'journal' | 'next' | 'segments'>,
  { rest, damaged }: Required<Pick<WalkOptions, 'rest' | 'damaged'>>,
): Promise<void> {
  const { next } = await walk(files, directory, undefined, { until, rest, damaged })
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
  passed: ChainState | undefined
  readonly #files: Files
  readonly #visit: Visit | undefined
  readonly #options: WalkOptions
  readonly #chain: Chain
  /** The offset of the write of which more records follow; undefined between two writes. */
  #writeOffset: number | undefined
  /** Its records so far. */
  #parts: JournalRecord[] = []
  /** The chain values at the beginning of the segment; undefined if the end of the one before is damaged. */
  #before: ChainState | undefined
  /** Damage whose end is not found yet. The chain values are unknown until then. */
  #open: OpenDamage | undefined

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

  /** Adds a segment that the checkpoint describes, unread. Its damage is found later. */
  async addUnread(segment: Segment): Promise<void> {
    this.segments.push(segment)
    try {
      await (await openSegment(this.#files, segment)).close()
    } catch (error) {
      if (!(error instanceof JournalDamage)) throw error
    }
  }

  /** Reads a segment from where the checkpoint ends, up to a size or its end. Only the last one may be torn. */
  async addRead(segment: Segment, knownSize: number | undefined, isLast: boolean): Promise<void> {
    const { position } = this.#chain.next
    this.#before = this.#open ? undefined : this.#chain.next
    if (!this.#open && segment.size === 0 && segment.first > position) {
      const missing = segmentAt(directoryOf(segment.path), position, 0)
      const why = `the segment that begins with position ${position} is missing`
      this.#lose(missing, { path: missing.path, offset: 0, why })
      this.#before = undefined
    }
    this.segments.push(segment)
    let text: SegmentText | undefined
    try {
      text = await openSegment(this.#files, segment)
      const size = isLast && knownSize !== undefined ? knownSize : Math.max(knownSize ?? 0, await text.size())
      await this.#readText(text, segment, size, isLast && !this.#options.until)
    } catch (error) {
      // The file is missing or unreadable as a whole.
      if (!(error instanceof JournalDamage) || text) throw error
      this.#lose(segment, error.damage)
    } finally {
      await text?.close()
    }
  }

  /** Damage that extends to the end of what is read ends there. */
  end(): void {
    if (this.#open) this.#resume(this.#options.until?.next)
  }

  async #readText(text: SegmentText, segment: Segment, size: number, isAtEnd: boolean): Promise<void> {
    let from = segment.size > 0 ? segment.size : await this.#readHeader(text, segment, size)
    // Invariant: everything before `from` was read or reported as damage.
    while (from !== undefined) {
      const wrong = await this.#readLines(text, segment, from, size)
      const { offset } = wrong
      segment.size = offset
      const mayBeTorn = isAtEnd && !segment.members && wrong.why !== undefined
      const why = mayBeTorn ? await this.#whyNotTorn(text, offset, size) : wrong.why
      if (why === undefined) break
      this.#lose(segment, { path: text.path, offset, why })
      from = await this.#resumeIn(text, offset, size)
    }
    if (isAtEnd && !this.#open) await this.#noteTorn(text, segment, size)
  }

  /** Returns the offset of the first record; undefined if no record can be read. */
  async #readHeader(text: SegmentText, segment: Segment, size: number): Promise<number | undefined> {
    const { path } = text
    const header = await readHeader(text).catch((error: Error) => {
      if (error instanceof UnknownFormat) throw this.#refused(path, 0, error)
      return error.message
    })
    if (typeof header === 'string') {
      this.#lose(segment, { path, offset: 0, why: header })
      return this.#resumeIn(text, 0, size)
    }
    const { journal, first, previous, end } = header
    if (journal !== (this.id ?? journal)) {
      this.#lose(segment, { path, offset: 0, why: `the segment belongs to another journal, ${journal}` })
      return undefined
    }
    this.id = journal
    this.lastOffset = undefined
    if (first === segment.first && this.#open) this.#resume({ position: first, previous, flush: first })
    const { next } = this.#chain
    const why = this.#writeOffset !== undefined ? 'the segment before it ends in the middle of a write' : NOT_NEXT
    if (why === NOT_NEXT && first === segment.first && first === next.position && previous === next.previous) return end
    this.#lose(segment, { path, offset: 0, why })
    return this.#resumeIn(text, 0, size)
  }

  /** Returns where reading ended, and why if that is not the end. */
  async #readLines(text: SegmentText, segment: Segment, from: number, size: number): Promise<Stop> {
    const reader = new LineReader(text, from, size)
    for await (const lines of reader.read()) {
      for (const line of lines) {
        const why = this.#addRecord(text, segment, line)
        if (why !== undefined) return { offset: line.offset, why }
      }
      await this.#options.rest?.(this.#chain.next.position - 1)
    }
    return { offset: reader.offset, why: reader.damage }
  }

  /** Returns the rule that the record breaks; undefined if it was added. */
  #addRecord({ path }: SegmentText, segment: Segment, line: ScannedLine): string | undefined {
    const { offset } = line
    let record: JournalRecord
    try {
      record = line.record()
    } catch (error) {
      throw this.#refused(path, offset, error as Error)
    }
    const wrong = this.#chain.add(record, line.crc)
    if (wrong !== undefined) return wrong
    if (this.#chain.next.position === this.#options.passing) this.passed = this.#chain.next
    addToIndex(segment, record.position, offset)
    this.lastOffset = offset
    this.#writeOffset ??= offset
    if (this.#visit) this.#parts.push(record)
    if (record.more) return undefined
    this.#visit?.(writeOf(this.#parts))
    this.time = record.time
    this.#writeOffset = undefined
    this.#parts = []
    return undefined
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

  /** Begins damage at the place, or throws. Earlier damage then ends where the segment begins. */
  #lose(segment: Segment, { path, offset, why }: Pick<Damage, 'path' | 'offset' | 'why'>): void {
    const position = this.#open ? segment.first : this.#chain.next.position
    const place = { path, offset, position, why }
    if (!this.#options.damaged)
      throw new JournalDamage({ ...place, next: undefined }, `Nothing was changed. ${REPAIR_ADVICE}`)
    if (this.#open)
      this.#options.damaged({ ...this.#open.place, next: segment.first }, this.#open.segment, this.#open.before)
    this.#open = { place, segment, before: this.#before }
    this.#writeOffset = undefined
    this.#parts = []
  }

  /** Finds the record with which reading continues after damage, and returns its offset; undefined if there is none. */
  async #resumeIn(text: SegmentText, offset: number, size: number): Promise<number | undefined> {
    const position = this.#open?.place.position ?? 0
    const found = await findRecord(
      text,
      offset,
      size,
      (record, at) => record.position > position || (record.position === position && at > offset),
    )
    if (found) this.#resume(found.record)
    return found?.offset
  }

  #resume(next: ChainState | undefined): void {
    if (!this.#open) return
    const { place, segment, before } = this.#open
    this.#open = undefined
    this.#options.damaged?.({ ...place, next: next?.position }, segment, before)
    if (next) this.#chain.resume({ position: next.position, previous: next.previous, flush: next.flush })
  }

  #refused(path: string, offset: number, { message }: Error): Corruption {
    return new Corruption(
      `${damageText({ path, offset, position: this.#chain.next.position, why: message })}. Nothing was changed.`,
    )
  }
}

interface Stop {
  readonly offset: number
  readonly why: string | undefined
}

interface OpenDamage {
  readonly place: Omit<Damage, 'next'>
  readonly segment: Segment
  readonly before: ChainState | undefined
}

const NOT_NEXT = 'the segment does not follow the one before it'

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
