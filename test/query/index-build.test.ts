import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import { parsePath } from '../../src/json/paths.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { recordOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { begun, created, deleted, replaced } from '../support/decider.ts'

const INDEXES = ['a', 'b'].map((path) => [parsePath(path)])

/** Views with an empty collection whose configured indexes are being built. */
function configured(): { readonly views: Views; readonly queries: Queries } {
  const views = Views.temporary()
  const queries = new Queries({ views, bytes: 0, collections: { things: { indexes: INDEXES } } })
  views.replay(recordOf(1, [begun]))
  views.replayed()
  queries.apply()
  return { views, queries }
}

async function allBuilt(views: Views): Promise<void> {
  await until('the indexes to be built', () => views.indexes.all.filter(({ isBuilt }) => isBuilt).length === 2)
}

test('an item that is written while an index becomes complete is in it', async () => {
  // The end of a build takes a few turns of the microtask queue; the next write may come between any of them.
  for (let turns = 0; turns < 30; turns++) {
    const { views } = configured()
    for (let turn = 0; turn < turns; turn++) await undefined
    views.put([recordOf(2, [created({ id: 1, a: 1, b: 2 })])])
    views.apply()
    await allBuilt(views)
    for (const { tree, name } of views.indexes.all) assert.equal(tree.size, 1, `${name} after ${turns} turns`)
    views.put([recordOf(3, [deleted(1, { revision: 2, prior: 2 })])])
  }
})

test('changes that a full disk interrupts are in the index', async (t) => {
  const { views } = configured()
  await allBuilt(views)
  const { store, indexes } = views
  const { table } = (views.find('things') as Collection).facts
  const ids = [1, 2, 3, 4]
  const made = ids.map((id) => created({ id, c: id }))
  views.put([recordOf(2, made)])
  views.apply()
  const transaction = store.transaction.bind(store)
  let transactions = 0
  let ms = 0
  // The build makes two changes in a transaction.
  t.mock.method(performance, 'now', () => (ms += 3))
  t.mock.method(store, 'transaction', (work: () => void) => {
    const number = ++transactions
    transaction(() => {
      work()
      if (number === 4) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
    })
    if (number !== 2) return
    const events = ids.map((id) => replaced({ id, c: -id }, { revision: 2, prior: id + 1 }))
    views.put([recordOf(6, events)])
    views.apply()
  })
  await indexes.build(table, 'things', [parsePath('c')])
  const gone = ids.map((id) => deleted(id, { revision: 3, prior: id + 5 }))
  views.put([recordOf(10, gone)])
  assert.ok(transactions > 5)
  for (const { tree } of indexes.all) assert.equal(tree.size, 0)
})

test('a collection that gets a new order while its indexes are built has none for its earlier order', async () => {
  const { views, queries } = configured()
  await allBuilt(views)
  const ids = Array.from({ length: 5000 }, (_, id) => id)
  const events = ids.map((id) => created({ id, a: id, b: id }))
  views.replay(recordOf(2, events))
  views.replay(recordOf(5002, [{ type: 'CollectionOrdered', collection: 'things', ids: [3] }]))
  views.replayed()
  queries.apply()
  views.replay(recordOf(5003, [{ type: 'CollectionOrdered', collection: 'things', ids: [5] }]))
  views.replayed()
  queries.apply()
  const table = views.find('things')?.facts.table
  const mine = () => views.indexes.all.filter((index) => index.table === table)
  await until('the indexes to be built', () => mine().filter(({ isBuilt }) => isBuilt).length === 2)
  assert.deepEqual(
    views.indexes.all.map((index) => [index.table, index.name]),
    mine().map((index) => [index.table, index.name]),
  )
})
