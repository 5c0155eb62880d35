import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import type { DomainEvent, ItemId } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { keyedKey, numberedKey, TAG } from '../../src/store/keys.ts'
import { sliceOf } from '../support/collections.ts'

const ITEMS = 200

function created(id: ItemId): DomainEvent {
  return { type: 'ItemCreated', collection: 'c', id, revision: 1, prior: 0, item: Document.of({ id }) }
}

/** A collection of numbered and named items, one of which was deleted. */
function filled(): Views {
  const views = Views.temporary()
  const ids: ItemId[] = Array.from({ length: ITEMS }, (_, index) => (index % 2 === 0 ? index : `k${index}`))
  const events: DomainEvent[] = [
    { type: 'CollectionCreated', collection: 'c' },
    ...ids.map(created),
    { type: 'ItemDeleted', collection: 'c', id: 'k51', revision: 2, prior: 53 },
  ]
  let position = 1
  for (const event of events) {
    const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
    views.replay({ position: position++, ...written, events: [event] })
  }
  views.replayed()
  return views
}

/** Reads of a collection, and whether each rests on the row of place 50, which item 50 has, or 51, which `k51` had. */
const READS: Readonly<Record<string, (views: Views) => unknown>> = {
  'an item by its number': (views) => views.find('c')?.item('50'),
  'an item by its name': (views) => views.find('c')?.item('k51'),
  'all items': (views) => Array.from(views.find('c')?.items() ?? []),
  'a page': (views) => sliceOf(views.find('c') as Collection, 40, 20),
  'the next place': (views) => [views.find('c')?.seek(50), views.find('c')?.seek(51)],
  'an item at its place': (views) => [views.find('c')?.itemAt(50), views.find('c')?.itemAt(51)],
  'all items of a snapshot': (views) => Array.from(views.snapshot().get('c')?.items() ?? []),
}

type Damage = (views: Views, table: number) => void

const DAMAGES: Readonly<Record<string, { readonly damage: Damage; readonly exceptFor?: readonly string[] }>> = {
  'the record of an item is missing': {
    damage: ({ store }, table) => store.transaction(() => store.remove(numberedKey(TAG.item, table, 50))),
    exceptFor: ['an item by its name'],
  },
  'the record of a deleted item is missing': {
    damage: ({ store }, table) => store.transaction(() => store.remove(numberedKey(TAG.item, table, 51))),
    exceptFor: ['an item by its number'],
  },
  'the record of an item says that it was deleted': {
    damage: (views, table) => flip(views, table, 50),
    exceptFor: ['an item by its name'],
  },
  'a key has the place of another item': {
    damage: ({ store }, table) => {
      const elsewhere = Buffer.from(store.newest(keyedKey(TAG.place, table, 'k61')) as Buffer)
      store.transaction(() => store.set(keyedKey(TAG.place, table, 'k51'), elsewhere))
    },
    exceptFor: Object.keys(READS).filter((read) => read !== 'an item by its name'),
  },
}

/** Changes the flag of one that is gone. */
function flip({ store }: Views, table: number, place: number): void {
  const record = Buffer.from(store.newest(numberedKey(TAG.item, table, place)) as Buffer)
  record[32] = (record[32] as number) ^ 1
  store.transaction(() => store.set(numberedKey(TAG.item, table, place), record))
}

for (const [what, { damage, exceptFor = [] }] of Object.entries(DAMAGES)) {
  test(`${what}: nothing that depends on it is answered`, () => {
    for (const [read, ask] of Object.entries(READS)) {
      const views = filled()
      const damages: Error[] = []
      views.store.damaged = (error) => damages.push(error)
      damage(views, views.find('c')?.facts.table as number)
      if (exceptFor.includes(read)) ask(views)
      else assert.throws(() => ask(views), { code: 'Unavailable' }, read)
      assert.equal(damages.length, exceptFor.includes(read) ? 0 : 1, read)
    }
  })
}

test('a write that moves a damaged record does not give it a valid checksum', () => {
  const views = filled()
  flip(views, views.find('c')?.facts.table as number, 50)
  const ids = Array.from({ length: 20 }, (_, index) => 40 - 2 * index)
  const written = { time: '2026-11-20T12:00:00.000Z', actor: 'a', requestId: 'r' }
  views.replay({
    position: views.position + 1,
    ...written,
    events: [{ type: 'CollectionOrdered', collection: 'c', ids }],
  })
  assert.throws(() => views.replayed(), { code: 'Unavailable' })
})
