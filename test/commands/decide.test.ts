import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from '../../src/commands/command.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import { parsePatch } from '../../src/json/json-patch.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'
import { viewsOf } from '../support/collections.ts'
import { accepted, begun, created, deleted, eventsOf, patched, RULES, replaced, reset } from '../support/decider.ts'

/** `given(events).when(command, rules).then(events)`, or `.refused(code)`. */
function given(...events: readonly DomainEvent[]) {
  return {
    when(command: Command, rules: Partial<Rules> = {}) {
      const decision = () => eventsOf(command, accepted(events), { ...RULES, ...rules })
      return {
        // biome-ignore lint/suspicious/noThenProperty: given, when, then; nobody awaits it
        then(...expected: readonly DomainEvent[]): void {
          assert.deepEqual(decision(), expected)
        },
        refused(code: RefusalCode, ...pointers: readonly string[]): void {
          assert.throws(decision, (error: unknown) => {
            assert.ok(error instanceof Refusal, String(error))
            assert.equal(error.code, code, error.message)
            if (pointers.length > 0) {
              assert.deepEqual(
                error.faults.map((fault) => fault.pointer),
                pointers,
              )
            }
            return true
          })
        },
      }
    },
  }
}

const create = (item: JsonObject): Command => ({ type: 'CreateItem', collection: 'things', item })
const replace = (key: string, item: JsonObject, conditions: object = {}): Command => ({
  type: 'ReplaceItem',
  collection: 'things',
  key,
  item,
  ...conditions,
})
const merge = (key: string, document: JsonObject, conditions: object = {}): Command => ({
  type: 'PatchItem',
  collection: 'things',
  key,
  patch: { type: 'merge', document },
  ...conditions,
})
const operate = (key: string, operations: JsonValue): Command => ({
  type: 'PatchItem',
  collection: 'things',
  key,
  patch: { type: 'operations', operations: parsePatch(operations) },
})
const remove = (key: string, conditions: object = {}): Command => ({
  type: 'DeleteItem',
  collection: 'things',
  key,
  ...conditions,
})

function tagOf(...events: readonly DomainEvent[]): string {
  const item = viewsOf(events).any('things')?.item('1')
  assert.ok(item)
  return item.tag
}

const CLIENT_IDS = { clientIdsOnPost: true }
const UPSERT = { upsertOnPut: true }

test('POST creates an unknown collection, with ids from 0', () => {
  given()
    .when(create({ name: 'Ann' }))
    .then(begun, created({ id: 0, name: 'Ann' }))
})

test('POST assigns the id after the highest one ever used', () => {
  const events = [begun, created({ id: 7 }), deleted(7, { revision: 2, prior: 2 })]
  given(...events)
    .when(create({ name: 'Bob' }))
    .then(created({ id: 8, name: 'Bob' }))
})

test('POST after a reset of ids assigns those of deleted items again, and continues their revisions', () => {
  const events = [begun, created({ id: 7 }), created({ id: 8 }), deleted(8, { revision: 2, prior: 3 }), reset(7)]
  given(...events)
    .when(create({ name: 'Bob' }))
    .then(created({ id: 8, name: 'Bob' }, { revision: 3, prior: 4 }))
  given(...events, created({ id: 8 }, { revision: 3, prior: 4 }), deleted(8, { revision: 4, prior: 6 }))
    .when(create({ name: 'Bob' }))
    .then(created({ id: 9, name: 'Bob' }))
})

test('POST after a reset of ids never assigns a text beyond the highest that a client may choose', () => {
  const text = String(2 ** 52 + 1)
  given(
    begun,
    created({ id: 2 ** 52 }),
    created({ id: text }),
    deleted(text, { revision: 2, prior: 3 }),
    reset(2 ** 52),
  )
    .when(create({}))
    .then(created({ id: 2 ** 52 + 2 }))
})

test('POST overwrites the id sent by a client, and keeps its place in the item', () => {
  const [, event] = eventsOf(create({ name: 'Ann', id: 'mine', age: 7 }), accepted([]), RULES)
  assert.ok(event && 'item' in event)
  assert.equal(JSON.stringify(event.item), '{"name":"Ann","id":0,"age":7}')
})

test('POST never assigns an id twice, not even beyond the highest that a client may choose', () => {
  given(begun, created({ id: 2 ** 52 }))
    .when(create({}))
    .then(created({ id: 2 ** 52 + 1 }))
  given(begun, created({ id: 2 ** 52 + 1 }))
    .when(create({}))
    .then(created({ id: 2 ** 52 + 2 }))
  given(begun, created({ id: Number.MAX_SAFE_INTEGER }))
    .when(create({}))
    .refused('Unprocessable')
})

test('with client ids POST keeps the id, rejects an existing one, and assigns one when none is sent', () => {
  given()
    .when(create({ id: 'a' }), CLIENT_IDS)
    .then(begun, created({ id: 'a' }))
  given(begun, created({ id: 7 }))
    .when(create({ id: '7' }), CLIENT_IDS)
    .refused('Conflict')
  given(begun, created({ id: 7 }))
    .when(create({ id: '07' }), CLIENT_IDS)
    .then(created({ id: '07' }))
  given(begun, created({ id: 7 }))
    .when(create({ n: 1 }), CLIENT_IDS)
    .then(created({ id: 8, n: 1 }))
})

test('with client ids POST after a deletion continues the revisions of the item', () => {
  given(begun, created({ id: 'a' }), deleted('a', { revision: 2, prior: 2 }))
    .when(create({ id: 'a' }), CLIENT_IDS)
    .then(created({ id: 'a' }, { revision: 3, prior: 3 }))
})

test('an invalid id is rejected with its JSON pointer', () => {
  for (const id of ['', '\ud800', null, true, [], {}, 2 ** 52 + 1] as JsonValue[]) {
    given().when(create({ id }), CLIENT_IDS).refused('Unprocessable', '/id')
  }
})

test('the name of a collection must be non-empty well-formed text', () => {
  for (const collection of ['', '\ud800']) {
    given().when({ type: 'CreateItem', collection, item: {} }).refused('Unprocessable')
  }
})

test('PUT replaces an item, which keeps the type of its id', () => {
  given(begun, created({ id: 7, a: 1 }))
    .when(replace('7', { id: '7', b: 2 }))
    .then(replaced({ id: 7, b: 2 }, { revision: 2, prior: 2 }))
  given(begun, created({ id: '7', a: 1 }))
    .when(replace('7', { id: 7, b: 2 }))
    .then(replaced({ id: '7', b: 2 }, { revision: 2, prior: 2 }))
})

test('PUT of the same data still writes an event', () => {
  given(begun, created({ id: 7 }))
    .when(replace('7', { id: 7 }))
    .then(replaced({ id: 7 }, { revision: 2, prior: 2 }))
})

test('PUT rejects a body with another id', () => {
  for (const id of [8, '07', 7.5, null, [7], { 7: 7 }] as JsonValue[]) {
    given(begun, created({ id: 7 }))
      .when(replace('7', { id }))
      .refused('Conflict')
    given(begun).when(replace('7', { id }), UPSERT).refused('Conflict')
  }
})

test('PUT of a missing item is rejected unless upsert is on', () => {
  given(begun).when(replace('7', {})).refused('NotFound')
  given().when(replace('7', {})).refused('NotFound')
  given()
    .when(replace('7', { n: 1 }), UPSERT)
    .then(begun, created({ id: 7, n: 1 }))
})

test('an upserted id has the type of the body, else it is an integer if it spells one and no other id is text', () => {
  const upserted = (key: string, body: JsonObject, ...before: readonly DomainEvent[]) => {
    const events = eventsOf(replace(key, body), accepted([begun, ...before]), { ...RULES, ...UPSERT })
    const [event] = events
    assert.ok(event?.type === 'ItemCreated')
    return event.id
  }
  assert.equal(upserted('7', {}), 7)
  assert.equal(upserted('7', { id: '7' }), '7')
  assert.equal(upserted('7', { id: 7 }, created({ id: 'text' })), 7)
  assert.equal(upserted('7', {}, created({ id: 'text' })), '7')
  assert.equal(upserted('007', {}), '007')
  assert.equal(upserted('F4:A5', {}), 'F4:A5')
  assert.equal(upserted('€', { id: '€' }), '€')
})

test('an upserted integer beyond 2^52 is rejected, as text it is accepted', () => {
  const key = String(2 ** 52 + 1)
  given(begun).when(replace(key, {}), UPSERT).refused('Unprocessable', '/id')
  given(begun)
    .when(replace(key, { id: key }), UPSERT)
    .then(created({ id: key }))
})

test('a merge patch changes the named members and leaves the rest', () => {
  given(begun, created({ id: 1, a: 1, b: { c: 2, d: 3 } }))
    .when(merge('1', { a: null, b: { c: 4 }, e: [5] }))
    .then(patched({ id: 1, b: { c: 4, d: 3 }, e: [5] }, { revision: 2, prior: 2 }))
})

test("a patch may contain the item's own id and no other", () => {
  const one = given(begun, created({ id: 1, a: 1 }))
  one.when(merge('1', { id: 1, a: 2 })).then(patched({ id: 1, a: 2 }, { revision: 2, prior: 2 }))
  one.when(merge('1', { id: '1', a: 2 })).then(patched({ id: 1, a: 2 }, { revision: 2, prior: 2 }))
  one.when(merge('1', { id: 2 })).refused('Conflict')
  one.when(merge('1', { id: null })).refused('Conflict')
  one.when(operate('1', [{ op: 'remove', path: '/id' }])).refused('Conflict')
  one.when(operate('1', [{ op: 'replace', path: '/id', value: 5 }])).refused('Conflict')
})

test('a JSON Patch is applied completely or not at all', () => {
  const one = given(begun, created({ id: 1, a: 1 }))
  one
    .when(
      operate('1', [
        { op: 'test', path: '/a', value: 1 },
        { op: 'add', path: '/b', value: [2] },
      ]),
    )
    .then(patched({ id: 1, a: 1, b: [2] }, { revision: 2, prior: 2 }))
  one
    .when(
      operate('1', [
        { op: 'replace', path: '/a', value: 5 },
        { op: 'test', path: '/a', value: 1 },
      ]),
    )
    .refused('Conflict')
  one.when(operate('1', [{ op: 'remove', path: '/nothing' }])).refused('Unprocessable')
  one.when(operate('1', [{ op: 'replace', path: '', value: [] }])).refused('Unprocessable')
})

test('PATCH and DELETE of a missing item, or in an unknown collection, are rejected', () => {
  for (const events of [[], [begun], [begun, created({ id: 1 }), deleted(1, { revision: 2, prior: 2 })]]) {
    given(...events)
      .when(merge('1', { a: 1 }), UPSERT)
      .refused('NotFound')
    given(...events)
      .when(remove('1'), UPSERT)
      .refused('NotFound')
  }
})

test('DELETE keeps the revision number', () => {
  given(begun, created({ id: 1 }), replaced({ id: 1 }, { revision: 2, prior: 2 }))
    .when(remove('1'))
    .then(deleted(1, { revision: 3, prior: 3 }))
})

test('If-Match allows the write only with the current entity tag', () => {
  const events = [begun, created({ id: 1, a: 1 })]
  const tag = tagOf(...events)
  for (const ifMatch of [[tag], ['"other"', tag], [`${tag.slice(0, -1)}-gzip"`], '*']) {
    given(...events)
      .when(remove('1', { ifMatch }))
      .then(deleted(1, { revision: 2, prior: 2 }))
  }
  for (const ifMatch of [['"other"'], [`${tag.slice(0, -1)}-csv"`], []]) {
    for (const command of [
      remove('1', { ifMatch }),
      replace('1', {}, { ifMatch }),
      merge('1', { a: 2 }, { ifMatch }),
    ]) {
      given(...events)
        .when(command)
        .refused('PreconditionFailed')
    }
  }
})

test('If-Match of a missing item fails with 412 before 404 and before an upsert', () => {
  for (const events of [[], [begun], [begun, created({ id: 1 }), deleted(1, { revision: 2, prior: 2 })]]) {
    for (const ifMatch of ['*', ['"some"']]) {
      given(...events)
        .when(replace('1', {}, { ifMatch }), UPSERT)
        .refused('PreconditionFailed')
      given(...events)
        .when(remove('1', { ifMatch }))
        .refused('PreconditionFailed')
    }
  }
})

test('If-Unchanged-Since allows the write only when the item exists and has no event after that position', () => {
  const events = [
    begun,
    created({ id: 1, a: 1 }),
    replaced({ id: 1, a: 2 }, { revision: 2, prior: 2 }),
    created({ id: 2 }),
  ]
  const commands = (ifUnchangedSince: number) => [
    remove('1', { ifUnchangedSince }),
    replace('1', {}, { ifUnchangedSince }),
    merge('1', { a: 3 }, { ifUnchangedSince }),
  ]
  for (const since of [3, 4]) {
    given(...events)
      .when(remove('1', { ifUnchangedSince: since }))
      .then(deleted(1, { revision: 3, prior: 3 }))
  }
  for (const command of [...commands(0), ...commands(2)]) {
    given(...events)
      .when(command)
      .refused('PreconditionFailed')
  }
  // A position that no event has was read in another journal.
  for (const command of commands(5)) {
    given(...events)
      .when(command)
      .refused('PreconditionFailed')
  }
  for (const missing of [[begun], [begun, created({ id: 1 }), deleted(1, { revision: 2, prior: 2 })]]) {
    given(...missing)
      .when(replace('1', {}, { ifUnchangedSince: missing.length }), UPSERT)
      .refused('PreconditionFailed')
  }
})

test('If-None-Match allows the write only when the entity tag differs', () => {
  const events = [begun, created({ id: 1, a: 1 })]
  const tag = tagOf(...events)
  given()
    .when(replace('1', {}, { ifNoneMatch: '*' }), UPSERT)
    .then(begun, created({ id: 1 }))
  given(...events)
    .when(replace('1', {}, { ifNoneMatch: ['"other"'] }))
    .then(replaced({ id: 1 }, { revision: 2, prior: 2 }))
  for (const ifNoneMatch of ['*', [tag], [`${tag.slice(0, -1)}-gzip"`]]) {
    given(...events)
      .when(replace('1', {}, { ifNoneMatch }), UPSERT)
      .refused('PreconditionFailed')
  }
})

test('every resulting item must satisfy the schema and the size limit, whichever method made it', () => {
  const rules = {
    ...UPSERT,
    faultsOf: (collection: string, item: JsonObject) =>
      collection === 'things' && typeof item.n !== 'number' ? [{ pointer: '/n', message: 'must be a number' }] : [],
  }
  const one = given(begun, created({ id: 1, n: 1 }))
  one.when(create({}), rules).refused('Unprocessable', '/n')
  one.when(replace('1', {}), rules).refused('Unprocessable', '/n')
  one.when(replace('2', {}), rules).refused('Unprocessable', '/n')
  one.when(merge('1', { n: null }), rules).refused('Unprocessable', '/n')
  one.when(operate('1', [{ op: 'remove', path: '/n' }]), rules).refused('Unprocessable', '/n')
  one.when(create({ text: 'ä'.repeat(50) }), { itemBytes: 100 }).refused('Unprocessable')
  one.when(merge('1', { text: 'ä'.repeat(50) }), { itemBytes: 100 }).refused('Unprocessable')
})
