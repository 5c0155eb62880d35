import { Corruption, Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import { lastPosition, type Recorded } from '../events/journal.ts'
import type { Copied, Replica } from '../events/replica.ts'
import { isOutOfSpace } from '../files/files.ts'
import { Intake } from './intake.ts'
import { type CheckedLine, decodeContent, type Message, type Sequence, type Succession } from './message.ts'
import type { Place } from './place.ts'
import type { RecordStream } from './record-stream.ts'

export interface TailOptions {
  readonly stream: RecordStream
  readonly replica: Replica
  /** Where the copy ends in the stream. */
  readonly place: Place
  /** Called with the message that comes next, and waited for, before anything is done with it. */
  readonly coming: (sequence: Sequence, message: Message) => Promise<void> | undefined
  /** Called with a succession, and waited for, before anything that follows it is taken in. */
  readonly succeeded: (succession: Succession) => Promise<void> | undefined
  /** Called with a large write, and waited for, before anybody is shown anything of it. */
  readonly project?: ((batch: readonly Recorded[]) => void | Promise<void>) | undefined
  /** The stream is not what it was, or the copy of it cannot be written: nothing more is taken in. */
  readonly failed: (error: unknown, unusable: Refusal) => void
}

/** While the disk is full, the copy is written again after so many milliseconds. */
const FULL_MS = 500

/**
 * Takes in a stream, message by message, each once and in order, whoever brings it: checks it, copies it to the disk
 * and hands the writes that it completes to whoever follows.
 */
export class Tail {
  readonly #options: TailOptions
  readonly #replica: Replica
  readonly #intake = new Intake()
  readonly #followers: ((recorded: Recorded) => void)[] = []
  #sequence: Sequence
  #head: Position
  #time: string
  #following: { close(): Promise<void> } | undefined
  #turn: Promise<void> = Promise.resolve()
  #arrivals: {
    readonly sequence: Sequence
    readonly resolve: () => void
    readonly reject: (error: unknown) => void
  }[] = []
  #unusable: Refusal | undefined

  constructor(options: TailOptions) {
    this.#options = options
    this.#replica = options.replica
    this.#sequence = options.place.sequence
    this.#head = options.replica.next.position - 1
    this.#time = options.replica.time
  }

  /** Of the last message that was taken in. */
  get sequence(): Sequence {
    return this.#sequence
  }

  /** Of the last event that the followers had. */
  get head(): Position {
    return this.#head
  }

  /** Of that event. */
  get time(): string {
    return this.#time
  }

  /** Why nothing is taken in any more. */
  get unusable(): Refusal | undefined {
    return this.#unusable
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#followers.push(follower)
  }

  /** Follows the stream from now on. */
  async begin(): Promise<void> {
    const { stream, place } = this.#options
    const wrong = await this.#takeIn(place.rest)
    if (wrong !== undefined) throw new Corruption(`Message ${this.#sequence} of the stream: ${wrong}.`)
    this.#following = stream.follow(this.#sequence + 1, async (sequence, message) => {
      await this.receive(sequence, message)
    })
  }

  /** Resolves when everything that the stream held at the call is in the copy, and every follower had it. */
  async caughtUp(): Promise<void> {
    const last = await this.#options.stream.last()
    if (this.#sequence >= last) return
    if (this.#unusable) throw this.#unusable
    await new Promise<void>((resolve, reject) => this.#arrivals.push({ sequence: last, resolve, reject }))
  }

  /** Resolves, with whether it was taken in, when that is known. Never throws. */
  async receive(sequence: Sequence, message: Message): Promise<boolean> {
    const taken = this.#turn.then(async () => {
      if (sequence <= this.#sequence || this.#unusable) return
      if (sequence !== this.#sequence + 1) {
        throw new Corruption(`Message ${this.#sequence + 1} of the stream is missing: ${sequence} came after it.`)
      }
      await this.#options.coming(sequence, message)
      await this.#apply(sequence, message)
    })
    this.#turn = taken.catch((error: unknown) => this.#fail(error))
    await this.#turn
    return sequence <= this.#sequence
  }

  async close(): Promise<void> {
    this.#unusable ??= new Refusal('Unavailable', 'The journal is closed.')
    this.#endArrivals(this.#unusable)
    await this.#following?.close()
    await this.#turn
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
      this.#intake.forget()
      await this.#options.succeeded(succession)
    } else {
      const wrong = await this.#takeIn(content.lines)
      if (wrong !== undefined) throw corrupt(wrong)
    }
    this.#sequence = sequence
    this.#arrivals = this.#arrivals.filter((arrival) => {
      if (arrival.sequence <= sequence) arrival.resolve()
      return arrival.sequence > sequence
    })
  }

  /** Says what is wrong with a record; undefined when nothing is. */
  async #takeIn(lines: readonly CheckedLine[]): Promise<string | undefined> {
    const whole = this.#intake.take(lines, this.#replica.next)
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
      this.#time = recorded.time
      this.#head = lastPosition(recorded)
      for (const follower of this.#followers) follower(recorded)
    }
    return undefined
  }

  /** Waits while the disk is full. */
  async #copy(copied: Copied): Promise<void> {
    for (;;) {
      try {
        await this.#replica.write(copied)
        return
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
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
    this.#options.failed(error, this.#unusable)
    this.#endArrivals(this.#unusable)
  }
}
