import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import type { ClusterFigures } from './figures.ts'
import type { Message, PublishOutcome, RecordStream, Sequence } from './record-stream.ts'
import type { Tail } from './tail.ts'

/** How long to retry a message without response before its outcome is unknown. */
const GIVE_UP_MS = 10_000
const RETRY_MS = 200

/** Appends messages to the stream one at a time, and finds out the outcome of each. */
export class Sender {
  readonly #stream: RecordStream
  readonly #tail: Pick<Tail, 'sequence'>
  readonly #figures: Pick<ClusterFigures, 'publishSeconds'>
  /** The last message known to be in the stream; this node may not have received it yet. */
  #stored: Sequence = 0
  #inFlight:
    | { readonly sequence: Sequence; readonly message: Message; readonly arrived: (outcome: PublishOutcome) => void }
    | undefined

  constructor(stream: RecordStream, tail: Pick<Tail, 'sequence'>, figures: Pick<ClusterFigures, 'publishSeconds'>) {
    this.#figures = figures
    this.#stream = stream
    this.#tail = tail
  }

  /** Sequence of the last message known to be in the stream. */
  get sequence(): Sequence {
    return Math.max(this.#stored, this.#tail.sequence)
  }

  /**
   * Appends a message. Retries it unchanged until its outcome is known or `isPointless` returns true. The next message is
   * sent only after this one is known to be stored, since a sequence number says nothing about the content of the
   * message with that number.
   */
  async send(message: Message, isPointless: () => boolean): Promise<PublishOutcome> {
    const sequence = this.sequence + 1
    const began = performance.now()
    const arrival = new Promise<PublishOutcome>((arrived) => {
      this.#inFlight = { sequence, message, arrived }
    })
    let outcome: PublishOutcome
    try {
      do outcome = await Promise.race([arrival, this.#attempt(message, sequence)])
      while (outcome === 'unknown' && performance.now() - began <= GIVE_UP_MS && !isPointless())
    } finally {
      this.#inFlight = undefined
    }
    if (outcome === 'stored') this.#stored = sequence
    this.#figures.publishSeconds[outcome].note((performance.now() - began) / 1000)
    return outcome
  }

  /** Publishes a message once, and waits for the next attempt if the outcome is unknown. */
  async #attempt(message: Message, sequence: Sequence): Promise<PublishOutcome> {
    const outcome = await this.#stream.publish(message, sequence - 1)
    if (outcome === 'stored') return outcome
    // An earlier attempt may have stored it.
    const stored = outcome === 'behind' ? await this.#stream.find(sequence).catch(() => undefined) : undefined
    if (stored) return compareMessages(message, stored)
    await delay(RETRY_MS)
    return 'unknown'
  }

  /** Tells the outcome of the message in flight. Must be called with every message of the stream before it is processed. */
  noteReceived(sequence: Sequence, message: Message): Promise<void> | undefined {
    if (this.#inFlight?.sequence !== sequence) return undefined
    const outcome = compareMessages(this.#inFlight.message, message)
    this.#inFlight.arrived(outcome)
    // Writes decided here are rejected before those of the other leader become visible.
    return outcome === 'stored' ? undefined : setImmediate()
  }
}

/** The outcome of a message whose number another one has, which may be the same. */
function compareMessages({ bytes }: Message, stored: Message): 'stored' | 'behind' {
  return Buffer.from(bytes).equals(stored.bytes) ? 'stored' : 'behind'
}
