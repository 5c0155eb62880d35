import { type NatsConnection, RequestError, type Subscription } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import type { NotCreated } from '../commands/create-items.ts'
import { elementsOf, parseText } from '../json/parse.ts'
import { Refusal, type RefusalCode } from '../runtime/errors.ts'
import type { Histogram } from '../runtime/histogram.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import { type Turn, Turns } from '../runtime/turns.ts'
import type { ClusterFigures, ForwardOutcome } from './figures.ts'
import type { Announcement, LeaderRequest, LeaderResponse } from './protocol.ts'

/** Longer than a write is retried (sender.ts), so that the sender learns its outcome. */
const ANSWER_MS = 15_000
/** To how many characters an error message is cut when the whole does not fit. */
const CLIPPED_CHARACTERS = 500

const REFUSAL_OUTCOMES: Partial<Record<RefusalCode, ForwardOutcome>> = {
  Unavailable: 'unavailable',
  OutcomeUnknown: 'unknown',
}

/** Requests and announcements between the nodes of a cluster, over NATS. */
export class Messenger {
  /** Highest size of a message. */
  readonly messageBytes: number
  readonly #nc: NatsConnection
  readonly #prefix: string
  readonly #log: Logger
  readonly #limitedLog: LimitedLog
  readonly #figures: ClusterFigures
  readonly #batches: RequestBatches
  readonly #turns = new Turns()
  readonly #subscriptions: Subscription[] = []
  #isConnected = true

  constructor(nc: NatsConnection, stream: string, messageBytes: number, log: Logger, figures: ClusterFigures) {
    this.#nc = nc
    this.#prefix = `recollect.${stream}`
    this.messageBytes = messageBytes
    this.#log = log
    this.#limitedLog = new LimitedLog(log, () => performance.now())
    this.#figures = figures
    this.#batches = new RequestBatches({
      messageBytes,
      perMessage: figures.forwardTogether,
      send: async (node, text) => {
        const { data } = await nc.request(this.#nodeSubject(node), text, { timeout: ANSWER_MS })
        return Buffer.from(data).toString()
      },
    })
    void this.#watch()
  }

  get isConnected(): boolean {
    return this.#isConnected
  }

  announce(announcement: Announcement): void {
    // Announcements are not queued while disconnected.
    if (this.#isConnected) this.#nc.publish(`${this.#prefix}.announcements`, JSON.stringify(announcement))
  }

  onAnnouncement(received: (announcement: Announcement) => void): void {
    this.#subscribe(`${this.#prefix}.announcements`, (text) => received(JSON.parse(text) as Announcement))
  }

  /** Answers the requests sent to a node. Those of one message are started in order and answered in one response. */
  serve(node: string, answer: (request: LeaderRequest) => Promise<LeaderResponse>): void {
    this.#subscribe(this.#nodeSubject(node), (text, respond) => {
      this.#answerAll(text, answer)
        .then(respond)
        .catch((error: unknown) =>
          this.#limitedLog.error({ err: error }, 'a request of another node could not be answered'),
        )
    })
  }

  async #answerAll(text: string, answer: (request: LeaderRequest) => Promise<LeaderResponse>): Promise<string> {
    const requests = await this.#turns.run((turn) => parseRequests(text, turn))
    const answers = requests.map((request) =>
      answer(request).catch((error: unknown): LeaderResponse => {
        this.#limitedLog.error({ err: error }, 'a request of another node could not be answered')
        return { type: 'failed' }
      }),
    )
    return this.#responseText(await Promise.all(answers))
  }

  /** Asks another node. The Refusal tells whether the command may have been executed nevertheless. */
  async ask(node: string, request: LeaderRequest): Promise<LeaderResponse> {
    const { forwarded, forwardSeconds } = this.#figures
    const began = performance.now()
    let outcome: ForwardOutcome = 'failed'
    try {
      const answer = await this.#ask(node, request)
      outcome = outcomeOfResponse(answer)
      return answer
    } catch (error) {
      if (error instanceof Refusal) outcome = REFUSAL_OUTCOMES[error.code] ?? 'refused'
      throw error
    } finally {
      forwarded[outcome]++
      forwardSeconds.note((performance.now() - began) / 1000)
    }
  }

  async #ask(node: string, request: LeaderRequest): Promise<LeaderResponse> {
    const text = await this.#turns.run((turn) => requestText(request, this.messageBytes, turn))
    if (text === undefined || !this.#batches.fits(text)) {
      throw new Refusal('TooLarge', `The cluster accepts no message of more than ${this.messageBytes} bytes.`)
    }
    if (!this.#isConnected) throw new Refusal('Unavailable', 'This node has no connection to NATS.')
    try {
      // Restoring or importing may take long, so such requests do not share a message with writes of items.
      const answer = request.type === 'handle' ? this.#batches.ask(node, text) : this.#batches.sendAlone(node, text)
      return (await answer) as LeaderResponse
    } catch (error) {
      if (error instanceof RequestError && error.isNoResponders()) {
        throw new Refusal('Unavailable', 'The leader is gone; another node is about to take over.')
      }
      throw new Refusal(
        'OutcomeUnknown',
        'The leader did not respond: the write may have been stored, or may still be. A retry with the same Idempotency-Key is stored once.',
      )
    }
  }

  /**
   * The answers as JSON. If they are too large for a message, without the details of errors and conflicts; if they still are, a
   * batch whose rejected items cannot be listed is refused.
   */
  #responseText(answers: readonly LeaderResponse[]): string {
    const text = JSON.stringify(answers)
    if (this.#fitsInMessage(text)) return text
    const shorter = answers.map(withoutDetails)
    const shorterText = JSON.stringify(shorter)
    return this.#fitsInMessage(shorterText) ? shorterText : JSON.stringify(shorter.map(refuseBatchResult))
  }

  #fitsInMessage(text: string): boolean {
    return Buffer.byteLength(text) <= this.messageBytes
  }

  /** Stops answering. */
  close(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe()
  }

  #nodeSubject(node: string): string {
    return `${this.#prefix}.nodes.${node}`
  }

  #subscribe(subject: string, received: (text: string, respond: (text: string) => void) => void): void {
    const callback = (error: Error | null, message: { data: Uint8Array; respond(data: string): boolean }): void => {
      if (error) return
      received(Buffer.from(message.data).toString(), (text) => message.respond(text))
    }
    this.#subscriptions.push(this.#nc.subscribe(subject, { callback }))
  }

  async #watch(): Promise<void> {
    for await (const { type } of this.#nc.status()) {
      if (type === 'disconnect' || type === 'staleConnection') this.#isConnected = false
      if (type === 'reconnect') {
        this.#isConnected = true
        this.#figures.reconnects++
      }
      if (type === 'disconnect' || type === 'reconnect') this.#log.info(`NATS: ${type}`)
    }
  }
}

/** Undefined if a batch has more than `most` characters. */
async function requestText(request: LeaderRequest, most: number, turn: Turn): Promise<string | undefined> {
  if (request.type !== 'bulk' || request.command.type !== 'CreateItems') return JSON.stringify(request)
  const { type, origin } = request
  const { items, ...command } = request.command
  const texts: string[] = []
  let characters = 0
  for (const item of items) {
    if (turn.isOver) await turn.next()
    const text = JSON.stringify(item)
    texts.push(text)
    characters += text.length + 1
    if (characters > most) return undefined
  }
  const before = JSON.stringify({ type, origin, command }).slice(0, -2)
  return `${before},"items":[${texts.join(',')}]}}`
}

async function parseRequests(text: string, turn: Turn): Promise<readonly LeaderRequest[]> {
  const requests: LeaderRequest[] = []
  for (const request of elementsOf(text)) {
    if (turn.isOver) await turn.next()
    if (request !== undefined) requests.push(parseText(request) as unknown as LeaderRequest)
  }
  return requests
}

function withoutDetails(answer: LeaderResponse): LeaderResponse {
  if (answer.type === 'taken-in') return { ...answer, conflicts: [] }
  if (answer.type === 'bulk-stored') return { ...answer, notCreated: answer.notCreated.map(withoutReason) }
  if (answer.type !== 'refused') return answer
  return { ...answer, message: answer.message.slice(0, CLIPPED_CHARACTERS), faults: [] }
}

function withoutReason([index, reason]: readonly [number, NotCreated]): readonly [number, NotCreated] {
  if ('duplicateOf' in reason) return [index, reason]
  return [index, { rejection: { code: reason.rejection.code, message: 'It was rejected.', faults: [] } }]
}

function refuseBatchResult(answer: LeaderResponse): LeaderResponse {
  if (answer.type !== 'bulk-stored') return answer
  const { position, notCreated } = answer
  const message =
    `${notCreated.length} items of the batch exist already or were rejected, and a message of the cluster has no room to list ` +
    'them. The other items are stored. Send fewer items at once, or send them to the leader.'
  return { type: 'refused', code: 'TooLarge', message, faults: [], position }
}

function outcomeOfResponse(answer: LeaderResponse): ForwardOutcome {
  if (answer.type === 'refused') return REFUSAL_OUTCOMES[answer.code] ?? 'refused'
  return answer.type === 'failed' ? 'failed' : 'stored'
}

/** The leader decides the requests of a message without a pause, so their number is limited. */
const MOST_PER_MESSAGE = 256
const BRACKETS_BYTES = 2

interface PendingRequest {
  readonly text: string
  readonly bytes: number
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

interface RequestBatchesOptions {
  readonly messageBytes: number
  /** Sends a node a JSON array of requests and resolves with the array of answers. */
  readonly send: (node: string, text: string) => Promise<string>
  /** Requests per message. */
  readonly perMessage: Pick<Histogram, 'note'>
}

/** Batches the requests of one iteration of the event loop into few messages. Each gets its own answer. */
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
      const pending: PendingRequest = { text, bytes: Buffer.byteLength(text) + 1, resolve, reject }
      if (this.#gathered.size === 0) setImmediate(() => this.#sendAll())
      const others = this.#gathered.get(node)
      if (others) others.push(pending)
      else this.#gathered.set(node, [pending])
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
      let batch: PendingRequest[] = []
      let bytes = BRACKETS_BYTES
      for (const pending of all) {
        if (batch.length === MOST_PER_MESSAGE || bytes + pending.bytes > this.#options.messageBytes) {
          if (batch.length > 0) void this.#send(node, batch)
          batch = []
          bytes = BRACKETS_BYTES
        }
        batch.push(pending)
        bytes += pending.bytes
      }
      void this.#send(node, batch)
    }
  }

  async #send(node: string, batch: readonly PendingRequest[]): Promise<void> {
    this.#options.perMessage.note(batch.length)
    try {
      const text = await this.#options.send(node, `[${batch.map((pending) => pending.text).join(',')}]`)
      const answers = JSON.parse(text) as readonly unknown[]
      if (answers.length !== batch.length) throw new Error(`${batch.length} requests, and ${answers.length} answers`)
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index])
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}
