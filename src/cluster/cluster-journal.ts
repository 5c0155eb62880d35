import { setTimeout as delay } from 'node:timers/promises'
import { Corruption, JournalMismatch, Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import { type Draft, type Journal, lastPosition, nextTime, type Recorded } from '../events/journal.ts'
import type { Mark } from '../events/mark.ts'
import { encodeEvent } from '../events/record.ts'
import { Replica, type ReplicaOptions } from '../events/replica.ts'
import { Batches, type Waiting } from './batches.ts'
import { Intake } from './intake.ts'
import {
  type CheckedLine,
  decodeBeginning,
  decodeContent,
  encodeBeginning,
  encodeSuccession,
  type Message,
  type Sequence,
  type Succession,
} from './message.ts'
import { type Place, placeOf } from './place.ts'
import type { RecordStream } from './record-stream.ts'

export interface ClusterJournalOptions extends Omit<ReplicaOptions, 'id'> {
  readonly stream: RecordStream
  /** What this node is known by in a succession. */
  readonly node: string
  readonly now: () => Date
  readonly newId: () => string
  /** It decides no longer: another node does, or nobody knows what came of a write. */
  readonly lost: () => void
  /** The stream is not what it was, or the copy of it cannot be written: the process must end. */
  readonly failed: (error: unknown) => void
}

/** So long a write that got no answer is tried again; then nobody knows what came of it. */
const GIVE_UP_MS = 10_000
const RETRY_MS = 200

/**
 * The journal of a cluster: messages of a stream, which every node follows, checks and copies to its own disk. Any
 * node reads. One at a time appends, the one that `lead` made the decider last: a message names the one that it
 * follows, so that an earlier decider cannot append behind the back of a later one.
 */
export class ClusterJournal implements Journal {
  readonly id: string
  readonly #options: ClusterJournalOptions
  /** The node's own copy. */
  readonly replica: Replica
  readonly #batches: Batches
  readonly #intake = new Intake()
  readonly #followers: ((recorded: Recorded) => void)[] = []
  /** Of the last message that was taken in. */
  #sequence: Sequence
  #head: Position
  #time: string
  /** Of the message at which the copy ended: what it did not hold yet. */
  readonly #rest: readonly CheckedLine[]
  #tail: { close(): Promise<void> } | undefined
  #turn: Promise<void> = Promise.resolve()
  #arrivals: {
    readonly sequence: Sequence
    readonly resolve: () => void
    readonly reject: (error: unknown) => void
  }[] = []
  /** The message that is on its way, and where it must arrive. */
  #sent:
    | { readonly sequence: Sequence; readonly message: Message; readonly arrived: (isOurs: boolean) => void }
    | undefined
  /** Of the succession that makes this node the decider, or is to. */
  #token: string | undefined
  #isLeading = false
  #accepted: Position = 0
  #queue: Waiting[] = []
  #flushing: Promise<void> | undefined
  #unusable: Refusal | undefined

  private constructor(options: ClusterJournalOptions, replica: Replica, { sequence, rest }: Place) {
    this.id = replica.id
    this.#options = options
    this.replica = replica
    this.#batches = new Batches(options.stream.messageBytes)
    this.#sequence = sequence
    this.#rest = rest
    this.#head = replica.next.position - 1
    this.#time = replica.time
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

  /** The place in the copy behind the last event that the followers had. */
  mark(): Mark | undefined {
    return this.replica.next.position === this.#head + 1 ? this.replica.mark() : undefined
  }

  get head(): Position {
    return this.#head
  }

  /** Whether this node may append. */
  get writable(): boolean {
    return this.#isLeading && !this.#unusable
  }

  /** Of the last message that was taken in. */
  get sequence(): Sequence {
    return this.#sequence
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#followers.push(follower)
  }

  /** Follows the stream from now on. */
  async begin(): Promise<void> {
    const wrong = await this.#takeIn(this.#rest)
    if (wrong !== undefined) throw new Corruption(`Message ${this.#sequence} of the stream: ${wrong}.`)
    this.#tail = this.#options.stream.follow(this.#sequence + 1, (sequence, message) =>
      this.#receive(sequence, message),
    )
  }

  /** Resolves when everything that the stream held at the call is in the copy, and every follower had it. */
  async caughtUp(): Promise<void> {
    const last = await this.#options.stream.last()
    if (this.#sequence >= last) return
    if (this.#unusable) throw this.#unusable
    await new Promise<void>((resolve, reject) => this.#arrivals.push({ sequence: last, resolve, reject }))
  }

  /** Makes this node the one that appends, however many others think that they are. */
  async lead(): Promise<void> {
    const { node, newId } = this.#options
    while (this.#flushing) await this.#flushing
    for (;;) {
      await this.caughtUp()
      if (this.#unusable) throw this.#unusable
      const token = newId()
      this.#token = token
      const { position, previous } = this.replica.next
      const came = await this.#send(encodeSuccession({ decider: node, token, position, previous }))
      if (came === 'stored') return
      if (this.#token === token) this.#token = undefined
      if (came === 'unknown') throw new Refusal('Unavailable', 'The cluster does not answer.')
    }
  }

  /** From now on another node may decide: what is not on its way yet is refused. */
  resign(): void {
    this.#isLeading = false
    this.#token = undefined
    this.#refuse([], new Refusal('Unavailable', 'Another node decides now.'))
  }

  append(draft: Draft): Promise<Recorded> {
    if (this.#unusable) return Promise.reject(this.#unusable)
    if (!this.#isLeading) return Promise.reject(new Refusal('Unavailable', 'This node does not decide.'))
    if (draft.expected !== this.#accepted + 1) {
      return Promise.reject(new Refusal('Unavailable', 'The write was decided on another one, which failed.'))
    }
    const texts = draft.events.map(encodeEvent)
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

  read(from: Position, to: Position = this.#head): AsyncIterable<Recorded> {
    return this.replica.read(from, Math.min(to, this.#head))
  }

  async close(): Promise<void> {
    while (this.#flushing) await this.#flushing
    this.#unusable ??= new Refusal('Unavailable', 'The journal is closed.')
    this.#endArrivals(this.#unusable)
    await this.#tail?.close()
    await this.#turn
    await this.replica.close()
  }

  async #flushAll(): Promise<void> {
    // The requests that the event loop reads in one turn share the first message.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      const batch = this.#batches.take(this.#queue, this.replica.next, (draft) => {
        this.#time = nextTime(this.#time, this.#options.now())
        const { expected, ...rest } = draft
        return { position: expected, time: this.#time, ...rest }
      })
      for (const [index, message] of batch.messages.entries()) {
        const came = await this.#send(message)
        if (came === 'stored') continue
        const isLast = index === batch.messages.length - 1
        this.#refuse(
          batch.writes.map(({ waiting }) => waiting),
          came === 'unknown' && isLast ? outcomeUnknown() : new Refusal('Unavailable', 'Another node decides now.'),
        )
        break
      }
      for (const { waiting, recorded } of batch.writes) waiting.resolve(recorded)
    }
    this.#flushing = undefined
  }

  /** Appends a message behind the last one. 'behind': another one is in its place. */
  async #send(message: Message): Promise<'stored' | 'behind' | 'unknown'> {
    const { stream } = this.#options
    const sequence = this.#sequence + 1
    const token = this.#token
    const deadline = performance.now() + GIVE_UP_MS
    let arrived: boolean | undefined
    const arrival = new Promise<void>((resolve) => {
      this.#sent = {
        sequence,
        message,
        arrived: (isOurs) => {
          arrived = isOurs
          resolve()
        },
      }
    })
    const came = (): boolean | undefined => arrived
    try {
      while (came() === undefined) {
        const answer = await Promise.race([stream.publish(message, sequence - 1), arrival])
        if (came() !== undefined) break
        if (answer === 'stored') await this.#receive(sequence, message)
        if (answer === 'behind') {
          const there = await stream.find(sequence).catch(() => undefined)
          if (there) await this.#receive(sequence, there)
        }
        if (came() !== undefined) break
        await Promise.race([delay(RETRY_MS), arrival])
        const isGivenUp = performance.now() > deadline || this.#token !== token || this.#unusable !== undefined
        if (came() === undefined && isGivenUp) return 'unknown'
      }
      return came() ? 'stored' : 'behind'
    } finally {
      this.#sent = undefined
    }
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

  /** In order, whoever brings a message: the stream, or the answer to having sent it. */
  #receive(sequence: Sequence, message: Message): Promise<void> {
    const taken = this.#turn.then(async () => {
      if (sequence <= this.#sequence || this.#unusable) return
      await this.#check(sequence, message)
      await this.#apply(sequence, message)
    })
    this.#turn = taken.catch((error: unknown) => this.#fail(error))
    return this.#turn
  }

  async #check(sequence: Sequence, message: Message): Promise<void> {
    if (sequence !== this.#sequence + 1) {
      throw new Corruption(`Message ${this.#sequence + 1} of the stream is missing: ${sequence} came after it.`)
    }
    const sent = this.#sent
    if (sent?.sequence !== sequence) return
    const isOurs = Buffer.from(sent.message.bytes).equals(message.bytes)
    if (isOurs) return
    this.#token = undefined
    sent.arrived(false)
    // What was decided here is refused before what was decided elsewhere is seen.
    await new Promise<void>((resolve) => setImmediate(resolve))
  }

  async #apply(sequence: Sequence, message: Message): Promise<void> {
    const corrupt = (why: string) =>
      new Corruption(`Message ${sequence} of the stream, position ${this.replica.next.position}: ${why}.`)
    let content: ReturnType<typeof decodeContent>
    try {
      content = decodeContent(message)
    } catch (error) {
      throw corrupt((error as Error).message)
    }
    if (content.kind === 'succession') await this.#succeed(content.succession, corrupt)
    else {
      const wrong = await this.#takeIn(content.lines)
      if (wrong !== undefined) throw corrupt(wrong)
    }
    this.#sequence = sequence
    if (this.#sent?.sequence === sequence) this.#sent.arrived(true)
    this.#arrivals = this.#arrivals.filter((arrival) => {
      if (arrival.sequence <= sequence) arrival.resolve()
      return arrival.sequence > sequence
    })
  }

  async #succeed(succession: Succession, corrupt: (why: string) => Corruption): Promise<void> {
    const { position, previous } = this.replica.next
    if (succession.position !== position || succession.previous !== previous) {
      throw corrupt(`a node took over at position ${succession.position}, which is not the end`)
    }
    this.#intake.forget()
    if (succession.token === this.#token) {
      this.#isLeading = true
      this.#accepted = this.#head
      return
    }
    this.#refuse([], new Refusal('Unavailable', 'Another node decides now.'))
    await new Promise<void>((resolve) => setImmediate(resolve))
  }

  /** Says what is wrong with a record; undefined when nothing is. */
  async #takeIn(lines: readonly CheckedLine[]): Promise<string | undefined> {
    const whole = this.#intake.take(lines, this.replica.next)
    if (typeof whole === 'string') return whole
    if (whole.writes.length === 0) return undefined
    await this.replica.write({
      lines: whole.lines.map(({ bytes, record }) => ({ bytes, position: record.position })),
      next: whole.next,
      time: whole.writes.at(-1)?.time ?? '',
    })
    for (const recorded of whole.writes) {
      this.#time = recorded.time
      this.#head = lastPosition(recorded)
      for (const follower of this.#followers) follower(recorded)
    }
    return undefined
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
    this.#refuse([], this.#unusable)
    this.#endArrivals(this.#unusable)
  }
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
