import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { BUCKETS } from '../../src/projections/event-counts.ts'
import { type EventAggregation, eventRows } from '../../src/projections/event-rows.ts'
import { Views } from '../../src/projections/views.ts'
import { parseWindow } from '../../src/query/aggregate/window.ts'
import { ENDLESS, type Turn } from '../../src/runtime/turns.ts'
import { created } from '../contract/journal.ts'
import { project, recordOf } from '../support/collections.ts'

const QUESTION: EventAggregation = { groupBy: ['type'], window: undefined, filter: {}, most: 100 }
const MINUTE_MS = BUCKETS.minute.ms

/** Views with so many events, one a minute. */
function viewsWith(events: number): Views {
  const views = Views.temporary()
  add(views, events)
  return views
}

function add(views: Views, events: number): void {
  for (let left = events; left > 0; left--) {
    const position = views.position + 1
    project(views, recordOf(position, [created(position)], position * MINUTE_MS))
  }
}

test('counts are those of the position at which the question began, whatever is written meanwhile', async () => {
  const views = viewsWith(600)
  let pauses = 0
  const turn: Turn = {
    ...ENDLESS,
    get isOver() {
      return pauses < 20
    },
    next: async () => {
      pauses++
      add(views, 50)
    },
  }
  for (const window of [undefined, parseWindow('1h'), parseWindow('7m')]) {
    pauses = 0
    const before = views.position
    const { rows, position } = await eventRows(views, { ...QUESTION, window, most: 10_000 }, turn)
    assert.equal(position, before)
    assert.equal(
      rows.reduce((sum, { count }) => sum + Number(count), 0),
      before,
    )
  }
})

test('counts of a write that is stored in parts are seen when it is visible', async () => {
  const views = viewsWith(3)
  const events: readonly DomainEvent[] = Array.from({ length: 20_000 }, (_, index) => created(4 + index))
  const stored = views.put([recordOf(4, events, 3 * MINUTE_MS)])
  assert.ok(stored instanceof Promise)
  assert.deepEqual((await eventRows(views, QUESTION, ENDLESS)).rows, [{ type: 'ItemCreated', count: 3 }])
  await stored
  assert.deepEqual((await eventRows(views, QUESTION, ENDLESS)).rows, [{ type: 'ItemCreated', count: 3 }])
  views.apply()
  assert.deepEqual((await eventRows(views, QUESTION, ENDLESS)).rows, [{ type: 'ItemCreated', count: 20_003 }])
})

test('counts of a transaction that failed are not stored', () => {
  const views = viewsWith(3)
  const failing = new Error('no transaction')
  const { set } = views.store
  const state: typeof set = (key, value) => {
    if (value.toString().includes('applied')) throw failing
    set.call(views.store, key, value)
  }
  views.store.set = state
  assert.throws(() => project(views, recordOf(4, [created(4)], MINUTE_MS)), failing)
  views.store.set = set
  project(views, recordOf(4, [created(4)], MINUTE_MS))
  const all = Array.from(views.eventCounts.between(BUCKETS.minute, 0, Number.POSITIVE_INFINITY, 4))
  assert.equal(
    all.reduce((sum, { count }) => sum + count, 0),
    4,
  )
})
