/**
 * The messages of the stream, as docs/cluster.md describes them. The first one begins the journal; every other one
 * holds records as a journal on disk does, line by line, or announces a new leader.
 */

import type { Position } from '../events/event.ts'
import { FORMAT, NO_PREVIOUS } from '../events/record-format.ts'
import { linesOf, parseHeader, type RecordLine } from '../events/record-reader.ts'
import { encodeHeader, frame } from '../events/record-writer.ts'
import { Corruption } from '../runtime/errors.ts'

/** The place of a message in the stream: 1, 2, 3… without gaps. */
export type Sequence = number

export interface Message {
  /**
   * Position of the first event of the write with which the message begins or continues. It never decreases from one
   * message to the next, so a binary search can find a position.
   */
  readonly position: Position
  readonly bytes: Uint8Array
}

/** Announces a new leader. A write that the former leader left incomplete before this message is void. */
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

export type MessageContent =
  | { readonly kind: 'succession'; readonly succession: Succession }
  | { readonly kind: 'records'; readonly lines: readonly RecordLine[] }

const SUCCESSION = Buffer.from('"decider":')

export function encodeBeginning(journal: string): Message {
  return { position: 1, bytes: encodeHeader({ format: FORMAT, journal, first: 1, previous: NO_PREVIOUS }).bytes }
}

/** The journal's UUID. */
export function decodeBeginning({ bytes }: Message): string {
  return parseHeader(bufferOf(bytes)).journal
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
  for (const line of linesOf(bufferOf(message.bytes))) {
    if (line.offset === 0 && line.rest.subarray(0, SUCCESSION.length).equals(SUCCESSION)) {
      return { kind: 'succession', succession: JSON.parse(`{${line.rest}`) as Succession }
    }
    lines.push({ record: line.record(), crc: line.crc, bytes: line.bytes })
  }
  if (lines.length === 0) throw new Corruption('it is empty')
  return { kind: 'records', lines }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
