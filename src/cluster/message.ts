/**
 * The messages of the stream, as docs/cluster.md describes them.
 *
 * | Message | Content |
 * |---|---|
 * | beginning | the first line of a segment, with the journal's UUID; message 1 only |
 * | records | lines as in a segment: many writes, or a part of a large one |
 * | succession | one line, which announces a new leader |
 */

import { Chain, writeOf } from '../events/chain.ts'
import type { Position } from '../events/event.ts'
import { type Draft, lastPosition, type Recorded } from '../events/journal.ts'
import { type ChainState, FORMAT, NO_PREVIOUS, RECORD_BYTES } from '../events/record-format.ts'
import { linesOf, parseHeader, type RecordLine } from '../events/record-reader.ts'
import { type EncodedRecord, encodeHeader, frame, WriteEncoder } from '../events/record-writer.ts'
import { Corruption } from '../runtime/errors.ts'
import type { Message } from './record-stream.ts'

/** Announces a new leader. A write that the earlier leader left incomplete before this message is void. */
export interface Succession {
  /** The node that leads from here on; the name is part of the stream format. */
  readonly decider: string
  /** Unique for each succession. */
  readonly token: string
  /** Position of the next record. */
  readonly position: Position
  /** The crc32 of the last record before. */
  readonly previous: string
}

type MessageContent =
  | { readonly kind: 'succession'; readonly succession: Succession }
  | { readonly kind: 'records'; readonly lines: readonly RecordLine[] }

const SUCCESSION = Buffer.from('"decider":')

export function encodeBeginning(journal: string): Message {
  return { position: 1, bytes: encodeHeader({ format: FORMAT, journal, first: 1, previous: NO_PREVIOUS }).bytes }
}

/** The journal's UUID. */
export function decodeBeginning({ bytes }: Message): string {
  return parseHeader(asBuffer(bytes)).journal
}

export function encodeSuccession({ decider, token, position, previous }: Succession): Message {
  return { position, bytes: frame(JSON.stringify({ decider, token, position, previous })).bytes }
}

/**
 * Parses and checks every line.
 * @throws {Corruption}
 */
export function decodeContent(message: Message): MessageContent {
  const lines: RecordLine[] = []
  for (const line of linesOf(asBuffer(message.bytes))) {
    if (line.offset === 0 && line.rest.subarray(0, SUCCESSION.length).equals(SUCCESSION)) {
      return { kind: 'succession', succession: JSON.parse(`{${line.rest}`) as Succession }
    }
    lines.push({ record: line.record(), crc: line.crc, bytes: line.bytes })
  }
  if (lines.length === 0) throw new Corruption('it is empty')
  return { kind: 'records', lines }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

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
  readonly writes: readonly { readonly pending: PendingAppend; readonly recorded: Recorded }[]
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
    const freeBytes =
      this.#messageBytes - RECORD_OVERHEAD_BYTES - Buffer.byteLength(JSON.stringify([actor, requestId, key, request]))
    // A record takes more events as long as it is not full, so a single event is what must fit.
    return (
      freeBytes > this.#recordBytes &&
      texts.every((text) => text.length * 3 <= freeBytes || Buffer.byteLength(text) <= freeBytes)
    )
  }

  /** Removes the next batch from a queue that is not empty. */
  takeBatch(queue: PendingAppend[], next: BatchStart, record: (draft: Draft) => Recorded): MessageBatch {
    const writes: { readonly pending: PendingAppend; readonly recorded: Recorded }[] = []
    const lines: EncodedRecord[] = []
    const flush = next.position
    let { position: following, previous } = next
    let size = 0
    for (let pending = queue[0]; pending; pending = queue[0]) {
      const { draft, texts } = pending
      const recorded = record(draft)
      const { position, time } = recorded
      const encoder = new WriteEncoder({ position, previous, flush, time }, draft, this.#recordBytes)
      const encoded = [...texts.flatMap((text) => encoder.add(text) ?? []), encoder.end()]
      const bytes = encoded.reduce((sum, line) => sum + line.bytes.length, 0)
      // The next batch encodes this write again, with its own position of the flush.
      if (writes.length > 0 && size + bytes > this.#messageBytes) break
      queue.shift()
      writes.push({ pending, recorded })
      for (const line of encoded) {
        lines.push(line)
        previous = line.crc
      }
      following = lastPosition(recorded) + 1
      size += bytes
      // A write that needs several messages is a batch of its own.
      if (size > this.#messageBytes) break
    }
    return { writes, messages: this.#pack(lines, flush), next: { position: following, previous } }
  }

  /** As many lines as fit into each message; at least one. */
  #pack(lines: readonly EncodedRecord[], position: Position): readonly Message[] {
    const packed: Uint8Array[][] = []
    let size = Number.POSITIVE_INFINITY
    for (const { bytes } of lines) {
      size += bytes.length
      if (size > this.#messageBytes) {
        packed.push([])
        size = bytes.length
      }
      packed.at(-1)?.push(bytes)
    }
    return packed.map((parts) => ({ position, bytes: Buffer.concat(parts) }))
  }
}

/** Complete writes and the lines they consist of. */
interface CompleteWrites {
  readonly writes: readonly Recorded[]
  readonly lines: readonly RecordLine[]
  readonly next: ChainState
}

/** Assembles records into complete writes. A write may span messages, and is void if its last record never comes. */
export class WriteAssembler {
  readonly #chain: Chain
  #incomplete: RecordLine[] = []

  constructor(next: ChainState) {
    this.#chain = new Chain(next)
  }

  /** Drops the incomplete write, which is void. */
  dropIncomplete(): void {
    this.#chain.cutOff()
    this.#incomplete = []
  }

  /** The writes that the lines complete, or a text that tells which rule a line breaks. */
  addLines(lines: readonly RecordLine[]): CompleteWrites | string {
    const writes: Recorded[] = []
    const complete: RecordLine[] = []
    for (const line of lines) {
      const wrong = this.#chain.add(line.record, line.crc)
      if (wrong !== undefined) return wrong
      this.#incomplete.push(line)
      if (line.record.more) continue
      for (const part of this.#incomplete) complete.push(part)
      writes.push(writeOf(this.#incomplete.map(({ record }) => record)))
      this.#incomplete = []
    }
    return { writes, lines: complete, next: this.#chain.whole }
  }
}
