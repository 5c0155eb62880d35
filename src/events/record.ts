/**
 * The journal's lines, as docs/journal.md describes them: the one place that writer and reader share.
 *
 *     {"frame":"<crc32><length><crc32 of these 16 digits>",<rest>\n
 *
 * The frame covers the rest: the bytes after its own comma up to and without the newline.
 */
import { crc32 } from 'node:zlib'
import { Corruption } from '../errors.ts'
import { quoted } from '../json/quoted.ts'
import { type DomainEvent, isEventType, type Position } from './event.ts'
import { lastPosition, type Origin, type Recorded } from './journal.ts'
import { decodeRecord } from './record-text.ts'

export const FORMAT = 1
/** A record holds at most this many bytes of events; only a single larger event may exceed it. */
export const RECORD_BYTES = 512 * 1024
export const NO_PREVIOUS = '00000000'

export interface JournalRecord extends Recorded {
  readonly events: readonly DomainEvent[]
  /** The crc32 of the record before, 8 hex digits. */
  readonly previous: string
  /** The first position of the write batch that the record was synced with. */
  readonly flush: Position
  /** The write goes on in the next record. */
  readonly more?: true
}

export interface SegmentHeader {
  readonly format: number
  /** The journal's UUID. */
  readonly journal: string
  readonly first: Position
  readonly previous: string
}

const OPENING = '{"frame":"'
const DIGITS = 24
/** Bytes before a line's rest: `{"frame":"`, 24 digits, `",`. */
const PREFIX_BYTES = OPENING.length + DIGITS + 2
const NEWLINE = 0x0a

export interface Line {
  readonly bytes: Buffer
  /** crc32 of the rest, 8 hex digits. */
  readonly crc: string
}

/** A record; `position` is that of its first event. */
export interface RecordLine extends Line {
  readonly position: Position
}

/** Frames a JSON object's text. */
export function frame(json: string): Line {
  return framed(json.slice(1))
}

function framed(rest: string): Line {
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

/** Of each byte, as `padStart` of every number costs more than the checksum that it spells. */
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Of 32 bits. */
function hex(value: number): string {
  const high = `${HEX[value >>> 24]}${HEX[(value >>> 16) & 0xff]}`
  return `${high}${HEX[(value >>> 8) & 0xff]}${HEX[value & 0xff]}`
}

export function encodeHeader(header: SegmentHeader): Line {
  return frame(JSON.stringify(header))
}

export interface RecordStart {
  readonly position: Position
  readonly previous: string
  readonly flush: Position
  readonly time: string
}

/** An event as the journal has it; an item's text as it is, which is not made a second time. */
export function encodeEvent(event: DomainEvent): string {
  if (!('item' in event)) return JSON.stringify(event)
  const { type, collection, id, revision, prior, item } = event
  const idText = typeof id === 'string' ? quoted(id) : JSON.stringify(id)
  return `{"type":"${type}","collection":${quoted(collection)},"id":${idText},"revision":${revision},"prior":${prior},"item":${item.text}}`
}

export function encodeEvents(events: Iterable<DomainEvent>): readonly string[] {
  const texts: string[] = []
  for (const event of events) texts.push(encodeEvent(event))
  return texts
}

/** One write as lines, each knowing the one before; `texts` are its events as JSON. */
export function encodeWrite(
  start: RecordStart,
  origin: Origin,
  texts: readonly string[],
  recordBytes = RECORD_BYTES,
): readonly RecordLine[] {
  const [first = ''] = texts
  if (texts.length === 1) return [encodeRecord(start, whoOf(origin), first, false)]
  return [...encodingWrite(start, origin, texts, recordBytes)]
}

/** The same of very many events: no more is there at a time than a line, of at most so many bytes of events, takes. */
export function* encodingWrite(
  start: RecordStart,
  origin: Origin,
  texts: Iterable<string>,
  recordBytes = RECORD_BYTES,
): Generator<RecordLine> {
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
): RecordLine {
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

/** What the frame at an offset says: whole and right, cut off by the end of the bytes, or damaged. */
export type Frame =
  | { readonly kind: 'whole'; readonly crc: string; readonly start: number; readonly end: number }
  | { readonly kind: 'cut' }
  | { readonly kind: 'damaged'; readonly end?: number }

/** Checks the line that begins at `offset`; `end` is after its newline. */
export function readFrame(bytes: Buffer, offset: number): Frame {
  const available = bytes.length - offset
  if (available < PREFIX_BYTES) return { kind: 'cut' }
  const digits = offset + OPENING.length
  const start = offset + PREFIX_BYTES
  const check = hexAt(bytes, digits + 16)
  if (
    !spells(bytes, offset, OPENING) ||
    !spells(bytes, start - 2, '",') ||
    check === undefined ||
    crc32(bytes.subarray(digits, digits + 16)) !== check
  ) {
    return { kind: 'damaged' }
  }
  const crc = hexAt(bytes, digits)
  const close = start + (hexAt(bytes, digits + 8) ?? 0)
  const end = close + 1
  if (close <= bytes.length && crc32(bytes.subarray(start, close)) !== crc) return { kind: 'damaged', end }
  if (end > bytes.length) return { kind: 'cut' }
  if (bytes[close] !== NEWLINE) return { kind: 'damaged', end }
  return { kind: 'whole', crc: bytes.toString('latin1', digits, digits + 8), start, end }
}

function spells(bytes: Buffer, offset: number, text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    if (bytes[offset + index] !== text.charCodeAt(index)) return false
  }
  return true
}

/** The number that 8 lower-case hex digits make; undefined when they are none. */
function hexAt(bytes: Buffer, offset: number): number | undefined {
  let value = 0
  for (let at = offset; at < offset + 8; at++) {
    const digit = bytes[at] as number
    if (digit >= 0x30 && digit <= 0x39) value = value * 16 + digit - 0x30
    else if (digit >= 0x61 && digit <= 0x66) value = value * 16 + digit - 0x57
    else return undefined
  }
  return value
}

const POSITION = '"position":'

/** The position of the record that begins at an offset, without a look at its frame; undefined where none can be made out. */
export function positionAt(bytes: Buffer, offset: number): Position | undefined {
  const digits = offset + PREFIX_BYTES + POSITION.length
  if (digits >= bytes.length || !spells(bytes, offset + PREFIX_BYTES, POSITION)) return undefined
  let position = 0
  for (let at = digits; at < bytes.length; at++) {
    const digit = (bytes[at] as number) - 0x30
    if (digit < 0 || digit > 9) return position
    position = position * 10 + digit
  }
  return undefined
}

/** The fields of a line whose frame is whole; an unknown format or event type is refused. */
export function parseRecord(bytes: Buffer, whole: Frame & { kind: 'whole' }): JournalRecord {
  const record = decodeRecord(bytes, whole.start, whole.end - 1)
  for (const { type } of record.events) {
    if (!isEventType(type)) {
      throw new Corruption(
        `position ${record.position} holds an event of the unknown type ${JSON.stringify(type)}: it was written by a newer version of Recollect, which can read it`,
      )
    }
  }
  return record
}

export function parseHeader(bytes: Buffer): { readonly header: SegmentHeader; readonly end: number } {
  const whole = readFrame(bytes, 0)
  if (whole.kind !== 'whole') throw new Corruption('the segment header (offset 0) is damaged')
  const header = JSON.parse(`{${bytes.toString('utf8', whole.start, whole.end - 1)}`) as SegmentHeader
  if (header.format !== FORMAT) {
    throw new Corruption(
      `the segment has format ${JSON.stringify(header.format)}, this version of Recollect reads ${FORMAT}`,
    )
  }
  return { header, end: whole.end }
}

export interface Expected {
  readonly position: Position
  readonly previous: string
  readonly flush: Position
}

/** Why a record whose own bytes are whole does not belong where it stands; undefined when it does. */
export function misplaced(record: JournalRecord, expected: Expected): string | undefined {
  if (record.position !== expected.position) {
    return `a record of position ${record.position} stands where position ${expected.position} belongs`
  }
  if (record.previous !== expected.previous) {
    return `the record of position ${record.position} does not follow the one before it (a record was dropped, doubled or moved)`
  }
  if (record.flush !== expected.flush && record.flush !== record.position) {
    return `the record of position ${record.position} names a write batch that did not begin there`
  }
  return undefined
}

export function after(record: JournalRecord, crc: string): Expected {
  return { position: lastPosition(record) + 1, previous: crc, flush: record.flush }
}

/** What a disk writes as one. */
export const SECTOR = 512
const PREFIX_SHAPE = `${OPENING}${'0'.repeat(DIGITS)}",`

/**
 * Whether the damage at `offset`, where the record of `position` belongs, can be what a crash left of the last
 * write batch (docs/journal.md, "Torn or corrupt"). Undefined: torn. Otherwise why it is corruption.
 */
export function whyNotTorn(bytes: Buffer, offset: number, position: Position): string | undefined {
  for (let at = bytes.indexOf(OPENING, offset + 1); at >= 0; at = bytes.indexOf(OPENING, at + 1)) {
    const found = readFrame(bytes, at)
    if (found.kind === 'whole' && parseRecord(bytes, found).flush > position) {
      return 'a later write batch follows it, so it had been synced'
    }
  }
  const rest = bytes.subarray(offset)
  const damaged = readFrame(bytes, offset)
  const firstZero = rest.indexOf(0)
  if (firstZero < 0) {
    if (damaged.kind !== 'cut') return 'its bytes do not match its checksum'
    if (rest.includes(NEWLINE)) return 'a record is cut off, yet others follow it'
    const begun = rest.toString('latin1', 0, PREFIX_BYTES)
    const completed = begun + PREFIX_SHAPE.slice(begun.length)
    return /^\{"frame":"[0-9a-f]{24}",$/.test(completed) ? undefined : 'it does not begin as a record does'
  }
  if (damaged.kind !== 'cut' && offset + firstZero >= (damaged.end ?? offset + PREFIX_BYTES))
    return 'its bytes do not match its checksum'
  for (let from = firstZero; from >= 0 && from < rest.length; ) {
    let to = from
    while (rest[to] === 0) to++
    const begins = from === 0 || (offset + from) % SECTOR === 0
    const ends = to === rest.length || (offset + to) % SECTOR === 0
    if (!begins || !ends) return 'it holds zeros that are not whole sectors'
    from = rest.indexOf(0, to)
  }
  return undefined
}
