import assert from 'node:assert/strict'
import { test } from 'node:test'
import { naturalKeyOf } from '../../src/collections/natural-keys.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { Store } from '../../src/store/store.ts'
import { project, recordOf } from '../support/collections.ts'

const KEY = { fields: [['mac']], timePart: -1 }
const collection = 'readings'

function created(id: number, mac: string): DomainEvent {
  return { type: 'ItemCreated', collection, id, revision: 1, prior: 0, item: Document.of({ id, mac }) }
}

function replaced(id: number, mac: string): DomainEvent {
  return { type: 'ItemReplaced', collection, id, revision: 2, prior: id + 2, item: Document.of({ id, mac }) }
}

/** A store with the items 0 and 1, whose natural keys are "a" and "b", and a write after that. */
async function afterWrite(...events: readonly DomainEvent[]): Promise<Views> {
  const views = new Views(Store.temporary(), { keyFields: new Map([[collection, KEY]]) })
  await views.buildNaturalKeys()
  project(views, recordOf(1, [{ type: 'CollectionCreated', collection }, created(0, 'a'), created(1, 'b')]))
  project(views, recordOf(4, events))
  return views
}

const holderOf = (views: Views, mac: string) => views.find(collection)?.holderOf(naturalKeyOf({ mac }, KEY) as string)

test('items that exchange their natural keys in one write leave nothing for the next start to build', async () => {
  const views = await afterWrite(replaced(0, 'b'), replaced(1, 'a'))
  assert.deepEqual([holderOf(views, 'a'), holderOf(views, 'b')], ['1', '0'])
  assert.equal(views.hasNaturalKeys, true)
})

test('two items that have one natural key after a write are looked at by the next start', async () => {
  for (const events of [[replaced(0, 'b')], [created(2, 'a')], [replaced(0, 'b'), created(2, 'a')]]) {
    const views = await afterWrite(...events)
    assert.equal(views.hasNaturalKeys, false)
    await assert.rejects(views.buildNaturalKeys(), /have the same natural key/)
  }
})
