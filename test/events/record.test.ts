import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { parseRecord, readFrame } from '../../src/events/record-reader.ts'
import { encodeEvent, WriteEncoder } from '../../src/events/record-writer.ts'
import { Document } from '../../src/json/document.ts'
import { anyObject, forAll, type Random } from '../support/random.ts'

const START = { position: 1, previous: '00000000', flush: 1, time: '2026-11-20T12:00:00.000Z' }
const ORIGIN = { actor: 'a,"events":[{', requestId: '"item":{', key: '\\","item":{}}]}', request: '' }

/** Texts and names that look like the parts of a record by which it is taken apart. */
const PARTS = ['item', 'events', ',"item":{', '},{"type":"', '\\', '"', '}}]}', '{', '[', 'type', 'ä€😀', '\u2028', '']

function event(random: Random): DomainEvent {
  const stamp = { collection: random.pick(PARTS), id: random.pick([...PARTS, 7]), revision: 2, prior: 1 }
  switch (random.integer(6)) {
    case 0:
      return { type: 'ItemDeleted', ...stamp }
    case 1:
      return { type: 'CollectionOrdered', collection: random.pick(PARTS), ids: [...PARTS, 1] }
    case 2:
      return { type: 'IdsReset', collection: random.pick(PARTS), nextId: 7 }
    case 3:
      return { type: 'CollectionCreated', collection: random.pick(PARTS) }
    default:
      return { type: 'ItemReplaced', ...stamp, item: Document.of(anyObject(random, PARTS, 3)) }
  }
}

function readBack(events: readonly DomainEvent[]) {
  const encoder = new WriteEncoder(START, ORIGIN)
  for (const one of events) assert.equal(encoder.add(encodeEvent(one)), undefined)
  const line = encoder.end()
  const found = readFrame(line.bytes, 0)
  assert.ok(found.kind === 'whole')
  return { line, record: parseRecord(line.bytes, found) }
}

test('a record is read back as it was written, whatever texts it contains', () => {
  forAll(5000, (random) => {
    const events = Array.from({ length: 1 + random.integer(5) }, () => event(random))
    const { record } = readBack(events)
    assert.deepEqual(record.events, events)
    assert.deepEqual([record.actor, record.requestId, record.key], [ORIGIN.actor, ORIGIN.requestId, ORIGIN.key])
  })
})

test('the text of an event is the JSON of its fields, with the item last', () => {
  const replaced = { type: 'ItemReplaced', collection: 'c', id: 'x', revision: 2, prior: 1 } as const
  const text = encodeEvent({ ...replaced, item: Document.of({ id: 'x', n: 1 }) })
  assert.equal(text, JSON.stringify({ ...replaced, item: { id: 'x', n: 1 } }))
})

test('a record with other JSON formatting is read, too', () => {
  const item = { id: 1, item: { a: [1] } }
  const fields = { position: 1, events: [{ item, type: 'ItemCreated', collection: 'c', id: 1, revision: 1, prior: 0 }] }
  const bytes = Buffer.from(JSON.stringify(fields, null, 1))
  const record = parseRecord(bytes, { start: 1, end: bytes.length + 1 })
  assert.deepEqual(record.events[0] && 'item' in record.events[0] && record.events[0].item, Document.of(item))
})
