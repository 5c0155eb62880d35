import { crc32 } from 'node:zlib'
import { quoted } from '../json/value.ts'
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

/** Lookup table by byte, since `padStart` costs more than the checksum itself. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Formats 32 bits as 8 hex digits. */
function hex(value: number): string {
  const high = `${HEX[value >>> 24]}${HEX[(value >>> 16) & 0xff]}`
  return `${high}${HEX[(value >>> 8) & 0xff]}${HEX[value & 0xff]}`
}

export function encodeHeader(header: SegmentHeader): EncodedLine {
  return frame(JSON.stringify(header))
}

export interface RecordStart {
  readonly position: Position
  readonly previous: string
  readonly flush: Position
  readonly time: string
}

/** Encodes an event; reuses the text of its item. */
export function encodeEvent(event: DomainEvent): string {
  if (!('item' in event)) return JSON.stringify(event)
  const { type, collection, id, revision, prior, item } = event
  const idText = typeof id === 'string' ? quoted(id) : JSON.stringify(id)
  return `{"type":"${type}","collection":${quoted(collection)},"id":${idText},"revision":${revision},"prior":${prior},"item":${item.text}}`
}

export function* encodeEvents(events: Iterable<DomainEvent>): Generator<string> {
  for (const event of events) yield encodeEvent(event)
}

/**
 * Encodes one write as chained lines; `texts` are its events as JSON. It holds one line at a time, so that a write may have
 * any number of events.
 */
export function* encodeWrite(
  start: RecordStart,
  origin: Origin,
  texts: Iterable<string>,
  recordBytes = RECORD_BYTES,
): Generator<EncodedRecord> {
  const who = whoOf(origin)
  let { position, previous } = start
  let gathered: string[] = []
  let size = 0
  for (const text of texts) {
    const bytes = Buffer.byteLength(text)
    if (gathered.length > 0 && size + bytes >= recordBytes) {
      const line = encodeRecord({ ...start, position, previous }, who, gathered.join(','), true)
      yield line
      previous = line.crc
      position += gathered.length
      gathered = []
      size = 0
    }
    gathered.push(text)
    size += bytes + 1
  }
  yield encodeRecord({ ...start, position, previous }, who, gathered.join(','), false)
}

function encodeRecord(
  { position, previous, flush, time }: RecordStart,
  who: string,
  events: string,
  hasMore: boolean,
): EncodedRecord {
  const more = hasMore ? ',"more":true' : ''
  const { bytes, crc } = framed(
    `"position":${position},"previous":"${previous}","flush":${flush},"time":"${time}",${who}${more},"events":[${events}]}`,
  )
  return { bytes, crc, position }
}

function whoOf({ actor, requestId, key, request }: Origin): string {
  const who = `"actor":${quoted(actor)},"requestId":${quoted(requestId)}`
  return key === undefined ? who : `${who},${JSON.stringify({ key, request }).slice(1, -1)}`
}
