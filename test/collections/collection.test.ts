import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BLOCK, Gaps } from '../../src/collections/gaps.ts'
import { canonicalInteger, faultOfId } from '../../src/collections/item.ts'
import { naturalKeyOf } from '../../src/collections/natural-keys.ts'
import type { DomainEvent, ItemId } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { Store } from '../../src/store/store.ts'
import { project, recordOf, viewsOf } from '../support/collections.ts'
import { begun, created, deleted, patched, replaced, reset } from '../support/decider.ts'

function things(...events: readonly DomainEvent[]) {
  const collection = viewsOf(events).any('things')
  assert.ok(collection)
  return collection
}

const idsOf = (...events: readonly DomainEvent[]): ItemId[] => Array.from(things(...events).items(), ({ id }) => id)

test('the next id is one above the highest ever used, even after a deletion', () => {
  assert.equal(things(begun).nextId, 0)
  assert.equal(things(begun, created({ id: 7 }), created({ id: 3 })).nextId, 8)
  assert.equal(things(begun, created({ id: 7 }), deleted(7, { revision: 2, prior: 2 })).nextId, 8)
})

test('text that is a canonical integer counts for the next id, other text does not', () => {
  assert.equal(things(begun, created({ id: '41' })).nextId, 42)
  for (const id of ['007', '7.0', '-7', '7e1', ' 7', '٣', 'F4:A5', 1.5, -3]) {
    assert.equal(things(begun, created({ id })).nextId, 0, String(id))
  }
})

test('an assigned integer beyond 2^52 counts for the next id, text that spells one does not', () => {
  assert.equal(things(begun, created({ id: 2 ** 52 + 1 })).nextId, 2 ** 52 + 2)
  assert.equal(things(begun, created({ id: String(2 ** 52 + 1) })).nextId, 0)
})

test('a replaced item keeps its place, a recreated one is last', () => {
  const two = [begun, created({ id: 'a' }), created({ id: 'b' })]
  assert.deepEqual(idsOf(...two, replaced({ id: 'a', n: 1 }, { revision: 2, prior: 2 })), ['a', 'b'])
  assert.deepEqual(idsOf(...two, patched({ id: 'a', n: 1 }, { revision: 2, prior: 2 })), ['a', 'b'])
  const again = [deleted('a', { revision: 2, prior: 2 }), created({ id: 'a' }, { revision: 3, prior: 4 })]
  assert.deepEqual(idsOf(...two, ...again), ['b', 'a'])
})

test('CollectionOrdered moves the named items to the front and leaves the others', () => {
  const three = [begun, created({ id: 'a' }), created({ id: 'b' }), created({ id: 3 })]
  const ordered = (...ids: ItemId[]): DomainEvent => ({ type: 'CollectionOrdered', collection: 'things', ids })
  assert.deepEqual(idsOf(...three, ordered(3, 'b', 'a')), [3, 'b', 'a'])
  assert.deepEqual(idsOf(...three, ordered(3)), [3, 'a', 'b'])
  assert.deepEqual(idsOf(...three, ordered('nobody', 'b', 'b')), ['b', 'a', 3])
})

test('a deleted item leaves its revision and position behind', () => {
  const events = [begun, created({ id: 'a' }), deleted('a', { revision: 2, prior: 2 })]
  assert.deepEqual(things(...events).get('a'), { revision: 2, position: 3 })
  assert.equal(things(...events).item('a'), undefined)
})

test('an item that expires at the place that its id suggests is not looked for there, also if it had another place', () => {
  const things = viewsOf([
    begun,
    created({ id: 0 }),
    created({ id: 3 }),
    deleted(3, { revision: 2, prior: 3 }),
    created({ id: 1 }),
    created({ id: 3 }, { revision: 3, prior: 4 }),
    {
      type: 'ItemsExpired',
      collection: 'things',
      rule: '1',
      runs: [{ id: 3, count: 1, place: 3, revision: 3, position: 6, step: 0 }],
    },
  ]).find('things')
  assert.deepEqual(things?.get('3'), { revision: 4, position: 7 })
  assert.equal(things?.placeOf(3), undefined)
})

test('a removed collection still knows which ids it assigned', () => {
  const events: DomainEvent[] = [
    begun,
    created({ id: 4 }),
    deleted(4, { revision: 2, prior: 2 }),
    { type: 'CollectionRemoved', collection: 'things' },
  ]
  assert.equal(things(...events).exists, false)
  assert.equal(things(...events, begun).exists, true)
  assert.equal(things(...events, begun).nextId, 5)
})

test('a reset of ids lowers the next one, and the items and the ids of deleted ones stay', () => {
  const events = [begun, created({ id: 4 }), created({ id: 9 }), deleted(9, { revision: 2, prior: 3 }), reset(5)]
  assert.equal(things(...events).nextId, 5)
  assert.deepEqual(idsOf(...events), [4])
  assert.deepEqual(things(...events).get('9'), { revision: 2, position: 4 })
  assert.equal(things(...events, created({ id: 5 })).nextId, 6)
  assert.equal(things(...events, created({ id: 9 }, { revision: 3, prior: 4 })).nextId, 10)
})

test('the count of text ids follows creations, deletions and changes of type', () => {
  const one = [begun, created({ id: '1' })]
  assert.equal(things(...one).textIds, 1)
  assert.equal(things(...one, replaced({ id: 1 }, { revision: 2, prior: 2 })).textIds, 0)
  assert.equal(things(...one, replaced({ id: '1' }, { revision: 2, prior: 2 })).textIds, 1)
  assert.equal(things(...one, deleted('1', { revision: 2, prior: 2 })).textIds, 0)
})

test('a canonical integer has no sign, no leading zero, and is at most 2^52', () => {
  assert.equal(canonicalInteger('0'), 0)
  assert.equal(canonicalInteger('4503599627370496'), 2 ** 52)
  for (const key of ['', '00', '01', '+1', '-1', '1.0', '1e3', '4503599627370497', '9'.repeat(400), '1 ', '٣']) {
    assert.equal(canonicalInteger(key), undefined, key)
  }
})

test('an id is non-empty well-formed text, or a number of at most 2^52', () => {
  for (const id of ['a', '007', '€', '..', '\r\n', '😀', 0, -1, 1.5, 2 ** 52]) assert.equal(faultOfId(id), undefined)
  for (const id of ['', '\ud800', 'a\udc00', 2 ** 52 + 1, -(2 ** 53), 1e300, null, true, [], {}]) {
    assert.equal(typeof faultOfId(id), 'string', JSON.stringify(id))
  }
})

test('a copy and its original change independently', () => {
  const original = new Gaps()
  original.set(0, 5)
  original.set(3, 2)
  assert.equal(original.itemsBefore(4), 4 * BLOCK - 7)
  const copy = original.copy()
  original.set(1, 100)
  assert.deepEqual([copy.emptyIn(1), copy.itemsBefore(4), original.itemsBefore(4)], [0, 4 * BLOCK - 7, 4 * BLOCK - 107])
  copy.set(0, 6)
  assert.deepEqual(
    [original.emptyIn(0), copy.itemsBefore(4), original.itemsBefore(4)],
    [5, 4 * BLOCK - 8, 4 * BLOCK - 107],
  )
  assert.deepEqual(copy.blockWith(BLOCK - 6, 4 * BLOCK), { block: 1, before: BLOCK - 6 })
})

const KEY = { fields: [['mac']], timePart: -1 }
const collection = 'readings'

function createdWith(id: number, mac: string): DomainEvent {
  return { type: 'ItemCreated', collection, id, revision: 1, prior: 0, item: Document.of({ id, mac }) }
}

function replacedWith(id: number, mac: string): DomainEvent {
  return { type: 'ItemReplaced', collection, id, revision: 2, prior: id + 2, item: Document.of({ id, mac }) }
}

/** A store with the items 0 and 1, whose natural keys are "a" and "b", and a write after that. */
async function afterWrite(...events: readonly DomainEvent[]): Promise<Views> {
  const views = new Views(Store.temporary(), { keyFields: new Map([[collection, KEY]]) })
  await views.buildNaturalKeys()
  project(views, recordOf(1, [{ type: 'CollectionCreated', collection }, createdWith(0, 'a'), createdWith(1, 'b')]))
  project(views, recordOf(4, events))
  return views
}

const holderOf = (views: Views, mac: string) => views.find(collection)?.holderOf(naturalKeyOf({ mac }, KEY) as string)

test('items that exchange their natural keys in one write leave nothing for the next start to build', async () => {
  const views = await afterWrite(replacedWith(0, 'b'), replacedWith(1, 'a'))
  assert.deepEqual([holderOf(views, 'a'), holderOf(views, 'b')], ['1', '0'])
  assert.equal(views.hasNaturalKeys, true)
})

test('two items that have one natural key after a write are looked at by the next start', async () => {
  for (const events of [[replacedWith(0, 'b')], [createdWith(2, 'a')], [replacedWith(0, 'b'), createdWith(2, 'a')]]) {
    const views = await afterWrite(...events)
    assert.equal(views.hasNaturalKeys, false)
    await assert.rejects(views.buildNaturalKeys(), /have the same natural key/)
  }
})
