import type { Histogram } from '../runtime/histogram.ts'

/** The leader decides the requests of a message without a pause, so their number is limited. */
const MOST_TOGETHER = 256
const BRACKETS_BYTES = 2

interface PendingRequest {
  readonly text: string
  readonly bytes: number
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

export interface RequestBatchesOptions {
  readonly messageBytes: number
  /** Sends a node a JSON array of requests and resolves with the array of answers. */
  readonly send: (node: string, text: string) => Promise<string>
  /** Requests per message. */
  readonly together: Pick<Histogram, 'note'>
}

/** Batches the requests of one turn of the event loop into few messages. Each gets its own answer. */
export class RequestBatches {
  readonly #options: RequestBatchesOptions
  readonly #gathered = new Map<string, PendingRequest[]>()

  constructor(options: RequestBatchesOptions) {
    this.#options = options
  }

  fits(text: string): boolean {
    return Buffer.byteLength(text) + BRACKETS_BYTES <= this.#options.messageBytes
  }

  /** Resolves with the answer; rejects if the message fails. */
  ask(node: string, text: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const waiting: PendingRequest = { text, bytes: Buffer.byteLength(text) + 1, resolve, reject }
      if (this.#gathered.size === 0) setImmediate(() => this.#sendAll())
      const others = this.#gathered.get(node)
      if (others) others.push(waiting)
      else this.#gathered.set(node, [waiting])
    })
  }

  /** Sends a request in a message of its own, as its answer may take long. */
  sendAlone(node: string, text: string): Promise<unknown> {
    return new Promise((resolve, reject) => void this.#send(node, [{ text, bytes: 0, resolve, reject }]))
  }

  #sendAll(): void {
    const gathered = [...this.#gathered]
    this.#gathered.clear()
    for (const [node, all] of gathered) {
      let some: PendingRequest[] = []
      let bytes = BRACKETS_BYTES
      for (const waiting of all) {
        if (some.length === MOST_TOGETHER || bytes + waiting.bytes > this.#options.messageBytes) {
          if (some.length > 0) void this.#send(node, some)
          some = []
          bytes = BRACKETS_BYTES
        }
        some.push(waiting)
        bytes += waiting.bytes
      }
      void this.#send(node, some)
    }
  }

  async #send(node: string, some: readonly PendingRequest[]): Promise<void> {
    this.#options.together.note(some.length)
    try {
      const text = await this.#options.send(node, `[${some.map((waiting) => waiting.text).join(',')}]`)
      const answers = JSON.parse(text) as readonly unknown[]
      if (answers.length !== some.length) throw new Error(`${some.length} requests, and ${answers.length} answers`)
      for (const [index, { resolve }] of some.entries()) resolve(answers[index])
    } catch (error) {
      for (const { reject } of some) reject(error)
    }
  }
}
