import { setImmediate } from 'node:timers/promises'
import type { Checkpoint } from '../events/checkpoint.ts'
import type { Position } from '../events/event.ts'
import type { Draft, Journal, Recorded } from '../events/journal.ts'
import type { Sized } from '../events/segment.ts'
import { JournalMismatch, Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { ClusterFigures } from './figures.ts'
import { LeaderWrites } from './leader-writes.ts'
import { decodeBeginning, encodeBeginning, encodeSuccession, type Succession } from './message.ts'
import type { RecordStream, Sequence } from './record-stream.ts'
import { Replica, type ReplicaOptions } from './replica.ts'
import { Sender } from './sender.ts'
import { findResumePoint, type ResumePoint, Tail } from './tail.ts'

export interface ClusterJournalOptions extends Omit<ReplicaOptions, 'id'> {
  readonly stream: RecordStream
  /** The node's id in successions. */
  readonly node: string
  readonly now: () => Date
  readonly newId: () => string
  readonly figures: ClusterFigures
  /** Whether the disk has room for so many events of so many bytes. */
  readonly hasRoom?: (events: number, bytes: number) => boolean
  /** Called with writes that were received, and awaited before listeners get them. */
  readonly project?: (batch: readonly Recorded[]) => void | Promise<void>
  readonly log?: LimitedLog
  /** This node has lost the leadership: another node leads, or the outcome of a write is unknown. */
  readonly lost: () => void
  /** The stream is not the expected one, or its copy cannot be written: the process must end. */
  readonly failed: (error: unknown) => void
}

/**
 * The journal of a cluster: messages of a stream, which every node follows, verifies and copies to its own disk. All
 * nodes read; only the leader appends, which is the node that called `lead` last. Each message names its predecessor,
 * so an earlier leader cannot append behind the back of a new one.
 */
export class ClusterJournal implements Journal, Sized {
  readonly id: string
  readonly #options: ClusterJournalOptions
  readonly replica: Replica
  readonly #tail: Tail
  readonly #sender: Sender
  readonly #writes: LeaderWrites
  /** Identifies the succession that makes this node the leader, once it is stored. */
  #token: string | undefined
  #isLeading = false

  private constructor(options: ClusterJournalOptions, replica: Replica, resumePoint: ResumePoint) {
    const { stream, figures, now, hasRoom = () => true } = options
    this.id = replica.id
    this.#options = options
    this.replica = replica
    this.#tail = new Tail({
      stream,
      replica,
      resumePoint,
      incoming: (sequence, message) => this.#sender.noteReceived(sequence, message),
      project: options.project,
      log: options.log,
      succeeded: (succession) => this.#processSuccession(succession),
      failed: (error) => {
        options.failed(error)
        this.resign()
      },
    })
    this.#sender = new Sender(stream, this.#tail, figures)
    this.#writes = new LeaderWrites({
      messageBytes: stream.messageBytes,
      sender: this.#sender,
      tail: this.#tail,
      figures,
      now,
      hasRoom: (events) => hasRoom(events, 0),
      hasEnded: (token) => this.#hasEnded(token),
      failed: () => this.resign(),
    })
  }

  /** Opens the node's copy and checks that it belongs to the stream. `begin` then follows the stream. */
  static async open(options: ClusterJournalOptions): Promise<ClusterJournal> {
    const { stream, newId } = options
    const id = await journalIdIn(stream, newId)
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

  get timeMs(): number {
    return this.replica.timeMs
  }

  /** Whether this node may append. */
  get writable(): boolean {
    return this.#isLeading && !this.#tail.unusable
  }

  /** Sequence of the last received message. */
  get sequence(): Sequence {
    return this.#tail.sequence
  }

  follow(listener: (recorded: Recorded) => void): void {
    this.#tail.follow(listener)
  }

  begin(): Promise<void> {
    return this.#tail.begin()
  }

  /** Resolves when everything that the stream held at the call is in the copy and was passed to all listeners. */
  caughtUp(): Promise<void> {
    return this.#tail.caughtUp()
  }

  /** Makes this node the leader, even if other nodes believe that they lead. */
  async lead(): Promise<void> {
    const { node, newId } = this.#options
    await this.#writes.settled()
    for (;;) {
      await this.caughtUp()
      if (this.#tail.unusable) throw this.#tail.unusable
      const token = newId()
      this.#token = token
      const { position, previous } = this.replica.next
      const message = encodeSuccession({ decider: node, token, position, previous })
      const outcome = await this.#sender.send(message, () => this.#hasEnded(token))
      if (outcome === 'stored' && (await this.#tail.receive(this.#sender.sequence, message))) return
      if (this.#token === token) this.#token = undefined
      if (outcome !== 'behind') throw new Refusal('Unavailable', 'The cluster does not respond.')
    }
  }

  /** Ends the leadership and rejects the writes that are not sent yet. */
  resign(): void {
    const wasLeading = this.#isLeading
    this.#isLeading = false
    this.#token = undefined
    this.#writes.rejectQueued()
    if (wasLeading) this.#options.lost()
  }

  append(draft: Draft): Promise<Recorded> {
    if (this.#tail.unusable) return Promise.reject(this.#tail.unusable)
    if (!this.#isLeading) return Promise.reject(new Refusal('Unavailable', 'This node is not the leader.'))
    return this.#writes.append(draft)
  }

  read(from: Position, to: Position = this.head): AsyncIterable<Recorded> {
    return this.replica.read(from, Math.min(to, this.head))
  }

  at(positions: readonly Position[]): AsyncIterable<Recorded> {
    return this.replica.at(positions)
  }

  async close(): Promise<void> {
    await this.#writes.settled()
    await this.#tail.close()
    await this.replica.close()
  }

  #hasEnded(token: string): boolean {
    return this.#token !== token || this.#tail.unusable !== undefined
  }

  #processSuccession({ token }: Succession): Promise<void> | undefined {
    if (token === this.#token) {
      this.#isLeading = true
      this.#options.figures.takeovers++
      this.#writes.begin(token, this.replica)
      return undefined
    }
    this.resign()
    // Writes that this node decided are rejected before those of the other leader become visible.
    return setImmediate()
  }
}

/** The UUID of the journal in the stream; starts one if the stream is empty. */
async function journalIdIn(stream: RecordStream, newId: () => string): Promise<string> {
  for (;;) {
    const beginning = await stream.find(1)
    if (beginning) return decodeBeginning(beginning)
    if ((await stream.publish(encodeBeginning(newId()), 0)) === 'unknown') {
      throw new Refusal('Unavailable', 'The cluster does not respond.')
    }
  }
}
