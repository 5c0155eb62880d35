import type { Message, RecordStream, Sequence } from '../../src/cluster/record-stream.ts'
import { Refusal } from '../../src/runtime/errors.ts'

type Fate = 'stored' | 'lost' | 'unheard' | 'late'

/**
 * A log in memory, as many nodes as one likes at it. What happens to the messages to come can be said: `lost` ones
 * never arrive, `unheard` ones are stored without an answer, `late` ones are tried again when `arrive` is called.
 */
export class SimulatedStream implements RecordStream {
  readonly messageBytes: number
  readonly messages: Message[] = []
  /** The fates of the next published messages, in order; later ones succeed. */
  readonly fates: Fate[] = []
  isAnswering = true
  #late: (() => void)[] = []
  #woken: (() => void)[] = []

  constructor(messageBytes = 1024 * 1024) {
    this.messageBytes = messageBytes
  }

  async publish(message: Message, after: Sequence): Promise<'stored' | 'behind' | 'unknown'> {
    await turn()
    const fate = this.fates.shift() ?? 'stored'
    const copy = { position: message.position, bytes: Uint8Array.from(message.bytes) }
    const store = (): boolean => {
      if (this.messages.length !== after) return false
      this.messages.push(copy)
      this.wake()
      return true
    }
    if (fate === 'late') this.#late.push(store)
    if (fate === 'lost' || fate === 'late') return 'unknown'
    const isStored = store()
    if (fate === 'unheard') return 'unknown'
    return isStored ? 'stored' : 'behind'
  }

  /** Delivers the delayed messages in the order in which they were sent. */
  arrive(): void {
    const late = this.#late
    this.#late = []
    for (const store of late) store()
  }

  async find(sequence: Sequence): Promise<Message | undefined> {
    await this.#answer()
    return this.messages[sequence - 1]
  }

  async last(): Promise<Sequence> {
    await this.#answer()
    return this.messages.length
  }

  follow(from: Sequence, receive: (sequence: Sequence, message: Message) => Promise<void>) {
    let isClosed = false
    const following = (async () => {
      for (let next = from; !isClosed; ) {
        const message = this.isAnswering ? this.messages[next - 1] : undefined
        if (message) await receive(next++, message)
        else await new Promise<void>((resolve) => this.#woken.push(resolve))
      }
    })()
    return {
      close: async () => {
        isClosed = true
        this.wake()
        await following
      },
    }
  }

  /** Those who follow look again. */
  wake(): void {
    const woken = this.#woken
    this.#woken = []
    for (const resolve of woken) resolve()
  }

  async #answer(): Promise<void> {
    await turn()
    if (!this.isAnswering) throw new Refusal('Unavailable', 'nobody answers')
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
