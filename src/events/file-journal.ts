import { setImmediate } from 'node:timers/promises'
import { isOutOfSpace, type OpenFile } from '../files/files.ts'
import { isOutOfDescriptors, Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { type OpenDirectory, openDirectory } from './directory.ts'
import type { Position } from './event.ts'
import {
  type Draft,
  isLarge,
  type Journal,
  JournalFigures,
  lastPosition,
  nextTime,
  type Recorded,
  recordedOf,
} from './journal.ts'
import type { ChainState } from './record-format.ts'
import { type EncodedLine, type EncodedRecord, encodeEvent, encodeEvents, WriteEncoder } from './record-writer.ts'
import type { Sized } from './segment.ts'
import { SegmentLog, type SegmentLogOptions } from './segment-log.ts'

export interface FileJournalOptions extends SegmentLogOptions {
  readonly now: () => Date
  readonly log: LimitedLog
  /** Called when the content of the disk is unknown: the process must end. */
  readonly failed: (error: unknown) => void
  /** Whether the store has room for so many events of so many bytes; otherwise writes fail like on a full disk. */
  readonly hasRoom?: (events: number, bytes: number) => boolean
  /** Called with durable writes, and awaited before followers see them. */
  readonly project?: (batch: readonly Recorded[]) => void | Promise<void>
}

interface QueuedWrite {
  readonly draft: Draft
  /** Its events as JSON; undefined for a large write, whose events are encoded while they are written. */
  readonly texts: readonly string[] | undefined
  readonly resolve: (recorded: Recorded) => void
  readonly reject: (error: unknown) => void
}

const DISK_FULL = 'The disk is full. Nothing was stored; reading goes on.'
const STORED_UNSEEN =
  'The disk became full. The journal has the write, and it will be seen when there is room. Sent again without its Idempotency-Key, it would happen twice.'
const TOO_MANY_FILES = 'The server has too many files and connections open to begin a segment. Nothing was stored.'
const UNUSABLE = 'The journal cannot be written to any more; the server is ending.'
const CANNOT_WRITE = 'the journal cannot be written, writes are refused'
/** How often to check for space while writes wait for it. */
const SPACE_CHECK_MS = 500
/** How long a full disk is reported. Clients may wait for the end of the report before they write again. */
const FULL_MS = 5000

/**
 * The journal in a directory of segments; docs/journal.md describes the format and the rules.
 *
 * | State | `writable` | An append | A flush | Next state |
 * |---|---|---|---|---|
 * | writable | yes | is queued | writes the queue, then publishes it | full: no space or no descriptor; unusable: any other error |
 * | full | no | is rejected while `hasRoom` is false, otherwise queued | is tried, as space may be free again | writable: after a flush, or FULL_MS; unusable: as above |
 * | unusable | no | is rejected | none | none: the content of the disk is unknown until the journal is opened again |
 *
 * | A write is | Counted by | When it fails |
 * |---|---|---|
 * | queued | `#accepted` | it is rejected with all writes behind it, as these were decided on top of it |
 * | being written | `#accepted` | its bytes are cut off durably and it is rejected with the queue; if that fails, the journal is unusable |
 * | durable | `next` | while the store has no room, it is rejected as `OutcomeUnknown`, stays in the journal, and is published later; if `project` or a follower throws, the journal is unusable |
 * | published | `head` | never: it is resolved |
 */
export class FileJournal extends SegmentLog implements Journal, Sized {
  readonly figures = new JournalFigures()
  readonly #options: FileJournalOptions
  #head: Position
  /** The position of the last queued event. */
  #accepted: Position
  #queue: QueuedWrite[] = []
  /** The writes of the current or last flush. */
  #inFlight: readonly QueuedWrite[] = []
  #flushing: Promise<void> | undefined
  /** When a full disk or missing descriptors are no longer reported. Writes are attempted in any case. */
  #fullUntil = 0
  /** Writes refused since the start. */
  #refused = 0
  #unusable: Refusal | undefined
  readonly #followers: ((recorded: Recorded) => void)[] = []

  private constructor(options: FileJournalOptions, opened: OpenDirectory) {
    super(options, opened)
    this.#options = options
    this.#head = this.next.position - 1
    this.#accepted = this.#head
  }

  static async open(options: FileJournalOptions): Promise<FileJournal> {
    return new FileJournal(options, await openDirectory(options))
  }

  get head(): Position {
    return this.#head
  }

  get writable(): boolean {
    return !this.#unusable && performance.now() >= this.#fullUntil
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#followers.push(follower)
  }

  /**
   * Appends during a flush share the next one. After a failed sync every later append fails: the content of the disk is
   * unknown until the journal is opened again.
   */
  append(draft: Draft): Promise<Recorded> {
    if (this.#unusable) return Promise.reject(this.#unusable)
    if (!this.#hasRoom(draft.events.length, 0)) {
      this.#noteFull(1, noRoom())
      return Promise.reject(new Refusal('DiskFull', DISK_FULL))
    }
    if (draft.expected !== this.#accepted + 1) {
      return Promise.reject(new Refusal('Unavailable', 'The write was decided on another one, which failed.'))
    }
    const texts = isLarge(draft.events) ? undefined : encodeEvents(draft.events)
    this.#accepted += draft.events.length
    return new Promise((resolve, reject) => {
      this.#queue.push({ draft, texts, resolve, reject })
      this.#flushing ??= this.#flushAll()
    })
  }

  async #flushAll(): Promise<void> {
    // Requests of one iteration of the event loop share the first flush.
    await setImmediate()
    let flushed: Batch | undefined
    while (flushed || this.#queue.length > 0) {
      // The batch is durable, and the next one follows it.
      if (flushed) this.advance(flushed)
      const writes = this.#take()
      this.#inFlight = writes
      // The next flush runs while the previous batch is published.
      const flushing = writes.length > 0 ? this.#flush(writes) : undefined
      if (flushed) await this.#publish(flushed)
      flushed = await flushing
    }
    this.#flushing = undefined
  }

  /** The writes of the next flush; a large write is flushed alone. */
  #take(): readonly QueuedWrite[] {
    const large = this.#queue.findIndex(isLargeWrite)
    return this.#queue.splice(0, large < 0 ? this.#queue.length : Math.max(1, large))
  }

  /** Undefined if they failed. */
  async #flush(writes: readonly QueuedWrite[]): Promise<Batch | undefined> {
    try {
      this.#checkRoom(writes)
      if (this.isFull) await this.beginSegment('log')
      const { size } = this
      const time = nextTime(this.time, this.#options.now())
      const batch = new Batch(writes, this.next, time, size)
      const began = performance.now()
      await writeLines(this.file, batch.lines(), size, writes.some(isLargeWrite) ? LARGE_WRITE_BYTES : WRITE_BYTES)
      const { figures } = this
      figures.flushSeconds.note((performance.now() - began) / 1000)
      figures.flushWrites.note(writes.length)
      figures.events += batch.next.position - batch.next.flush
      figures.bytes += batch.end - size
      return batch
    } catch (error) {
      await this.#refuse(writes, error)
      return undefined
    }
  }

  /** Waits until readers see a batch. On a full disk, its writes fail with 504 and later ones with 507. */
  async #withRoom(writes: readonly QueuedWrite[], projected: Promise<void>): Promise<void> {
    const checking = setInterval(() => {
      if (this.#hasRoom(1, 0)) return
      for (const { reject } of [...writes, ...this.#inFlight]) reject(new Refusal('OutcomeUnknown', STORED_UNSEEN))
      const [first] = this.#queue
      if (first) this.#accepted = first.draft.expected - 1
      this.#noteFull(this.#rejectAll([], new Refusal('DiskFull', DISK_FULL)), noRoom())
    }, SPACE_CHECK_MS)
    try {
      await projected
    } finally {
      clearInterval(checking)
    }
  }

  #hasRoom(events: number, bytes: number): boolean {
    return this.#options.hasRoom?.(events, bytes) ?? true
  }

  /** Durable events must be readable as well. */
  #checkRoom(writes: readonly QueuedWrite[]): void {
    let events = 0
    let bytes = 0
    for (const { draft, texts } of writes) {
      events += draft.events.length
      for (const text of texts ?? []) bytes += text.length
    }
    if (!this.#hasRoom(events, bytes)) throw noRoom()
  }

  #noteFull(refused: number, error: unknown): void {
    if (isOutOfSpace(error)) this.figures.refusedForSpace += refused
    this.#fullUntil = performance.now() + FULL_MS
    // Writes whose outcome is unknown are stored, and the store logs that it has no room for them.
    if (refused === 0) return
    this.#refused += refused
    this.#options.log.error({ err: error, path: this.#options.directory, refused: this.#refused }, CANNOT_WRITE)
  }

  async #publish({ writes, recorded }: Batch): Promise<void> {
    if (this.#unusable) {
      // The previous batch could not be published meanwhile.
      for (const { reject } of writes) reject(this.#unusable)
      return
    }
    this.#fullUntil = 0
    const facts = { path: this.#options.directory, refused: this.#refused }
    this.#options.log.recovered(CANNOT_WRITE, facts, 'the journal is written again')
    try {
      const projected = this.#options.project?.(recorded)
      if (projected) await this.#withRoom(writes, projected)
      for (const write of recorded) {
        this.#head = lastPosition(write)
        for (const follower of this.#followers) follower(write)
      }
    } catch (error) {
      this.#fail(writes, error)
      return
    }
    for (const [index, { resolve }] of writes.entries()) resolve(recorded[index] as Recorded)
  }

  /** Rejects a batch and everything decided on top of it. */
  async #refuse(batch: readonly QueuedWrite[], error: unknown): Promise<void> {
    // Without a descriptor no file of a new segment was opened, so nothing of the batch was written.
    const isShortOfFiles = isOutOfDescriptors(error)
    if (!isShortOfFiles && !isOutOfSpace(error)) {
      this.#fail(batch, error)
      return
    }
    try {
      await this.file.truncate(this.size)
      await this.file.sync()
    } catch (second) {
      this.#fail(batch, second)
      return
    }
    const refusal = isShortOfFiles ? new Refusal('Unavailable', TOO_MANY_FILES) : new Refusal('DiskFull', DISK_FULL)
    this.#accepted = this.next.position - 1
    this.#noteFull(this.#rejectAll(batch, refusal), error)
  }

  /** Makes the journal unusable. A `Refusal` is the end of the server while its disk is full, and needs no alarm. */
  #fail(batch: readonly QueuedWrite[], error: unknown): void {
    if (!(error instanceof Refusal)) this.#options.failed(error)
    this.#unusable = error instanceof Refusal ? error : new Refusal('Unavailable', UNUSABLE)
    this.#rejectAll(batch, this.#unusable)
  }

  /** Rejects a batch and the queue behind it. Returns the number of writes. */
  #rejectAll(batch: readonly QueuedWrite[], why: Refusal): number {
    const rejected = [...batch, ...this.#queue]
    this.#queue = []
    for (const { reject } of rejected) reject(why)
    return rejected.length
  }

  override read(from: Position, to: Position = this.#head): AsyncGenerator<Recorded> {
    return super.read(from, Math.min(to, this.#head))
  }

  override async close(): Promise<void> {
    while (this.#flushing) await this.#flushing
    this.#unusable ??= new Refusal('Unavailable', 'The journal is closed.')
    await super.close()
  }
}

function isLargeWrite({ texts }: QueuedWrite): boolean {
  return texts === undefined
}

function noRoom(): Error {
  const why = 'The disk has no room for the store, from which the journal is read.'
  return Object.assign(new Error(why), { code: 'ENOSPC' })
}

/** Lines are written together until they have this size. */
const WRITE_BYTES = 1024 * 1024
/** The lines of a large write are encoded meanwhile, which blocks the event loop for about 2 ms. */
const LARGE_WRITE_BYTES = 512 * 1024

/** Writes lines durably, several at once, without copying all lines of a large write. */
async function writeLines(
  file: OpenFile,
  lines: Iterable<EncodedLine>,
  offset: number,
  together: number,
): Promise<void> {
  let at = offset
  let gathered: Buffer[] = []
  let size = 0
  const write = async (): Promise<void> => {
    await writeWhole(file, gathered.length === 1 ? (gathered[0] as Buffer) : Buffer.concat(gathered, size), at)
    at += size
    gathered = []
    size = 0
  }
  for (const { bytes } of lines) {
    gathered.push(bytes)
    size += bytes.length
    if (size >= together) await write()
  }
  if (size > 0) await write()
}

/** After this many partial writes the disk counts as full. */
const MOST_ATTEMPTS = 10

/**
 * Writes complete records durably. Cuts back partial writes first: otherwise a power loss during the rest could leave
 * zeros in the middle of a record, which is not a torn tail.
 */
async function writeWhole(file: OpenFile, bytes: Buffer, offset: number): Promise<void> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    if ((await file.write(bytes, offset)) === bytes.length) return
    await file.truncate(offset)
    await file.sync()
  }
  throw Object.assign(new Error(`There is no room for ${bytes.length} bytes.`), { code: 'ENOSPC' })
}

/** Writes that become durable together, as lines of a segment. */
class Batch {
  /** The writes whose lines were created. */
  readonly recorded: Recorded[] = []
  /** The offset of each record in the segment. */
  readonly starts: (readonly [Position, number])[] = []
  readonly writes: readonly QueuedWrite[]
  /** The time of all its events. */
  readonly time: string
  /** The chain values, and the end of the segment, after the lines created so far. */
  readonly next: { position: Position; previous: string; readonly flush: Position }
  end: number

  constructor(writes: readonly QueuedWrite[], { position, previous }: ChainState, time: string, end: number) {
    this.writes = writes
    this.time = time
    this.next = { position, previous, flush: position }
    this.end = end
  }

  /** Creates the lines once, one by one, so that those of a large write are never in memory all at once. */
  *lines(): Generator<EncodedLine> {
    for (const { draft, texts } of this.writes) {
      const encoder = new WriteEncoder({ ...this.next, time: this.time }, draft)
      let index = 0
      for (const event of draft.events) {
        const record = encoder.add(texts?.[index++] ?? encodeEvent(event))
        if (record) yield this.#noted(record)
      }
      yield this.#noted(encoder.end())
      this.recorded.push(recordedOf(draft, this.time))
      this.next.position += draft.events.length
    }
  }

  #noted(record: EncodedRecord): EncodedRecord {
    this.starts.push([record.position, this.end])
    this.end += record.bytes.length
    this.next.previous = record.crc
    return record
  }
}
