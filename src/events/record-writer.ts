import { crc32 } from 'node:zlib'
import type { DomainEvent, Position } from './event.ts'
import type { Origin } from './journal.ts'
import { NEWLINE, OPENING, PREFIX_BYTES, RECORD_BYTES, type SegmentHeader } from './record-format.ts'

export interface EncodedLine {
  readonly bytes: Buffer
  /** crc32 of the rest, 8 hex digits. */
  readonly crc: string
}

/** A record; `position` is that of its first event. */
export interface EncodedRecord extends EncodedLine {
  readonly position: Position
}

/** Adds the frame to the text of a JSON object. */
export function frame(json: string): EncodedLine {
  return framed(json.slice(1))
}

function framed(rest: string): EncodedLine {
  const length = Buffer.byteLength(rest)
  const end = PREFIX_BYTES + length
  const bytes = Buffer.allocUnsafe(end + 1)
  bytes.write(rest, PREFIX_BYTES)
  bytes[end] = NEWLINE
  const crc = hex(crc32(bytes.subarray(PREFIX_BYTES, end)))
  const checked = crc + hex(length)
  bytes.write(`${OPENING}${checked}${hex(crc32(checked))}",`, 0, 'latin1')
  return { bytes, crc }
}

/** Formats 32 bits as 8 hex digits. */
function hex(value: number): string {
  return value.toString(16).padStart(8, '0')
}

export function encodeHeader(header: SegmentHeader): EncodedLine {
  return frame(JSON.stringify(header))
}

/** Encodes an event; reuses the text of its item. */
export function encodeEvent(event: DomainEvent): string {
  if (!('item' in event)) return JSON.stringify(event)
  const { type, collection, id, revision, prior, item } = event
  return `{"type":"${type}","collection":${JSON.stringify(collection)},"id":${JSON.stringify(id)},"revision":${revision},"prior":${prior},"item":${item.text}}`
}

export function encodeEvents(events: Iterable<DomainEvent>): string[] {
  const texts: string[] = []
  for (const event of events) texts.push(encodeEvent(event))
  return texts
}

interface RecordStart {
  readonly position: Position
  readonly previous: string
  readonly flush: Position
  readonly time: string
}

/** Encodes one write as chained records. It holds one record at a time, so that a write may have any number of events. */
export class WriteEncoder {
  readonly #start: RecordStart
  readonly #who: string
  readonly #recordBytes: number
  #position: Position
  #previous: string
  #texts: string[] = []
  #bytes = 0

  constructor(start: RecordStart, origin: Origin, recordBytes = RECORD_BYTES) {
    this.#start = start
    this.#who = whoOf(origin)
    this.#recordBytes = recordBytes
    this.#position = start.position
    this.#previous = start.previous
  }

  /** Adds an event as JSON. Returns the record of the events before it if it does not fit into that. */
  add(text: string): EncodedRecord | undefined {
    const bytes = Buffer.byteLength(text)
    const isFull = this.#texts.length > 0 && this.#bytes + bytes >= this.#recordBytes
    const record = isFull ? this.#encode(',"more":true') : undefined
    this.#texts.push(text)
    this.#bytes += bytes + 1
    return record
  }

  /** The record of the last events. */
  end(): EncodedRecord {
    return this.#encode('')
  }

  #encode(more: string): EncodedRecord {
    const { flush, time } = this.#start
    const position = this.#position
    const events = this.#texts.join(',')
    const { bytes, crc } = framed(
      `"position":${position},"previous":"${this.#previous}","flush":${flush},"time":"${time}",${this.#who}${more},"events":[${events}]}`,
    )
    this.#previous = crc
    this.#position += this.#texts.length
    this.#texts = []
    this.#bytes = 0
    return { bytes, crc, position }
  }
}

function whoOf({ actor, requestId, key, request }: Origin): string {
  const who = `"actor":${JSON.stringify(actor)},"requestId":${JSON.stringify(requestId)}`
  return key === undefined ? who : `${who},${JSON.stringify({ key, request }).slice(1, -1)}`
}
