import { crc32 } from 'node:zlib'
import * as CODE from '../json/char-codes.ts'
import { Document } from '../json/document.ts'
import { parseText } from '../json/parse.ts'
import type { JsonObject } from '../json/value.ts'
import { Corruption } from '../runtime/errors.ts'
import { type DomainEvent, isEventType, type Position } from './event.ts'
import { slice } from './journal.ts'
import { FORMAT, type JournalRecord, NEWLINE, OPENING, PREFIX_BYTES, type SegmentHeader } from './record-format.ts'
import { readSome, readText, type SegmentText } from './segment-text.ts'

const FIRST_BYTES = 64 * 1024
const READ_BYTES = 256 * 1024

/** Reads the lines of a segment, from one offset up to another, and stops at damage. */
export class LineReader {
  readonly #text: SegmentText
  readonly #size: number
  #stop: Stop
  #damage: string | undefined

  constructor(text: SegmentText, offset: number, size: number) {
    this.#text = text
    this.#size = size
    this.#stop = { offset, kind: 'cut' }
  }

  /** The offset after the last whole line that was read. */
  get offset(): number {
    return this.#stop.offset
  }

  /** Why there is no whole line at that offset; undefined at the end. */
  get damage(): string | undefined {
    return this.#damage
  }

  /** The lines in batches, one for each read. The consumer must take all lines of a batch before the next. */
  async *read(): AsyncGenerator<Iterable<ScannedLine>, void> {
    let together = FIRST_BYTES
    while (this.offset < this.#size) {
      const from = this.offset
      const wanted = Math.min(together, this.#size - from)
      const { bytes, damage } = await readSome(this.#text, wanted, from)
      yield this.#lines(bytes)
      const isAll = bytes.length < wanted || from + wanted === this.#size
      this.#damage = damage?.message ?? this.#whyNoLineAt(from, isAll)
      if (this.#damage !== undefined) return
      together = this.offset === from ? together * 2 : READ_BYTES
    }
  }

  *#lines(bytes: Buffer): Generator<ScannedLine, void> {
    this.#stop = yield* scan(bytes, this.offset)
  }

  /** @param isAll whether no more bytes can be read from that offset */
  #whyNoLineAt(offset: number, isAll: boolean): string | undefined {
    const { kind, offset: end } = this.#stop
    // The next read gets more: lines after those of this one, or more bytes of a line that did not fit into it.
    if (kind !== 'damaged' && (end > offset || (kind === 'cut' && !isAll))) return undefined
    return kind === 'end' ? `the segment ends here, and not at offset ${this.#size}` : 'the record is damaged'
  }
}

/**
 * The lines of a message, or of a part of a segment that begins at `base`.
 * @throws {Corruption} when a line is damaged
 */
export function* linesOf(bytes: Buffer, base = 0): Generator<ScannedLine, void> {
  const { offset, kind } = yield* scan(bytes, base)
  if (kind !== 'end') throw new Corruption(`offset ${offset}: the record is damaged`)
}

export interface RecordLine {
  readonly record: JournalRecord
  /** crc32 of the rest, 8 hex digits. */
  readonly crc: string
  readonly bytes: Uint8Array
}

/** A line with a valid checksum. */
export class ScannedLine {
  /** The offset of its first byte. */
  readonly offset: number
  readonly #buffer: Buffer
  readonly #at: number
  readonly #frame: WholeFrame

  constructor(buffer: Buffer, at: number, frame: WholeFrame, base: number) {
    this.#buffer = buffer
    this.#at = at
    this.#frame = frame
    this.offset = base + at
  }

  get crc(): string {
    return this.#frame.crc
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(this.#at, this.#frame.end)
  }

  /** The bytes that the frame covers. */
  get rest(): Buffer {
    return this.#buffer.subarray(this.#frame.start, this.#frame.end - 1)
  }

  /** The position of the next record, if the same bytes contain its beginning. */
  get nextPosition(): Position | undefined {
    return positionAt(this.#buffer, this.#frame.end)
  }

  record(): JournalRecord {
    return parseRecord(this.#buffer, this.#frame)
  }

  /** Its events at ascending positions; those that follow each other may be in one record. The others are not decoded. */
  recordsAt(positions: readonly Position[]): readonly JournalRecord[] {
    const { start, end } = this.#frame
    const record = this.#buffer.subarray(start, end - 1)
    const found = decodeAt(record, positions)
    if (found) return found.map(withKnownTypes)
    const whole = this.record()
    return positions.map((position) => slice(whole, position, position)).filter(({ events }) => events.length > 0)
  }
}

/** The offset after the last whole line, and what follows there. */
interface Stop {
  readonly offset: number
  readonly kind: 'end' | 'cut' | 'damaged'
}

/**
 * Finds the whole lines of some bytes. Every reader of lines uses it.
 * @param base the offset of the first byte
 */
function* scan(bytes: Buffer, base: number): Generator<ScannedLine, Stop> {
  let at = 0
  while (at < bytes.length) {
    const frame = readFrame(bytes, at)
    if (frame.kind !== 'whole') return { offset: base + at, kind: frame.kind }
    // A header elsewhere than at the beginning was moved there.
    if (base + at > 0 && spells(bytes, frame.start, HEADER)) return { offset: base + at, kind: 'damaged' }
    yield new ScannedLine(bytes, at, frame, base)
    at = frame.end
  }
  return { offset: base + at, kind: 'end' }
}

/** The result of checking a frame: valid, cut off by the end of the bytes, or damaged. */
type Frame = WholeFrame | { readonly kind: 'cut' } | { readonly kind: 'damaged'; readonly end?: number }

/** The crc32 of a line's rest, the offset where the rest begins, and the end of the line. */
interface WholeFrame {
  readonly kind: 'whole'
  readonly crc: string
  readonly start: number
  readonly end: number
}

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

/** Parses 8 lower-case hex digits; undefined if they are not. */
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

const HEADER = '"format":'
const POSITION = '"position":'

/** The position of the record at an offset, without checking its frame; undefined if it cannot be read. */
function positionAt(bytes: Buffer, offset: number): Position | undefined {
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

/**
 * Parses a line with a valid frame.
 * @throws {Corruption} for an unknown format or event type.
 */
export function parseRecord(bytes: Buffer, whole: Pick<WholeFrame, 'start' | 'end'>): JournalRecord {
  return withKnownTypes(decodeRecord(bytes, whole.start, whole.end - 1))
}

function withKnownTypes(record: JournalRecord): JournalRecord {
  for (const { type } of record.events) {
    if (!isEventType(type)) {
      throw new UnknownFormat(
        `position ${record.position} holds an event of the unknown type ${JSON.stringify(type)}: it was written by a newer version of Recollect, which can read it`,
      )
    }
  }
  return record
}

/** A whole record in a segment. */
export interface FoundRecord {
  readonly offset: number
  readonly record: JournalRecord
  readonly crc: string
}

const WINDOW_BYTES = 1024 * 1024

/**
 * Finds the first whole record from an offset of a segment's text that `accepts` takes. JSON escapes quotes within texts,
 * so a client's item cannot contain the beginning of a record.
 */
export async function findRecord(
  text: SegmentText,
  from: number,
  size: number,
  accepts: (record: JournalRecord, offset: number) => boolean,
): Promise<FoundRecord | undefined> {
  let length = FIRST_BYTES
  // Invariant: no accepted record begins before `base`.
  for (let base = from; base < size; ) {
    const wanted = Math.min(length, size - base)
    const { bytes, damage } = await readText(text, wanted, base)
    const isEnd = bytes.length < wanted || base + wanted === size
    let cutAt: number | undefined
    for (let at = bytes.indexOf(OPENING); at >= 0 && cutAt === undefined; at = bytes.indexOf(OPENING, at + 1)) {
      const frame = readFrame(bytes, at)
      if (frame.kind === 'cut' && !isEnd) cutAt = at
      if (frame.kind !== 'whole') continue
      const record = recordOf(bytes, frame)
      if (record && accepts(record, base + at)) return { offset: base + at, record, crc: frame.crc }
    }
    if (damage) base = damage.end
    else if (isEnd) return undefined
    // A record, or its beginning, continues after the window.
    else if (cutAt === 0) length *= 2
    else {
      base += cutAt ?? bytes.length - OPENING.length + 1
      length = WINDOW_BYTES
    }
  }
  return undefined
}

/** Undefined for a segment's header, and for an unknown type of event. */
function recordOf(bytes: Buffer, frame: { readonly start: number; readonly end: number }): JournalRecord | undefined {
  try {
    const record = parseRecord(bytes, frame)
    return record.events.length > 0 ? record : undefined
  } catch {
    return undefined
  }
}

const HEADER_BYTES = 4096

/**
 * The header of a segment that begins with these bytes; `end` is the offset after it.
 * @throws {UnknownFormat}
 * @throws {Corruption} if it is damaged
 */
export function parseHeader(bytes: Buffer): SegmentHeader & { readonly end: number } {
  const whole = readFrame(bytes, 0)
  if (whole.kind !== 'whole') throw new Corruption('the segment header (offset 0) is damaged')
  const header = JSON.parse(`{${bytes.toString('utf8', whole.start, whole.end - 1)}`) as SegmentHeader
  if (header.format === undefined) throw new Corruption('the segment header (offset 0) is missing')
  if (header.format !== FORMAT) {
    throw new UnknownFormat(
      `the segment has format ${JSON.stringify(header.format)}, this version of Recollect reads ${FORMAT}`,
    )
  }
  return { ...header, end: whole.end }
}

export async function readHeader(text: SegmentText): Promise<ReturnType<typeof parseHeader>> {
  const { bytes, damage } = await readText(text, HEADER_BYTES, 0)
  if (damage) throw damage
  return parseHeader(bytes)
}

/** A newer version of Recollect wrote this. */
export class UnknownFormat extends Corruption {}

const EVENTS = Buffer.from(',"events":[')
const ITEM = Buffer.from(',"item":{')
const NEXT_EVENT = Buffer.from('},{"type":"')
/** Closes item, event, events and record. */
const CLOSE = Buffer.from('}}]}')

/**
 * Decodes a record whose bytes, from `start` up to its closing brace, are verified. Items are extracted as text and not
 * parsed, which saves most of the time of a replay. Records in another format than that of `WriteEncoder` are parsed as
 * a whole.
 *
 * Quotes within JSON text are always escaped, so the searched texts cannot be part of a value.
 */
function decodeRecord(bytes: Buffer, start: number, end: number): JournalRecord {
  const record = bytes.subarray(start, end)
  return decodeOne(record) ?? decodeSeveral(record) ?? decodeAny(record)
}

/** A record of a single event with an item, the most frequent kind. It takes 2.8 µs, `decodeSeveral` 5.4. */
function decodeOne(record: Buffer): JournalRecord | undefined {
  const item = record.indexOf(ITEM)
  if (item < 0 || record.indexOf(NEXT_EVENT) >= 0 || record.indexOf(CLOSE, record.length - CLOSE.length) < 0)
    return undefined
  const decoded = JSON.parse(`{${record.toString('utf8', 0, item)}}]}`) as JournalRecord
  const [event] = decoded.events as unknown as [{ item: Document }]
  event.item = new Document(record.toString('utf8', item + ITEM.length - 1, record.length - CLOSE.length + 1))
  return decoded
}

function decodeSeveral(record: Buffer): JournalRecord | undefined {
  const events = record.indexOf(EVENTS)
  const close = record.length - 2
  if (events < 0 || record[close] !== CODE.CLOSE_BRACKET) return undefined
  const decoded = decodeEvents(record, events + EVENTS.length, close)
  return decoded && { ...JSON.parse(`{${record.toString('utf8', 0, events)}}`), events: decoded.events }
}

/** Undefined if the record is in another format, or ends before the last of the positions. */
function decodeAt(record: Buffer, positions: readonly Position[]): readonly JournalRecord[] | undefined {
  const one = decodeOne(record)
  if (one) return one.position === positions[0] ? [one] : undefined
  const events = record.indexOf(EVENTS)
  const close = record.length - 2
  if (events < 0 || record[close] !== CODE.CLOSE_BRACKET) return undefined
  const head = JSON.parse(`{${record.toString('utf8', 0, events)}}`) as JournalRecord
  const found: JournalRecord[] = []
  let { position } = head
  let at = events + EVENTS.length
  // Invariant: the event at `position` begins at `at`, and those at lower wanted positions were found.
  for (let index = 0; index < positions.length; ) {
    const wanted = positions[index] as Position
    for (; position < wanted; position++) {
      const end = endOfObject(record, at, close)
      if (end === undefined) return undefined
      at = end + 1
    }
    let count = 1
    while (positions[index + count] === wanted + count) count++
    const decoded = decodeEvents(record, at, close, count)
    if (decoded?.events.length !== count) return undefined
    found.push({ ...head, position, events: decoded.events })
    position += count
    index += count
    at = decoded.end + 1
  }
  return found
}

function decodeAny(record: Buffer): JournalRecord {
  const whole = parseText(`{${record}`) as unknown as JournalRecord
  return { ...whole, events: whole.events.map(withDocument) }
}

function withDocument(event: DomainEvent): DomainEvent {
  return 'item' in event ? { ...event, item: Document.of(event.item as unknown as JsonObject) } : event
}

interface DecodedEvents {
  readonly events: readonly DomainEvent[]
  /** The offset after the last one. */
  readonly end: number
}

/** The first events. Undefined if they are in another format: each item must be the last member of its event. */
function decodeEvents(
  record: Buffer,
  start: number,
  end: number,
  most = Number.POSITIVE_INFINITY,
): DecodedEvents | undefined {
  const events: DomainEvent[] = []
  let item = record.indexOf(ITEM, start)
  // Invariant: the events before `at` are decoded, and the first item after it begins at `item`.
  for (let at = start; record[at] === CODE.OPEN_BRACE; at++) {
    if (item >= 0 && item < at) item = record.indexOf(ITEM, at)
    // An event that ends before the next item begins has no item.
    const endWithoutItem = endOfObject(record, at, item < 0 ? end : item)
    if (endWithoutItem !== undefined) {
      events.push(JSON.parse(record.toString('utf8', at, endWithoutItem)))
      at = endWithoutItem
    } else {
      if (item < 0) return undefined
      const from = item + ITEM.length - 1
      const to = record.indexOf(NEXT_EVENT, from) < 0 ? end - 1 : endOfObject(record, from, end)
      if (to === undefined || record[to] !== CODE.CLOSE_BRACE) return undefined
      const event = JSON.parse(`${record.toString('utf8', at, item)}}`)
      // In place: V8 gives each copy of a parsed object a hidden class of its own, of 240 bytes.
      event.item = new Document(record.toString('utf8', from, to))
      events.push(event)
      at = to + 1
    }
    if (at === end || events.length === most) return { events, end: at }
    if (record[at] !== CODE.COMMA) return undefined
  }
  return undefined
}

/**
 * The offset after the object that begins at `start`; undefined if it does not end before `limit`. With `JsonTokens`, which
 * need a string, a record of many readings takes 23 % longer to decode; parsed as a whole, one of long items up to four times.
 */
function endOfObject(bytes: Buffer, start: number, limit: number): number | undefined {
  let depth = 0
  for (let at = start; at < limit; at++) {
    switch (bytes[at]) {
      case CODE.QUOTE:
        for (at++; at < limit && bytes[at] !== CODE.QUOTE; at++) if (bytes[at] === CODE.BACKSLASH) at++
        break
      case CODE.OPEN_BRACE:
      case CODE.OPEN_BRACKET:
        depth++
        break
      case CODE.CLOSE_BRACE:
      case CODE.CLOSE_BRACKET:
        if (--depth === 0) return at + 1
        break
    }
  }
  return undefined
}
