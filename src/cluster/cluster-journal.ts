import type { Sized } from '../events/bytes-after.ts'
import type { Checkpoint } from '../events/checkpoint.ts'
import type { Position } from '../events/event.ts'
import { type Draft, type Journal, nextTime, type Recorded, recordedOf } from '../events/journal.ts'
import { encodeEvents } from '../events/record-writer.ts'
import { Replica, type ReplicaOptions } from '../events/replica.ts'
import { JournalMismatch, Refusal } from '../runtime/errors.ts'
import type { ClusterFigures } from './figures.ts'
import { decodeBeginning, encodeBeginning, encodeSuccession, type Sequence, type Succession } from './message.ts'
import { type BatchStart, type MessageBatch, MessagePacker, type PendingAppend } from './message-packer.ts'
import type { RecordStream } from './record-stream.ts'
import { findResumePoint, type ResumePoint } from './resume-point.ts'
import { Sender } from './sender.ts'
import { Tail } from './tail.ts'

export interface ClusterJournalOptions extends Omit<ReplicaOptions, 'id'> {
  readonly stream: RecordStream
  /** The node's id in successions. */
  readonly node: string
  readonly now: () => Date
  readonly newId: () => string
  readonly figures: ClusterFigures
  /** Whether the disk has room for so many events of so many bytes. */
  readonly hasRoom?: (events: number, bytes: number) => boolean
  /** Called with writes that were received, and awaited before followers see them. */
  readonly project?: (batch: readonly Recorded[]) => void | Promise<void>
  /** This node has lost the leadership: another node leads, or the outcome of a write is unknown. */
  readonly lost: () => void
  /** The stream is not the expected one, or its copy cannot be written: the process must end. */
  readonly failed: (error: unknown) => void
}

/** How often to check the disk while writes wait to become visible. */
const LOOK_MS = 500

/**
 * The journal of a cluster: messages of a stream, which every node follows, verifies and copies to its own disk. All
 * nodes read; only the leader appends, which is the node that called `lead` last. Each message names its predecessor,
 * so a former leader cannot append behind the back of a new one.
 */
export class ClusterJournal implements Journal, Sized {
  readonly id: string
  readonly #options: ClusterJournalOptions
  /** The node's own copy. */
  readonly replica: Replica
  readonly #packer: MessagePacker
  readonly #tail: Tail
  readonly #sender: Sender
  /** Identifies the succession that makes this node the leader, once it is stored. */
  #token: string | undefined
  #isLeading = false
  /** While this node leads: the position of the last accepted event, and the chain values of the next record. */
  #accepted: Position = 0
  #next: BatchStart
  #time = ''
  #queue: PendingAppend[] = []
  #flushing: Promise<void> | undefined
  #answering: Promise<void> | undefined

  private constructor(options: ClusterJournalOptions, replica: Replica, place: ResumePoint) {
    const { stream } = options
    this.id = replica.id
    this.#options = options
    this.replica = replica
    this.#packer = new MessagePacker(stream.messageBytes)
    this.#next = replica.next
    this.#tail = new Tail({
      stream,
      replica,
      place,
      coming: (sequence, message) => this.#sender.coming(sequence, message),
      project: options.project,
      succeeded: (succession) => this.#succeed(succession),
      failed: (error, unusable) => {
        options.failed(error)
        this.#refuse([], unusable)
      },
    })
    this.#sender = new Sender(stream, this.#tail, options.figures)
  }

  /** Opens the node's copy and checks that it belongs to the stream. `begin` then follows the stream. */
  static async open(options: ClusterJournalOptions): Promise<ClusterJournal> {
    const { stream, newId } = options
    const id = await journalOf(stream, newId)
    const replica = await Replica.open({ ...options, id })
    try {
      if (replica.id !== id) {
        throw new JournalMismatch(
          `The stream holds the journal ${id}, and ${options.directory} is a copy of ${replica.id}. Name the right stream, or another directory with --journal.`,
        )
      }
      return new ClusterJournal(options, replica, await findResumePoint(stream, replica.next, options.directory))
    } catch (error) {
      await replica.close()
      throw error
    }
  }

  bytesAfter(position: Position): number {
    return this.replica.bytesAfter(position)
  }

  /** The position and file offset at the end of the copy. */
  checkpoint(): Checkpoint | undefined {
    return this.replica.checkpoint()
  }

  get head(): Position {
    return this.#tail.head
  }

  /** Whether this node may append. */
  get writable(): boolean {
    return this.#isLeading && !this.#tail.unusable
  }

  /** Sequence of the last received message. */
  get sequence(): Sequence {
    return this.#tail.sequence
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#tail.follow(follower)
  }

  /** Starts to follow the stream. */
  begin(): Promise<void> {
    return this.#tail.begin()
  }

  /** Resolves when everything that the stream held at the call is in the copy and was passed to all followers. */
  caughtUp(): Promise<void> {
    return this.#tail.caughtUp()
  }

  /** Makes this node the leader, even if other nodes believe that they lead. */
  async lead(): Promise<void> {
    const { node, newId } = this.#options
    await this.#settled()
    for (;;) {
      await this.caughtUp()
      if (this.#tail.unusable) throw this.#tail.unusable
      const token = newId()
      this.#token = token
      const { position, previous } = this.replica.next
      const message = encodeSuccession({ decider: node, token, position, previous })
      const came = await this.#sender.send(message, () => this.#isPointless(token))
      if (came === 'stored' && (await this.#tail.receive(this.#sender.sequence, message))) return
      if (this.#token === token) this.#token = undefined
      if (came !== 'behind') throw new Refusal('Unavailable', 'The cluster does not respond.')
    }
  }

  /** Ends the leadership and rejects the writes that are not sent yet. */
  resign(): void {
    this.#isLeading = false
    this.#token = undefined
    this.#refuse([], new Refusal('Unavailable', 'Another node is the leader now.'))
  }

  append(draft: Draft): Promise<Recorded> {
    if (this.#tail.unusable) return Promise.reject(this.#tail.unusable)
    if (!this.#isLeading) return Promise.reject(new Refusal('Unavailable', 'This node is not the leader.'))
    if (draft.expected !== this.#accepted + 1) {
      return Promise.reject(new Refusal('Unavailable', 'The write depends on an earlier one, which failed.'))
    }
    if (!this.#hasRoom(draft.events.length)) return Promise.reject(diskFull())
    const texts = encodeEvents(draft.events)
    if (!this.#packer.fits(draft, texts)) {
      return Promise.reject(
        new Refusal(
          'TooLarge',
          `The cluster accepts no message of more than ${this.#options.stream.messageBytes} bytes.`,
        ),
      )
    }
    this.#accepted += draft.events.length
    return new Promise((resolve, reject) => {
      this.#queue.push({ draft, texts, resolve, reject })
      this.#flushing ??= this.#flushAll()
    })
  }

  read(from: Position, to: Position = this.head): AsyncIterable<Recorded> {
    return this.replica.read(from, Math.min(to, this.head))
  }

  async close(): Promise<void> {
    await this.#settled()
    await this.#tail.close()
    await this.replica.close()
  }

  /** Resolves when no write is in flight. */
  async #settled(): Promise<void> {
    while (this.#flushing) await this.#flushing
    await this.#answering
  }

  /** Sends the next batch while this node applies the previous one. */
  async #flushAll(): Promise<void> {
    // Requests of one turn of the event loop share the first message.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#packer.take(this.#queue, this.#next, (draft) => {
        this.#time = nextTime(this.#time, this.#options.now())
        return recordedOf(draft, this.#time)
      })
      this.#next = batch.next
      this.#options.figures.publishWrites.note(batch.writes.length)
      const taken = await this.#send(batch)
      await this.#answering
      if (taken) this.#answering = this.#answer(batch, taken)
    }
    this.#flushing = undefined
  }

  /**
   * Resolves once the stream holds the batch; `isHere` then resolves with whether this node has it as well. If the
   * batch is not stored, it is rejected, with all writes that were decided on top of it.
   */
  async #send({ messages, writes }: MessageBatch): Promise<{ readonly isHere: Promise<boolean> } | undefined> {
    const token = this.#token
    let isHere = Promise.resolve(true)
    for (const [index, message] of messages.entries()) {
      const came = await this.#sender.send(message, () => this.#isPointless(token))
      if (came === 'stored') {
        isHere = this.#tail.receive(this.#sender.sequence, message)
        continue
      }
      const isLast = index === messages.length - 1
      this.#refuse(
        writes.map(({ waiting }) => waiting),
        came === 'unknown' && isLast ? outcomeUnknown() : new Refusal('Unavailable', 'Another node is the leader now.'),
      )
      return undefined
    }
    return { isHere }
  }

  /**
   * Resolves the writes of a stored batch once this node's store has them. If the disk is full, they fail with
   * OutcomeUnknown (504), and another node may lead.
   */
  async #answer({ writes }: MessageBatch, { isHere }: { readonly isHere: Promise<boolean> }): Promise<void> {
    let looking: NodeJS.Timeout | undefined
    const isFull = new Promise<undefined>((resolve) => {
      looking = setInterval(() => {
        if (!this.#hasRoom(1)) resolve(undefined)
      }, LOOK_MS)
    })
    const isSeen = await Promise.race([isHere, isFull])
    clearInterval(looking)
    if (isSeen === undefined) this.#refuse([], diskFull())
    for (const { waiting, recorded } of writes) {
      if (isSeen) waiting.resolve(recorded)
      else waiting.reject(outcomeUnknown())
    }
  }

  #hasRoom(events: number): boolean {
    return this.#options.hasRoom?.(events, 0) ?? true
  }

  #isPointless(token: string | undefined): boolean {
    return this.#token !== token || this.#tail.unusable !== undefined
  }

  /** Rejects a batch and all writes that were decided on top of it. */
  #refuse(batch: readonly PendingAppend[], why: Refusal): void {
    const queue = this.#queue
    this.#queue = []
    const wasLeading = this.#isLeading
    this.#isLeading = false
    this.#token = undefined
    for (const waiting of batch) waiting.reject(why)
    const notSent = new Refusal('Unavailable', 'The write depends on an earlier one, which failed.')
    for (const waiting of queue) waiting.reject(notSent)
    if (wasLeading) this.#options.lost()
  }

  #succeed({ token }: Succession): Promise<void> | undefined {
    if (token === this.#token) {
      this.#isLeading = true
      this.#options.figures.takeovers++
      this.#accepted = this.head
      this.#next = this.replica.next
      this.#time = this.#tail.time
      return undefined
    }
    this.#refuse([], new Refusal('Unavailable', 'Another node is the leader now.'))
    return new Promise((resolve) => setImmediate(resolve))
  }
}

export function diskFull(): Refusal {
  return new Refusal('DiskFull', 'The disk of this node is full. Nothing was stored; reads continue.')
}

function outcomeUnknown(): Refusal {
  return new Refusal(
    'OutcomeUnknown',
    'The cluster did not respond in time: the write may have been stored, or may still be. A retry with the same Idempotency-Key is stored once.',
  )
}

/** The UUID of the journal in the stream; starts one if the stream is empty. */
async function journalOf(stream: RecordStream, newId: () => string): Promise<string> {
  for (;;) {
    const beginning = await stream.find(1)
    if (beginning) return decodeBeginning(beginning)
    if ((await stream.publish(encodeBeginning(newId()), 0)) === 'unknown') {
      throw new Refusal('Unavailable', 'The cluster does not respond.')
    }
  }
}
