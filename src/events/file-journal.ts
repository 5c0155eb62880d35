import { setImmediate } from 'node:timers/promises'
import { isOutOfSpace, type OpenFile } from '../files/files.ts'
import { isOutOfDescriptors, Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { Batch, type Write } from './batch.ts'
import { type OpenDirectory, openDirectory } from './directory.ts'
import type { Position } from './event.ts'
import { type Draft, isLarge, type Journal, JournalFigures, lastPosition, nextTime, type Recorded } from './journal.ts'
import { type EncodedLine, encodeEvents } from './record-writer.ts'
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

interface QueuedWrite extends Write {
  readonly resolve: (recorded: Recorded) => void
  readonly reject: (error: unknown) => void
}

/** Writes that are durable and not published yet. */
interface Flushed {
  readonly writes: readonly QueuedWrite[]
  readonly batch: Batch
}

const DISK_FULL = 'The disk is full. Nothing was stored; reading goes on.'
const STORED_UNSEEN =
  'The disk became full. The journal has the write, and it will be seen when there is room. Sent again without its Idempotency-Key, it would happen twice.'
const TOO_MANY_FILES = 'The server has too many files and connections open to begin a segment. Nothing was stored.'
const CANNOT_WRITE = 'the journal cannot be written, writes are refused'
/** How often to check for space while writes wait for it. */
const LOOK_MS = 500
/** How long a full disk is reported. Clients may wait for the end of the report before they write again. */
const FULL_MS = 5000

/** The journal in a directory of segments; docs/journal.md describes the format and the rules. */
export class FileJournal extends SegmentLog implements Journal, Sized {
  readonly figures = new JournalFigures()
  readonly #options: FileJournalOptions
  #head: Position
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
    // Requests of one turn of the event loop share the first flush.
    await setImmediate()
    let flushed: Flushed | undefined
    while (flushed || this.#queue.length > 0) {
      if (flushed) this.#keep(flushed)
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
    const large = this.#queue.findIndex(({ texts }) => !texts)
    return this.#queue.splice(0, large < 0 ? this.#queue.length : Math.max(1, large))
  }

  /** Undefined if they failed. */
  async #flush(writes: readonly QueuedWrite[]): Promise<Flushed | undefined> {
    try {
      this.#checkRoom(writes)
      if (this.isFull) await this.beginSegment('log')
      const { size } = this
      const time = nextTime(this.time, this.#options.now())
      const batch = new Batch(writes, this.next, time, size)
      const lines = batch.lines()
      const began = performance.now()
      await writeLines(this.file, lines, size, batch.isLarge)
      const { figures } = this
      figures.flushSeconds.note((performance.now() - began) / 1000)
      figures.flushWrites.note(writes.length)
      figures.events += batch.next.position - batch.next.flush
      figures.bytes += batch.end - size
      return { writes, batch }
    } catch (error) {
      await this.#refuse(writes, error)
      return undefined
    }
  }

  /** Waits until readers see a batch. On a full disk, its writes fail with 504 and later ones with 507. */
  async #withRoom(writes: readonly QueuedWrite[], projected: Promise<void>): Promise<void> {
    const looking = setInterval(() => {
      if (this.#hasRoom(1, 0)) return
      for (const { reject } of [...writes, ...this.#inFlight]) reject(new Refusal('OutcomeUnknown', STORED_UNSEEN))
      const refused = this.#queue
      this.#queue = []
      this.#noteFull(refused.length, noRoom())
      const [first] = refused
      if (first) this.#accepted = first.draft.expected - 1
      for (const { reject } of refused) reject(new Refusal('DiskFull', DISK_FULL))
    }, LOOK_MS)
    try {
      await projected
    } finally {
      clearInterval(looking)
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

  /** The next batch follows this one. */
  #keep({ batch }: Flushed): void {
    for (const [at, offset] of batch.starts) this.note(at, offset, batch.end)
    this.advance(batch.next, batch.time)
  }

  async #publish({ writes, batch: { recorded } }: Flushed): Promise<void> {
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
      if (error instanceof Refusal) this.#refuseAll(writes, error)
      else this.#fail(writes, error)
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
    const refused = [...batch, ...this.#queue]
    this.#queue = []
    this.#accepted = this.next.position - 1
    this.#noteFull(refused.length, error)
    for (const write of refused) write.reject(refusal)
  }

  #fail(batch: readonly QueuedWrite[], error: unknown): void {
    this.#options.failed(error)
    this.#refuseAll(
      batch,
      new Refusal('Unavailable', 'The journal cannot be written to any more; the server is ending.'),
    )
  }

  #refuseAll(batch: readonly QueuedWrite[], why: Refusal): void {
    this.#unusable = why
    const refused = [...batch, ...this.#queue]
    this.#queue = []
    for (const write of refused) write.reject(why)
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

function noRoom(): Error {
  const why = 'The disk has no room for the store, from which the journal is read.'
  return Object.assign(new Error(why), { code: 'ENOSPC' })
}

/** Lines are written together until they have this size. */
const WRITE_BYTES = 1024 * 1024
/** Smaller than most lines of a large write, so that it yields after each of them. */
const LARGE_WRITE_BYTES = 256 * 1024

/** Writes lines durably, several at once, without copying all lines of a large write. */
async function writeLines(
  file: OpenFile,
  lines: Iterable<EncodedLine>,
  offset: number,
  isLarge: boolean,
): Promise<void> {
  const together = isLarge ? LARGE_WRITE_BYTES : WRITE_BYTES
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
