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
  #sent:
    | { readonly sequence: Sequence; readonly message: Message; readonly arrived: (isOurs: boolean) => void }
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
   * Appends a message. Retries it unchanged until its outcome is known or `pointless` returns true. The next message is
   * sent only after this one is known to be stored, since a sequence number says nothing about the content of the
   * message with that number.
   */
  async send(message: Message, pointless: () => boolean): Promise<PublishOutcome> {
    const sequence = this.sequence + 1
    const began = performance.now()
    let settled: 'stored' | 'behind' | undefined
    const arrival = new Promise<void>((resolve) => {
      this.#sent = {
        sequence,
        message,
        arrived: (isOurs) => {
          settled = isOurs ? 'stored' : 'behind'
          resolve()
        },
      }
    })
    const known = (): typeof settled => settled
    try {
      for (;;) {
        const answer = await Promise.race([this.#stream.publish(message, sequence - 1), arrival])
        if (answer === 'stored') settled ??= 'stored'
        // An earlier attempt may have stored it.
        if (answer === 'behind') await Promise.race([this.#compareStored(sequence), arrival])
        if (known() === undefined) await Promise.race([delay(RETRY_MS), arrival])
        const outcome = known()
        if (outcome !== undefined) return outcome
        if (performance.now() - began > GIVE_UP_MS || pointless()) return 'unknown'
      }
    } finally {
      this.#sent = undefined
      if (known() === 'stored') this.#stored = sequence
      this.#figures.publishSeconds[known() ?? 'unknown'].note((performance.now() - began) / 1000)
    }
  }

  /** Compares a message with the one in flight. Must be called with every message before it is processed. */
  compare(sequence: Sequence, { bytes }: Message): Promise<void> | undefined {
    const sent = this.#sent
    if (sent?.sequence !== sequence) return undefined
    const isOurs = Buffer.from(sent.message.bytes).equals(bytes)
    sent.arrived(isOurs)
    // Writes decided here are rejected before those of the other leader become visible.
    return isOurs ? undefined : setImmediate()
  }

  /** Reads the message with the number of the one in flight, if there is any. */
  async #compareStored(sequence: Sequence): Promise<void> {
    const stored = await this.#stream.find(sequence).catch(() => undefined)
    if (stored) void this.compare(sequence, stored)
  }
}
