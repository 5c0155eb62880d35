import { type NatsConnection, RequestError, type Subscription } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { Refusal } from '../errors.ts'
import type { Announcement, Answer, Question } from './protocol.ts'

/** Longer than a write is tried for (cluster-journal.ts), so that its sender hears what came of it. */
const ANSWER_MS = 15_000

/** Questions and announcements between the nodes that share a stream. */
export class Exchange {
  readonly #nc: NatsConnection
  readonly #prefix: string
  readonly #messageBytes: number
  readonly #log: Logger
  readonly #subscriptions: Subscription[] = []
  #isConnected = true

  constructor(nc: NatsConnection, stream: string, messageBytes: number, log: Logger) {
    this.#nc = nc
    this.#prefix = `recollect.${stream}`
    this.#messageBytes = messageBytes
    this.#log = log
    void this.#watch()
  }

  /** Whether there is a NATS server at the other end. */
  get isConnected(): boolean {
    return this.#isConnected
  }

  announce(announcement: Announcement): void {
    // What cannot be said now need not be said later.
    if (this.#isConnected) this.#nc.publish(`${this.#prefix}.announcements`, JSON.stringify(announcement))
  }

  hear(heard: (announcement: Announcement) => void): void {
    this.#subscribe(`${this.#prefix}.announcements`, (text) => heard(JSON.parse(text) as Announcement))
  }

  /** Answers what is asked of a node. */
  serve(node: string, answer: (question: Question) => Promise<Answer>): void {
    this.#subscribe(this.#subjectOf(node), (text, respond) => {
      answer(JSON.parse(text) as Question).then(
        (answered) => respond(JSON.stringify(answered)),
        (error: unknown) => {
          this.#log.error({ err: error }, 'a question of another node could not be answered')
          respond(JSON.stringify({ type: 'failed' } satisfies Answer))
        },
      )
    })
  }

  async ask(node: string, question: Question): Promise<Answer> {
    const text = JSON.stringify(question)
    if (Buffer.byteLength(text) > this.#messageBytes) {
      throw new Refusal('TooLarge', `The cluster takes no message of more than ${this.#messageBytes} bytes.`)
    }
    if (!this.#isConnected) throw new Refusal('Unavailable', 'This node has no connection to NATS.')
    try {
      const { data } = await this.#nc.request(this.#subjectOf(node), text, { timeout: ANSWER_MS })
      return JSON.parse(Buffer.from(data).toString()) as Answer
    } catch (error) {
      if (error instanceof RequestError && error.isNoResponders()) {
        throw new Refusal('Unavailable', 'The node that decided is gone; another one is about to.')
      }
      throw new Refusal(
        'OutcomeUnknown',
        'The node that decides did not answer: the write may have been stored, or may yet be. A retry with the same Idempotency-Key is stored once.',
      )
    }
  }

  /** Nothing is answered any more. */
  close(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe()
  }

  #subjectOf(node: string): string {
    return `${this.#prefix}.nodes.${node}`
  }

  #subscribe(subject: string, heard: (text: string, respond: (text: string) => void) => void): void {
    const callback = (error: Error | null, message: { data: Uint8Array; respond(data: string): boolean }): void => {
      if (error) return
      heard(Buffer.from(message.data).toString(), (text) => message.respond(text))
    }
    this.#subscriptions.push(this.#nc.subscribe(subject, { callback }))
  }

  async #watch(): Promise<void> {
    for await (const { type } of this.#nc.status()) {
      if (type === 'disconnect' || type === 'staleConnection') this.#isConnected = false
      if (type === 'reconnect') this.#isConnected = true
      if (type === 'disconnect' || type === 'reconnect') this.#log.info(`NATS: ${type}`)
    }
  }
}
