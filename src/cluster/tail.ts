import type { Position } from '../events/event.ts'
import { lastPosition, type Recorded } from '../events/journal.ts'
import type { ChainState } from '../events/record-format.ts'
import type { RecordLine } from '../events/record-reader.ts'
import { isOutOfSpace } from '../files/files.ts'
import { Corruption, isOutOfDescriptors, JournalMismatch, Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { decodeContent, type Succession, WriteAssembler } from './message.ts'
import type { Message, RecordStream, Sequence } from './record-stream.ts'
import type { Copied, Replica } from './replica.ts'
import { lastMessageUpTo } from './stream-source.ts'

interface TailOptions {
  readonly stream: RecordStream
  readonly replica: Replica
  /** The end of the copy in the stream. */
  readonly resumePoint: ResumePoint
  /** Called with each message, and awaited, before it is processed. */
  readonly incoming: (sequence: Sequence, message: Message) => Promise<void> | undefined
  /** Called with each succession, and awaited, before later messages are processed. */
  readonly succeeded: (succession: Succession) => Promise<void> | undefined
  /** Called with complete writes, and awaited, before listeners get them. */
  readonly project?: ((batch: readonly Recorded[]) => void | Promise<void>) | undefined
  readonly log: LimitedLog | undefined
  /** The stream is not the expected one, or its copy cannot be written: processing has stopped. */
  readonly failed: (error: unknown) => void
}

/**
 * Processes the messages of a stream, each once and in order, from whichever source: verifies them, copies them to disk
 * and passes complete writes to the listeners.
 */
export class Tail {
  readonly #options: TailOptions
  readonly #replica: Replica
  readonly #assembler: WriteAssembler
  readonly #listeners: ((recorded: Recorded) => void)[] = []
  #sequence: Sequence
  #head: Position
  #following: { close(): Promise<void> } | undefined
  #processing: Promise<void> = Promise.resolve()
  #arrivals: {
    readonly sequence: Sequence
    readonly resolve: () => void
    readonly reject: (error: unknown) => void
  }[] = []
  #unusable: Refusal | undefined

  constructor(options: TailOptions) {
    this.#options = options
    this.#replica = options.replica
    this.#assembler = new WriteAssembler(options.replica.next)
    this.#sequence = options.resumePoint.sequence
    this.#head = options.replica.next.position - 1
  }

  /** Sequence of the last processed message. */
  get sequence(): Sequence {
    return this.#sequence
  }

  /** Position of the last event passed to the listeners. */
  get head(): Position {
    return this.#head
  }

  /** The reason why processing has stopped. */
  get unusable(): Refusal | undefined {
    return this.#unusable
  }

  follow(listener: (recorded: Recorded) => void): void {
    this.#listeners.push(listener)
  }

  /** Starts to follow the stream. */
  async begin(): Promise<void> {
    const { stream, resumePoint } = this.#options
    const wrong = await this.#process(resumePoint.rest)
    if (wrong !== undefined) throw new Corruption(`Message ${this.#sequence} of the stream: ${wrong}.`)
    this.#following = stream.follow(this.#sequence + 1, async (sequence, message) => {
      await this.receive(sequence, message)
    })
  }

  /** Resolves when everything that the stream held at the call is in the copy and was passed to all listeners. */
  async caughtUp(): Promise<void> {
    const last = await this.#options.stream.last()
    if (this.#sequence >= last) return
    if (this.#unusable) throw this.#unusable
    await new Promise<void>((resolve, reject) => this.#arrivals.push({ sequence: last, resolve, reject }))
  }

  /** Resolves with whether the message was processed. Never throws. */
  async receive(sequence: Sequence, message: Message): Promise<boolean> {
    const taken = this.#processing.then(async () => {
      if (sequence <= this.#sequence || this.#unusable) return
      if (sequence !== this.#sequence + 1) {
        throw new Corruption(`Message ${this.#sequence + 1} of the stream is missing: ${sequence} came after it.`)
      }
      await this.#options.incoming(sequence, message)
      await this.#apply(sequence, message)
    })
    this.#processing = taken.catch((error: unknown) => this.#fail(error))
    await this.#processing
    return sequence <= this.#sequence
  }

  async close(): Promise<void> {
    this.#unusable ??= new Refusal('Unavailable', 'The journal is closed.')
    this.#endArrivals(this.#unusable)
    await this.#following?.close()
    await this.#processing
  }

  async #apply(sequence: Sequence, message: Message): Promise<void> {
    const corrupt = (why: string) =>
      new Corruption(`Message ${sequence} of the stream, position ${this.#replica.next.position}: ${why}.`)
    let content: ReturnType<typeof decodeContent>
    try {
      content = decodeContent(message)
    } catch (error) {
      throw corrupt((error as Error).message)
    }
    if (content.kind === 'succession') {
      const { position, previous } = this.#replica.next
      const { succession } = content
      if (succession.position !== position || succession.previous !== previous) {
        throw corrupt(`a node took over at position ${succession.position}, which is not the end`)
      }
      this.#assembler.dropIncomplete()
      await this.#options.succeeded(succession)
    } else {
      const wrong = await this.#process(content.lines)
      if (wrong !== undefined) throw corrupt(wrong)
    }
    this.#sequence = sequence
    this.#arrivals = this.#arrivals.filter((arrival) => {
      if (arrival.sequence <= sequence) arrival.resolve()
      return arrival.sequence > sequence
    })
  }

  /** Returns the rule that a record breaks; undefined if all are valid. */
  async #process(lines: readonly RecordLine[]): Promise<string | undefined> {
    const whole = this.#assembler.addLines(lines)
    if (typeof whole === 'string') return whole
    if (whole.writes.length === 0) return undefined
    await this.#copy({
      lines: whole.lines.map(({ bytes, record }) => ({ bytes, position: record.position })),
      next: whole.next,
      time: whole.writes.at(-1)?.time ?? '',
    })
    const projected = this.#options.project?.(whole.writes)
    if (projected) await projected
    for (const recorded of whole.writes) {
      this.#head = lastPosition(recorded)
      for (const listener of this.#listeners) listener(recorded)
    }
    return undefined
  }

  /** Retries while the disk is full, or while there is no file descriptor for a new segment. */
  async #copy(copied: Copied): Promise<void> {
    for (;;) {
      try {
        await this.#replica.write(copied)
        this.#options.log?.recovered(CANNOT_WRITE, {}, 'the copy of the journal is written again')
        return
      } catch (error) {
        if (!isOutOfSpace(error) && !isOutOfDescriptors(error)) throw error
        this.#options.log?.error({ err: error }, CANNOT_WRITE)
      }
      await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS))
      if (this.#unusable) throw this.#unusable
    }
  }

  #endArrivals(why: Refusal): void {
    const arrivals = this.#arrivals
    this.#arrivals = []
    for (const { reject } of arrivals) reject(why)
  }

  #fail(error: unknown): void {
    if (this.#unusable) return
    this.#unusable = new Refusal('Unavailable', 'The journal cannot be followed any more; the server is ending.')
    this.#options.failed(error)
    this.#endArrivals(this.#unusable)
  }
}

/** How often to retry writing the copy while the disk is full or the process has no file descriptor left. */
const FULL_MS = 500
const CANNOT_WRITE = 'the copy of the journal cannot be written, this node waits'

export interface ResumePoint {
  /** Sequence of the message that holds the last record of the copy. */
  readonly sequence: Sequence
  /** The lines of that message after this record. */
  readonly rest: readonly RecordLine[]
}

/**
 * Finds where in the stream a copy ends.
 * @throws {JournalMismatch} when the stream does not continue the copy.
 */
export async function findResumePoint(stream: RecordStream, next: ChainState, directory: string): Promise<ResumePoint> {
  if (next.position === 1) return { sequence: 1, rest: [] }
  const head = next.position - 1
  const sequence = await lastMessageUpTo(stream, head)
  const message = sequence > 1 ? await stream.find(sequence) : undefined
  const content = message && decodeContent(message)
  const lines = content?.kind === 'records' ? content.lines : []
  const index = lines.findIndex(({ record }) => lastPosition(record) === head)
  const line = lines[index]
  if (line === undefined) {
    throw new JournalMismatch(
      `${directory} is a copy of the stream up to position ${head}, and the stream ends before that: it has lost events. Every other node may hold them, too: see docs/cluster.md, "When the stream lost events".`,
    )
  }
  if (line.crc !== next.previous) {
    throw new JournalMismatch(
      `${directory} is no copy of the stream: they differ at position ${head}. Name the right stream, or another directory with --journal.`,
    )
  }
  return { sequence, rest: lines.slice(index + 1) }
}
