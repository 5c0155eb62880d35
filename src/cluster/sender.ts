import { setTimeout as delay } from 'node:timers/promises'
import type { ClusterFigures } from './figures.ts'
import type { Message, Sequence } from './message.ts'
import type { RecordStream } from './record-stream.ts'
import type { Tail } from './tail.ts'

/** 'behind': another message is in its place. 'unknown': it is not known whether it is there, or may yet be. */
export type Came = 'stored' | 'behind' | 'unknown'

/** So long a message that got no answer is sent again; then nobody knows what came of it. */
const GIVE_UP_MS = 10_000
const RETRY_MS = 200

/** Appends messages behind what the stream holds, one at a time, and finds out what came of each. */
export class Sender {
  readonly #stream: RecordStream
  readonly #tail: Pick<Tail, 'sequence'>
  readonly #figures: Pick<ClusterFigures, 'publishSeconds'>
  /** The last message that the stream was found to hold; this node may not have taken it in yet. */
  #stored: Sequence = 0
  #sent:
    | { readonly sequence: Sequence; readonly message: Message; readonly arrived: (isOurs: boolean) => void }
    | undefined

  constructor(stream: RecordStream, tail: Pick<Tail, 'sequence'>, figures: Pick<ClusterFigures, 'publishSeconds'>) {
    this.#figures = figures
    this.#stream = stream
    this.#tail = tail
  }

  /** Of the last message that the stream is known to hold. */
  get sequence(): Sequence {
    return Math.max(this.#stored, this.#tail.sequence)
  }

  /**
   * Appends a message behind the last one. It is sent again, as it was, until that is known to be settled, or until
   * it is `pointless` to go on. The next one is sent when this one is known to be stored, and never before: the
   * number that it must come behind says nothing of what has that number.
   */
  async send(message: Message, pointless: () => boolean): Promise<Came> {
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
        // It may have been stored when it was sent before.
        if (answer === 'behind') await Promise.race([this.#look(sequence), arrival])
        if (known() === undefined) await Promise.race([delay(RETRY_MS), arrival])
        const came = known()
        if (came !== undefined) return came
        if (performance.now() - began > GIVE_UP_MS || pointless()) return 'unknown'
      }
    } finally {
      this.#sent = undefined
      if (known() === 'stored') this.#stored = sequence
      this.#figures.publishSeconds[known() ?? 'unknown'].note((performance.now() - began) / 1000)
    }
  }

  /** To be told of every message before it is taken in. */
  coming(sequence: Sequence, { bytes }: Message): Promise<void> | undefined {
    const sent = this.#sent
    if (sent?.sequence !== sequence) return undefined
    const isOurs = Buffer.from(sent.message.bytes).equals(bytes)
    sent.arrived(isOurs)
    // What was decided here is refused before what was decided elsewhere is seen.
    return isOurs ? undefined : new Promise((resolve) => setImmediate(resolve))
  }

  /** Sees what is in the place of the message that is on its way, if anything is. */
  async #look(sequence: Sequence): Promise<void> {
    const there = await this.#stream.find(sequence).catch(() => undefined)
    if (there) void this.coming(sequence, there)
  }
}
