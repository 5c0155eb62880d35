import { JournalMismatch, Refusal } from '../errors.ts'
import type { Sized } from '../events/bytes-after.ts'
import type { Position } from '../events/event.ts'
import { type Draft, type Journal, nextTime, type Recorded, recordedOf } from '../events/journal.ts'
import type { Mark } from '../events/mark.ts'
import { encodeEvents } from '../events/record.ts'
import { Replica, type ReplicaOptions } from '../events/replica.ts'
import { type Batch, Batches, type Beginning, type Waiting } from './batches.ts'
import type { ClusterFigures } from './figures.ts'
import { decodeBeginning, encodeBeginning, encodeSuccession, type Sequence, type Succession } from './message.ts'
import { type Place, placeOf } from './place.ts'
import type { RecordStream } from './record-stream.ts'
import { Sender } from './sender.ts'
import { Tail } from './tail.ts'

export interface ClusterJournalOptions extends Omit<ReplicaOptions, 'id'> {
  readonly stream: RecordStream
  /** What this node is known by in a succession. */
  readonly node: string
  readonly now: () => Date
  readonly newId: () => string
  readonly figures: ClusterFigures
  /** Whether so many events, of so many bytes together, have room where they are read from. */
  readonly hasRoom?: (events: number, bytes: number) => boolean
  /** Waited for when writes are taken in, before anybody is told of them. */
  readonly project?: (batch: readonly Recorded[]) => void | Promise<void>
  /** It decides no longer: another node does, or nobody knows what came of a write. */
  readonly lost: () => void
  /** The stream is not what it was, or the copy of it cannot be written: the process must end. */
  readonly failed: (error: unknown) => void
}

/** How often it is asked, while writes wait to be seen, whether there is room for them. */
const LOOK_MS = 500

/**
 * The journal of a cluster: messages of a stream, which every node follows, checks and copies to its own disk. Any
 * node reads. One at a time appends, the one that `lead` made the decider last: a message names the one that it
 * follows, so that an earlier decider cannot append behind the back of a later one.
 */
export class ClusterJournal implements Journal, Sized {
  readonly id: string
  readonly #options: ClusterJournalOptions
  /** The node's own copy. */
  readonly replica: Replica
  readonly #batches: Batches
  readonly #tail: Tail
  readonly #sender: Sender
  /** Of the succession that makes this node the decider, or is to. */
  #token: string | undefined
  #isLeading = false
  /** Of the last event that was accepted, and what the next record must carry, while this node leads. */
  #accepted: Position = 0
  #next: Beginning
  #time = ''
  #queue: Waiting[] = []
  #flushing: Promise<void> | undefined
  #answering: Promise<void> | undefined

  private constructor(options: ClusterJournalOptions, replica: Replica, place: Place) {
    const { stream } = options
    this.id = replica.id
    this.#options = options
    this.replica = replica
    this.#batches = new Batches(stream.messageBytes)
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

  /** Opens the node's copy and sees that it belongs to the stream; `begin` goes on from there. */
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
      return new ClusterJournal(options, replica, await placeOf(stream, replica.next, options.directory))
    } catch (error) {
      await replica.close()
      throw error
    }
  }

  bytesAfter(position: Position): number {
    return this.replica.bytesAfter(position)
  }

  /** The place in the copy behind its last event. */
  mark(): Mark | undefined {
    return this.replica.mark()
  }

  get head(): Position {
    return this.#tail.head
  }

  /** Whether this node may append. */
  get writable(): boolean {
    return this.#isLeading && !this.#tail.unusable
  }

  /** Of the last message that was taken in. */
  get sequence(): Sequence {
    return this.#tail.sequence
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#tail.follow(follower)
  }

  /** Follows the stream from now on. */
  begin(): Promise<void> {
    return this.#tail.begin()
  }

  /** Resolves when everything that the stream held at the call is in the copy, and every follower had it. */
  caughtUp(): Promise<void> {
    return this.#tail.caughtUp()
  }

  /** Makes this node the one that appends, however many others think that they are. */
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
      if (came !== 'behind') throw new Refusal('Unavailable', 'The cluster does not answer.')
    }
  }

  /** From now on another node may decide: what is not on its way yet is refused. */
  resign(): void {
    this.#isLeading = false
    this.#token = undefined
    this.#refuse([], new Refusal('Unavailable', 'Another node decides now.'))
  }

  append(draft: Draft): Promise<Recorded> {
    if (this.#tail.unusable) return Promise.reject(this.#tail.unusable)
    if (!this.#isLeading) return Promise.reject(new Refusal('Unavailable', 'This node does not decide.'))
    if (draft.expected !== this.#accepted + 1) {
      return Promise.reject(new Refusal('Unavailable', 'The write was decided on another one, which failed.'))
    }
    if (!this.#hasRoom(draft.events.length)) return Promise.reject(diskFull())
    const texts = encodeEvents(draft.events)
    if (!this.#batches.fits(draft, texts)) {
      return Promise.reject(
        new Refusal(
          'TooLarge',
          `The cluster takes no message of more than ${this.#options.stream.messageBytes} bytes.`,
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

  /** Resolves when nothing is on its way any more. */
  async #settled(): Promise<void> {
    while (this.#flushing) await this.#flushing
    await this.#answering
  }

  /** While this node takes in one batch, the next one is on its way. */
  async #flushAll(): Promise<void> {
    // The requests that the event loop reads in one turn share the first message.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#batches.take(this.#queue, this.#next, (draft) => {
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
   * Resolves, when the stream has a batch, with the promise that tells whether this node has it, too. One that is not
   * stored is refused, and all that was decided on it.
   */
  async #send({ messages, writes }: Batch): Promise<{ readonly isHere: Promise<boolean> } | undefined> {
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
        came === 'unknown' && isLast ? outcomeUnknown() : new Refusal('Unavailable', 'Another node decides now.'),
      )
      return undefined
    }
    return { isHere }
  }

  /**
   * Answers the writes of a batch that the stream has, once this node's store has them, too. When the disk is too full for
   * that, they are answered with 504, and another node may decide.
   */
  async #answer({ writes }: Batch, { isHere }: { readonly isHere: Promise<boolean> }): Promise<void> {
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

  /** Refuses a batch and all that was decided on it. */
  #refuse(batch: readonly Waiting[], why: Refusal): void {
    const queue = this.#queue
    this.#queue = []
    const wasLeading = this.#isLeading
    this.#isLeading = false
    this.#token = undefined
    for (const waiting of batch) waiting.reject(why)
    const notSent = new Refusal('Unavailable', 'The write was decided on another one, which failed.')
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
    this.#refuse([], new Refusal('Unavailable', 'Another node decides now.'))
    return new Promise((resolve) => setImmediate(resolve))
  }
}

export function diskFull(): Refusal {
  return new Refusal('DiskFull', 'The disk of this node is full. Nothing was stored; reading goes on.')
}

function outcomeUnknown(): Refusal {
  return new Refusal(
    'OutcomeUnknown',
    'The cluster did not answer in time: the write may have been stored, or may yet be. A retry with the same Idempotency-Key is stored once.',
  )
}

/** The UUID of the stream's journal, which is begun when there is none. */
async function journalOf(stream: RecordStream, newId: () => string): Promise<string> {
  for (;;) {
    const beginning = await stream.find(1)
    if (beginning) return decodeBeginning(beginning)
    if ((await stream.publish(encodeBeginning(newId()), 0)) === 'unknown') {
      throw new Refusal('Unavailable', 'The cluster does not answer.')
    }
  }
}
