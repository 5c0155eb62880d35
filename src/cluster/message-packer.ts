import { type Draft, lastPosition, type Recorded } from '../events/journal.ts'
import { type ChainState, RECORD_BYTES } from '../events/record-format.ts'
import { type EncodedRecord, encodeWrite } from '../events/record-writer.ts'
import type { Message } from './message.ts'

export interface PendingAppend {
  readonly draft: Draft
  /** The events as JSON. */
  readonly texts: readonly string[]
  readonly resolve: (recorded: Recorded) => void
  readonly reject: (error: unknown) => void
}

/** The messages sent at once: many writes in one message, or one large write in several. */
export interface MessageBatch {
  readonly messages: readonly Message[]
  readonly writes: readonly { readonly waiting: PendingAppend; readonly recorded: Recorded }[]
  /** The position and checksum with which the next batch begins. */
  readonly next: BatchStart
}

/** The position of the first event of a batch, and the crc32 of the record before it. */
export type BatchStart = Pick<ChainState, 'position' | 'previous'>

/** Upper bound for the bytes of a record besides its events, origin and frame. */
const RECORD_OVERHEAD_BYTES = 512

/** Packs writes into messages. A record is never split. */
export class MessagePacker {
  readonly #messageBytes: number
  readonly #recordBytes: number

  constructor(messageBytes: number) {
    this.#messageBytes = messageBytes
    this.#recordBytes = Math.min(RECORD_BYTES, messageBytes >> 1)
  }

  /** Whether each event of a write fits into a message. */
  fits(draft: Draft, texts: readonly string[]): boolean {
    const { actor, requestId, key = '', request = '' } = draft
    const room =
      this.#messageBytes - RECORD_OVERHEAD_BYTES - Buffer.byteLength(JSON.stringify([actor, requestId, key, request]))
    // A record takes more events as long as it is not full, so a single event is what must fit.
    return room > this.#recordBytes && texts.every((text) => text.length * 3 <= room || Buffer.byteLength(text) <= room)
  }

  /** Removes the next batch from a queue that is not empty. */
  take(queue: PendingAppend[], next: BatchStart, record: (draft: Draft) => Recorded): MessageBatch {
    const writes: { readonly waiting: PendingAppend; readonly recorded: Recorded }[] = []
    const lines: EncodedRecord[] = []
    const flush = next.position
    let { position: following, previous } = next
    let size = 0
    for (let waiting = queue[0]; waiting; waiting = queue[0]) {
      const { draft, texts } = waiting
      const recorded = record(draft)
      const { position, time } = recorded
      const encoded = encodeWrite({ position, previous, flush, time }, draft, texts, this.#recordBytes)
      const bytes = sizeOf(encoded)
      if (writes.length > 0 && size + bytes > this.#messageBytes) break
      queue.shift()
      writes.push({ waiting, recorded })
      for (const line of encoded) {
        lines.push(line)
        previous = line.crc
      }
      following = lastPosition(recorded) + 1
      size += bytes
      if (size > this.#messageBytes) break
    }
    return { writes, messages: this.#messagesOf(lines, flush), next: { position: following, previous } }
  }

  #messagesOf(lines: readonly EncodedRecord[], position: number): readonly Message[] {
    const messages: Message[] = []
    for (let from = 0; from < lines.length; ) {
      let to = from
      let size = 0
      do {
        size += lineBytes(lines[to])
        to++
      } while (to < lines.length && size + lineBytes(lines[to]) <= this.#messageBytes)
      messages.push({ position, bytes: Buffer.concat(lines.slice(from, to).map(({ bytes }) => bytes)) })
      from = to
    }
    return messages
  }
}

function lineBytes(line: EncodedRecord | undefined): number {
  return line?.bytes.length ?? 0
}

function sizeOf(lines: readonly EncodedRecord[]): number {
  return lines.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
