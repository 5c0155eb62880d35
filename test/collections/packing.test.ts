import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { BLOCK_PLACES } from '../../src/collections/blocks.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import { Views } from '../../src/projections/views.ts'
import { blockKey, PREFIX_BYTES, positionOf, prefixEnd, TAG, tableKey } from '../../src/store/keys.ts'
import { project, recordOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { begun, created, deleted, replaced } from '../support/decider.ts'
import { makeFormat7 } from '../support/format-5.ts'

const ITEMS = 3200
/** Items that were created within so many events are not packed. */
const NEW_EVENTS = 1024
/** A changed item is packed after so many events. */
const QUIET_EVENTS = 50_000

/** Views of a collection with items of about so many characters, each with a row. */
function unpacked(t: TestContext, { items = ITEMS, characters = 40 } = {}): Views {
  const views = Views.temporary()
  t.after(() => views.end())
  const text = 'x'.repeat(characters)
  store(views, [begun, ...Array.from({ length: items }, (_, id) => created({ id, text }))])
  views.store.transaction(() => makeFormat7(views.store))
  return views
}

function store(views: Views, events: readonly DomainEvent[]): void {
  const first = views.position + 1
  project(views, ...events.map((event, index) => recordOf(first + index, [event])))
}

/** Stores so many events of another collection. */
function passEvents(views: Views, events: number): void {
  const reset: DomainEvent = { type: 'IdsReset', collection: 'other', nextId: 0 }
  store(
    views,
    Array.from({ length: events }, () => reset),
  )
}

/** The places whose items have rows. */
function rowsOf(views: Views): number[] {
  const prefix = tableKey(TAG.item, views.find('things')?.facts.table as number)
  return views.store.rows(prefix, prefixEnd(prefix)).map(({ key }) => positionOf(key, PREFIX_BYTES))
}

function blocksOf(views: Views): number {
  const table = views.find('things')?.facts.table as number
  return views.store.rows(blockKey(table, 0), prefixEnd(tableKey(TAG.place, table))).length
}

function textsOf(items: Iterable<{ readonly text: string }> | undefined): string[] {
  return Array.from(items ?? [], ({ text }) => text)
}

test('items with rows are packed in the background, except the newest, and are the same meanwhile', async (t) => {
  const views = unpacked(t)
  const expected = textsOf(views.find('things')?.items())
  const snapshot = views.snapshot()
  const pass = views.pack()
  let looks = 0
  await until('some blocks', () => {
    looks++
    assert.deepEqual(textsOf(views.find('things')?.items()), expected)
    return blocksOf(views) > 0
  })
  await pass
  assert.ok(looks > 0)
  const rows = rowsOf(views)
  const firstNew = Math.floor((ITEMS - NEW_EVENTS) / BLOCK_PLACES) * BLOCK_PLACES
  assert.ok(rows.length <= ITEMS - firstNew && rows.every((place) => place >= firstNew), String(rows[0]))
  assert.deepEqual(textsOf(views.find('things')?.items()), expected)
  assert.deepEqual(textsOf(snapshot.get('things')?.items()), expected)
  snapshot.close()
})

test('items that are created by one transaction are in blocks at once', () => {
  const views = Views.temporary()
  project(
    views,
    recordOf(1, [begun]),
    recordOf(
      2,
      Array.from({ length: 100 }, (_, id) => created({ id })),
    ),
  )
  assert.equal(blocksOf(views), 3)
  assert.deepEqual(rowsOf(views), [96, 97, 98, 99])
})

test('items that have changed leave their block, and are packed again when 8 of it have not changed for 50,000 events', async (t) => {
  const views = unpacked(t, { items: 64 + NEW_EVENTS })
  await views.pack()
  assert.ok(rowsOf(views).every((place) => place >= 64))
  const changed = [...[1, 2, 3, 4, 5, 6, 7, 8], ...[32, 33, 34, 35, 36, 37, 38]]
  store(
    views,
    changed.map((id) => replaced({ id, n: 1 }, { revision: 2, prior: id + 2 })),
  )
  const before = rowsOf(views).filter((place) => place < 64)
  assert.deepEqual(before, changed)
  await views.pack()
  assert.deepEqual(
    rowsOf(views).filter((place) => place < 64),
    changed,
  )
  passEvents(views, QUIET_EVENTS)
  const expected = textsOf(views.find('things')?.items())
  await views.pack()
  assert.deepEqual(
    rowsOf(views).filter((place) => place < 64),
    changed.slice(8),
  )
  assert.deepEqual(textsOf(views.find('things')?.items()), expected)
})

test('a block is removed with its last item', async (t) => {
  const views = unpacked(t, { items: 64 + NEW_EVENTS })
  await views.pack()
  const before = blocksOf(views)
  const deletion = (id: number): DomainEvent => deleted(id, { revision: 2, prior: id + 2 })
  store(
    views,
    Array.from({ length: 31 }, (_, id) => deletion(id)),
  )
  assert.equal(blocksOf(views), before)
  store(views, [deletion(31)])
  assert.equal(blocksOf(views), before - 1)
  assert.equal(views.find('things')?.size, 32 + NEW_EVENTS)
})

test('long items keep their rows', async (t) => {
  const views = unpacked(t, { items: 64 + NEW_EVENTS, characters: 600 })
  await views.pack()
  assert.equal(blocksOf(views), 0)
  store(
    views,
    Array.from({ length: 64 }, (_, n) => created({ id: 10_000 + n, text: 'x'.repeat(600) })),
  )
  assert.equal(blocksOf(views), 0)
})

test('packing waits while the disk is full, and ends with the views', async (t) => {
  const views = unpacked(t)
  const { transaction } = views.store
  let isFull = true
  let attempts = 0
  t.mock.method(views.store, 'transaction', (work: () => unknown) => {
    attempts++
    if (isFull) throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
    return transaction.call(views.store, work)
  })
  const pass = views.pack()
  await until('an attempt', () => attempts > 1)
  assert.equal(blocksOf(views), 0)
  isFull = false
  await pass
  assert.ok(blocksOf(views) > 0)

  const others = unpacked(t)
  const ended = others.pack()
  others.end()
  await ended
  assert.equal(blocksOf(others), 0)
})

test('a scan reads each block once', async (t) => {
  const views = unpacked(t)
  await views.pack()
  const newest = t.mock.method(views.store, 'newest')
  assert.equal(textsOf(views.find('things')?.items()).length, ITEMS)
  // Each row, and each block or its absence.
  const most = rowsOf(views).length + ITEMS / BLOCK_PLACES
  assert.ok(newest.mock.callCount() <= most, `${newest.mock.callCount()} of ${most}`)
})
