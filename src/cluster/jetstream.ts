import { setTimeout as delay } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
  type Consumer,
  type ConsumerMessages,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import { headers, type NatsConnection } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { JournalMismatch, Refusal } from '../runtime/errors.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import type { Message, PublishOutcome, RecordStream, Sequence } from './record-stream.ts'

/** The header with a message's position. */
const POSITION = 'Recollect-Position'
/** Bytes of the server's `max_payload` reserved for headers. */
const HEADER_BYTES = 1024
/** Timeout for responses of the servers. */
const ANSWER_MS = 3000
const RETRY_MS = 300
const STREAM_NOT_FOUND = 10059

/** A RecordStream in NATS JetStream. */
export class JetStream implements RecordStream {
  readonly messageBytes: number
  /** Copies of the stream, each on another server. */
  readonly replicas: number
  readonly #name: string
  readonly #subject: string
  readonly #js: JetStreamClient
  readonly #jsm: JetStreamManager
  readonly #log: Logger
  readonly #limitedLog: LimitedLog

  private constructor(nc: NatsConnection, { name, num_replicas }: StreamConfig, jsm: JetStreamManager, log: Logger) {
    this.replicas = num_replicas
    this.messageBytes = (nc.info?.max_payload ?? 0) - HEADER_BYTES
    this.#name = name
    this.#subject = subjectOf(name)
    this.#js = jetstream(nc, { timeout: ANSWER_MS })
    this.#jsm = jsm
    this.#log = log
    this.#limitedLog = new LimitedLog(log, () => performance.now())
  }

  /**
   * Creates the stream if it does not exist.
   * @throws {JournalMismatch} when its configuration may discard messages.
   */
  static async open(nc: NatsConnection, name: string, replicas: number, log: Logger): Promise<JetStream> {
    const jsm = await jetstreamManager(nc, { timeout: ANSWER_MS })
    const { config } = await streamOf(jsm, name, replicas)
    const faults = faultsOf(config)
    if (faults.length > 0) {
      throw new JournalMismatch(`The stream ${name} is not suitable for a journal: ${faults.join(', ')}.`)
    }
    if (config.num_replicas !== replicas) {
      log.warn(`the stream ${name} has ${config.num_replicas} replicas, and the settings say ${replicas}`)
    }
    return new JetStream(nc, config, jsm, log)
  }

  async publish({ position, bytes }: Message, after: Sequence): Promise<PublishOutcome> {
    const sent = headers()
    sent.set(POSITION, String(position))
    try {
      const { seq } = await this.#js.publish(this.#subject, bytes, {
        headers: sent,
        // JetStream deduplicates a retried message by its id, made of its place and content.
        msgID: `${after}-${crc32(bytes).toString(16)}`,
        expect: { streamName: this.#name, lastSequence: after },
        timeout: ANSWER_MS,
      })
      return seq === after + 1 ? 'stored' : 'behind'
    } catch (error) {
      if (isWrongSequence(error)) return 'behind'
      this.#limitedLog.warn({ err: error, position }, 'NATS did not accept a message')
      return 'unknown'
    }
  }

  async find(sequence: Sequence): Promise<Message | undefined> {
    const found = await this.#ask(() => this.#jsm.streams.getMessage(this.#name, { seq: sequence }))
    return found ? { position: Number(found.header.get(POSITION)), bytes: found.data } : undefined
  }

  async last(): Promise<Sequence> {
    const { state } = await this.#ask(() => this.#jsm.streams.info(this.#name))
    return state.last_seq
  }

  follow(from: Sequence, receive: Receive): { close(): Promise<void> } {
    return new Following(this, from, receive, this.#log)
  }

  /** A consumer of the messages from a sequence on. */
  consumer(first: Sequence): Promise<Consumer> {
    const options = { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: first }
    return this.#js.consumers.get(this.#name, options)
  }

  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      throw new Refusal('Unavailable', `NATS does not respond: ${(error as Error).message}`)
    }
  }
}

type Receive = Parameters<RecordStream['follow']>[1]

/** Passes on the messages of a stream in order, with a new consumer whenever one ends. */
class Following {
  readonly #stream: JetStream
  readonly #receive: Receive
  readonly #log: Logger
  #next: Sequence
  #messages: ConsumerMessages | undefined
  #isClosed = false
  readonly #consuming: Promise<void>

  constructor(stream: JetStream, from: Sequence, receive: Receive, log: Logger) {
    this.#stream = stream
    this.#receive = receive
    this.#log = log
    this.#next = from
    this.#consuming = this.#consumeAll()
    void this.#watch()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#messages?.close()
    await this.#consuming
  }

  async #consumeAll(): Promise<void> {
    while (!this.#isClosed) {
      try {
        await this.#consume()
      } catch (error) {
        this.#log.debug({ err: error }, 'following the stream again')
      }
      if (!this.#isClosed) await delay(RETRY_MS)
    }
  }

  async #consume(): Promise<void> {
    const consumer = await this.#stream.consumer(this.#next)
    const messages = await consumer.consume({ max_messages: 256, expires: 5000, idle_heartbeat: 1000 })
    this.#messages = messages
    // close() resolves only when the messages are iterated: awaiting it here would never end.
    if (this.#isClosed) void messages.close()
    for await (const message of messages) {
      const position = Number(message.headers?.get(POSITION))
      await this.#receive(message.seq, { position, bytes: message.data })
      this.#next = message.seq + 1
      if (this.#isClosed) return
    }
  }

  /** Ends a consumer that delivers nothing although there are messages: it may be lost with its server, without any notice. */
  async #watch(): Promise<void> {
    for (let seen = 0; !this.#isClosed; ) {
      await delay(WATCH_MS, undefined, { ref: false })
      const last = await this.#stream.last().catch(() => 0)
      if (last >= this.#next && seen === this.#next) await this.#messages?.close()
      seen = this.#next
    }
  }
}

/** How often to check for messages that were not delivered. */
const WATCH_MS = 2000

function subjectOf(name: string): string {
  return `recollect.${name}.journal`
}

async function streamOf(jsm: JetStreamManager, name: string, replicas: number): Promise<StreamInfo> {
  try {
    return await jsm.streams.info(name)
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || error.code !== STREAM_NOT_FOUND) throw error
    return jsm.streams.add({
      name,
      subjects: [subjectOf(name)],
      num_replicas: replicas,
      storage: StorageType.File,
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.New,
      deny_delete: true,
      deny_purge: true,
    })
  }
}

/** Reasons why a stream with this configuration may lose messages. */
function faultsOf(config: StreamConfig): readonly string[] {
  const faults: string[] = []
  const check = (isRight: boolean, fault: string): void => {
    if (!isRight) faults.push(fault)
  }
  check(config.subjects.includes(subjectOf(config.name)), `it does not take ${subjectOf(config.name)}`)
  check(config.subjects.length === 1, 'it takes other subjects, too')
  check(config.storage === StorageType.File, 'its storage is not file')
  check(config.retention === RetentionPolicy.Limits, 'its retention is not limits')
  check(config.discard === DiscardPolicy.New, 'it discards old messages')
  check(config.max_age === 0, 'max_age ends messages')
  check(config.max_msgs_per_subject <= 0, 'max_msgs_per_subject ends messages')
  check(config.deny_delete && config.deny_purge, 'messages can be deleted (deny_delete, deny_purge)')
  return faults
}

const WRONG_LAST_SEQUENCE = [10071, 10164]

/** Whether a compare-and-set failed because another process has written. */
export function isWrongSequence(error: unknown): boolean {
  return error instanceof JetStreamApiError && WRONG_LAST_SEQUENCE.includes(error.code)
}
