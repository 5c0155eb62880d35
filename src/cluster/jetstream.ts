import { setTimeout as delay } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
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
/** How often to check for messages that were not delivered. */
const WATCH_MS = 2000
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

  follow(from: Sequence, receive: (sequence: Sequence, message: Message) => Promise<void>) {
    let next = from
    let isClosed = false
    let current: { close(): Promise<unknown> } | undefined
    const round = async (): Promise<void> => {
      const consumer = await this.#js.consumers.get(this.#name, {
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: next,
      })
      const messages = await consumer.consume({ max_messages: 256, expires: 5000, idle_heartbeat: 1000 })
      current = messages
      // close() resolves only when the messages are iterated: awaiting it here would never end.
      if (isClosed) void messages.close()
      for await (const message of messages) {
        const position = Number(message.headers?.get(POSITION))
        await receive(message.seq, { position, bytes: message.data })
        next = message.seq + 1
        if (isClosed) return
      }
    }
    const following = (async () => {
      while (!isClosed) {
        try {
          await round()
        } catch (error) {
          this.#log.debug({ err: error }, 'following the stream again')
        }
        if (!isClosed) await delay(RETRY_MS)
      }
    })()
    const watch = async (): Promise<void> => {
      for (let seen = 0; !isClosed; ) {
        await delay(WATCH_MS, undefined, { ref: false })
        const last = await this.last().catch(() => 0)
        // A consumer may be lost with its server, without any notice.
        if (last >= next && seen === next) await current?.close()
        seen = next
      }
    }
    void watch()
    return {
      async close() {
        isClosed = true
        await current?.close()
        await following
      },
    }
  }

  async #ask<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask()
    } catch (error) {
      throw new Refusal('Unavailable', `NATS does not respond: ${(error as Error).message}`)
    }
  }
}

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
