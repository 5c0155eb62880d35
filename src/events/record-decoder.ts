import * as CODE from '../json/char-codes.ts'
import { Document } from '../json/document.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonObject } from '../json/value.ts'
import type { DomainEvent } from './event.ts'
import type { JournalRecord } from './record-format.ts'

const EVENTS = Buffer.from(',"events":[')
const ITEM = Buffer.from(',"item":{')
const NEXT_EVENT = Buffer.from('},{"type":"')
/** Closes item, event, events and record. */
const CLOSE = Buffer.from('}}]}')

/**
 * Decodes a record whose bytes, from `start` up to its closing brace, are verified. Items are extracted as text and not
 * parsed, which saves most of the time of a replay. Records in another format than that of `encodeWrite` are parsed as
 * a whole.
 *
 * Quotes within JSON text are always escaped, so the searched texts cannot be part of a value.
 */
export function decodeRecord(bytes: Buffer, start: number, end: number): JournalRecord {
  const record = bytes.subarray(start, end)
  return decodeOne(record) ?? decodeSeveral(record) ?? decodeAny(record)
}

/** A record of a single event with an item, the most frequent kind. */
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
  return decoded && { ...JSON.parse(`{${record.toString('utf8', 0, events)}}`), events: decoded }
}

function decodeAny(record: Buffer): JournalRecord {
  const whole = parseText(`{${record}`) as unknown as JournalRecord
  return { ...whole, events: whole.events.map(withDocument) }
}

function withDocument(event: DomainEvent): DomainEvent {
  return 'item' in event ? { ...event, item: Document.of(event.item as unknown as JsonObject) } : event
}

/** Undefined if they are in another format: each item must be the last member of its event. */
function decodeEvents(record: Buffer, start: number, end: number): readonly DomainEvent[] | undefined {
  const events: DomainEvent[] = []
  let item = record.indexOf(ITEM, start)
  for (let at = start; record[at] === CODE.OPEN_BRACE; at++) {
    if (item >= 0 && item < at) item = record.indexOf(ITEM, at)
    // An event that ends before the next item begins has no item.
    const next = endOf(record, at, item < 0 ? end : item)
    if (next !== undefined) {
      events.push(JSON.parse(record.toString('utf8', at, next)))
      at = next
    } else {
      if (item < 0) return undefined
      const from = item + ITEM.length - 1
      const to = record.indexOf(NEXT_EVENT, from) < 0 ? end - 1 : endOf(record, from, end)
      if (to === undefined || record[to] !== CODE.CLOSE_BRACE) return undefined
      const head = JSON.parse(`${record.toString('utf8', at, item)}}`)
      events.push({ ...head, item: new Document(record.toString('utf8', from, to)) })
      at = to + 1
    }
    if (at === end) return events
    if (record[at] !== CODE.COMMA) return undefined
  }
  return undefined
}

/** The offset after the object that begins at `start`; undefined if it does not end before `limit`. */
function endOf(bytes: Buffer, start: number, limit: number): number | undefined {
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
