/**
 * The states of a write at the leader.
 *
 * | State | Next |
 * |---|---|
 * | queued | sent with all others that wait; rejected if the leadership ends |
 * | sent | stored; rejected, with 504 if the outcome is unknown, and the leadership ends |
 * | stored | resolved when the store of this node has it; rejected with 504 if the disk becomes full before |
 */

import { setImmediate } from 'node:timers/promises'
import type { Position } from '../events/event.ts'
import { type Draft, nextTime, type Recorded, recordedOf } from '../events/journal.ts'
import { encodeEvents } from '../events/record-writer.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ClusterFigures } from './figures.ts'
import { type BatchStart, type MessageBatch, MessagePacker, type PendingAppend } from './message.ts'
import type { Replica } from './replica.ts'
import type { Sender } from './sender.ts'
import type { Tail } from './tail.ts'

interface LeaderWritesOptions {
  readonly messageBytes: number
  readonly sender: Sender
  readonly tail: Pick<Tail, 'receive'>
  readonly figures: Pick<ClusterFigures, 'publishWrites'>
  readonly now: () => Date
  readonly hasRoom: (events: number) => boolean
  /** Whether the leadership with this token has ended. */
  readonly hasEnded: (token: string) => boolean
  /** A write failed, on top of which others were decided: the leadership must end. */
  readonly failed: () => void
}

/** The writes of a leader: sends them in batches, and resolves each when this node has it. */
export class LeaderWrites {
  readonly #options: LeaderWritesOptions
  readonly #packer: MessagePacker
  #token = ''
  /** Position of the last accepted event. */
  #accepted: Position = 0
  /** The chain values of the next record. */
  #next: BatchStart = { position: 1, previous: '' }
  #time = ''
  #queue: PendingAppend[] = []
  #flushing: Promise<void> | undefined
  #answering: Promise<void> | undefined

  constructor(options: LeaderWritesOptions) {
    this.#options = options
    this.#packer = new MessagePacker(options.messageBytes)
  }

  /** Accepts writes from now on, after the last one of the stream. */
  begin(token: string, { next, time }: Pick<Replica, 'next' | 'time'>): void {
    this.#token = token
    this.#accepted = next.position - 1
    this.#next = next
    this.#time = time
  }

  append(draft: Draft): Promise<Recorded> {
    const { hasRoom, messageBytes } = this.#options
    if (draft.expected !== this.#accepted + 1) return Promise.reject(dependsOnFailed())
    if (!hasRoom(draft.events.length)) return Promise.reject(diskFull())
    const texts = encodeEvents(draft.events)
    if (!this.#packer.fits(draft, texts)) {
      const why = `The cluster accepts no message of more than ${messageBytes} bytes.`
      return Promise.reject(new Refusal('TooLarge', why))
    }
    this.#accepted += draft.events.length
    return new Promise((resolve, reject) => {
      this.#queue.push({ draft, texts, resolve, reject })
      this.#flushing ??= this.#flushAll()
    })
  }

  rejectQueued(): void {
    const queue = this.#queue
    this.#queue = []
    for (const pending of queue) pending.reject(dependsOnFailed())
  }

  /** Resolves when no write is in flight. */
  async settled(): Promise<void> {
    while (this.#flushing) await this.#flushing
    await this.#answering
  }

  /** Sends the next batch while this node applies the previous one. */
  async #flushAll(): Promise<void> {
    // Requests of one iteration of the event loop share the first message.
    await setImmediate()
    while (this.#queue.length > 0) {
      const batch = this.#packer.takeBatch(this.#queue, this.#next, (draft) => {
        this.#time = nextTime(this.#time, this.#options.now())
        return recordedOf(draft, this.#time)
      })
      this.#next = batch.next
      this.#options.figures.publishWrites.note(batch.writes.length)
      const sent = await this.#send(batch)
      await this.#answering
      if (sent) this.#answering = this.#answer(batch, sent.isHere)
    }
    this.#flushing = undefined
  }

  /**
   * Resolves once the stream holds the batch; `isHere` then resolves with whether this node has it as well. If the
   * batch is not stored, it is rejected, with all writes that were decided on top of it.
   */
  async #send({ messages, writes }: MessageBatch): Promise<{ readonly isHere: Promise<boolean> } | undefined> {
    const { sender, tail, hasEnded, failed } = this.#options
    const token = this.#token
    let isHere = Promise.resolve(true)
    for (const [index, message] of messages.entries()) {
      const outcome = await sender.send(message, () => hasEnded(token))
      if (outcome === 'stored') {
        isHere = tail.receive(sender.sequence, message)
        continue
      }
      const isLast = index === messages.length - 1
      const why =
        outcome === 'unknown' && isLast
          ? outcomeUnknown()
          : new Refusal('Unavailable', 'Another node is the leader now.')
      for (const { pending } of writes) pending.reject(why)
      failed()
      return undefined
    }
    return { isHere }
  }

  /**
   * Resolves the writes of a stored batch once this node's store has them. If the disk is full, they fail with
   * OutcomeUnknown (504), and another node may lead.
   */
  async #answer({ writes }: MessageBatch, isHere: Promise<boolean>): Promise<void> {
    const { hasRoom, failed } = this.#options
    const isVisible = await unlessFull(isHere, () => hasRoom(1), CHECK_MS)
    if (isVisible === undefined) failed()
    for (const { pending, recorded } of writes) {
      if (isVisible) pending.resolve(recorded)
      else pending.reject(outcomeUnknown())
    }
  }
}

/** How often to check the disk while writes wait to become visible. */
const CHECK_MS = 500

function dependsOnFailed(): Refusal {
  return new Refusal('Unavailable', 'The write depends on an earlier one, which failed.')
}

function outcomeUnknown(): Refusal {
  return new Refusal(
    'OutcomeUnknown',
    'The cluster did not respond in time: the write may have been stored, or may still be. A retry with the same Idempotency-Key is stored once.',
  )
}

export function diskFull(): Refusal {
  return new Refusal('DiskFull', 'The disk of this node is full. Nothing was stored; reads continue.')
}

/** Resolves with the result of `work`, or with undefined once the disk is full, which is checked every `checkMs`. */
export async function unlessFull<Result>(
  work: Promise<Result>,
  hasRoom: () => boolean,
  checkMs: number,
): Promise<Result | undefined> {
  let timer: NodeJS.Timeout | undefined
  const full = new Promise<undefined>((resolve) => {
    timer = setInterval(() => {
      if (!hasRoom()) resolve(undefined)
    }, checkMs)
  })
  try {
    return await Promise.race([work, full])
  } finally {
    clearInterval(timer)
  }
}
