import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ListSubscriber } from '../../src/client/connection.ts'
import { connect, type ListChange } from '../../src/client/index.ts'
import { LiveList, type LiveListOptions } from '../../src/client/live-list.ts'
import { parseSort } from '../../src/json/order.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { each, sleep, until, within } from '../support/deadline.ts'
import { uncaughtError } from './host.ts'

const JOURNAL = 'a journal'

interface Thing {
  readonly id: number
  readonly n: number
}

/** A list, and what the connection would tell it. */
function listOf(
  sort: readonly string[] = [],
  readAll: () => Promise<JsonObject[]> = async () => [],
  replay?: LiveListOptions['replay'],
) {
  const settled: number[] = []
  let asked = 0
  const connection = {
    add: () => {},
    remove: () => {},
    subscribe: () => asked++,
    settled: (_: ListSubscriber, missed: number) => settled.push(missed),
  }
  const list = new LiveList<Thing>(connection, {
    collection: 'a',
    query: '',
    sort: sort.map(parseSort),
    window: undefined,
    select: undefined,
    replay,
    idOf: ({ id }) => id as number,
    readAll,
  })
  return {
    list,
    settled,
    asked: () => asked,
    shown: () => list.items.map(({ id, n }) => `${id}:${n}`).join(' '),
    begin: (position: number, ...items: Thing[]) =>
      list.answered({ subscription: '1', journal: JOURNAL, position, items: items.map((item) => ({ ...item })) }),
    goOn: (position: number) => list.answered({ subscription: '1', journal: JOURNAL, position }),
    put: (position: number, id: number, n: number) =>
      list.change({ subscription: '1', position, kind: 'update', id, item: { id, n } }),
    leave: (position: number, id: number) => list.change({ subscription: '1', position, kind: 'leave', id }),
  }
}

test('a list that lags behind continues only when it has caught up completely', () => {
  const { list, begin, put } = listOf()
  begin(5, { id: 1, n: 1 }, { id: 2, n: 1 })
  put(6, 1, 2)
  assert.equal(list.subscribeMessage.after, 6)
  list.lagging()
  put(20, 1, 3)
  list.notified(21)
  assert.equal(list.subscribeMessage.after, 6, 'an earlier change of another item may be to come')
  list.current(22)
  assert.equal(list.subscribeMessage.after, 22)
  list.notified(23)
  assert.equal(list.subscribeMessage.after, 23)
})

test('a connection that is lost while a client lags behind loses nothing', () => {
  const { list, begin, put, leave, goOn, shown, settled } = listOf()
  begin(5, { id: 1, n: 1 }, { id: 2, n: 1 })
  list.lagging()
  put(20, 1, 3)
  list.disconnected()
  assert.deepEqual(list.subscribeMessage, { collection: 'a', query: '', after: 5, journal: JOURNAL })
  goOn(5)
  leave(10, 2)
  put(12, 1, 2)
  assert.equal(shown(), '1:3 2:1', 'nothing is shown that is older than what was')
  put(20, 1, 3)
  list.current(25)
  assert.equal(shown(), '1:3')
  assert.deepEqual([list.position, settled], [25, [0, 3]])
})

test('an interrupted catch-up continues where it stopped', () => {
  const { list, begin, put, goOn, shown } = listOf()
  begin(5)
  list.disconnected()
  goOn(5)
  put(7, 1, 1)
  put(8, 2, 2)
  list.notified(30)
  list.disconnected()
  assert.equal(list.subscribeMessage.after, 8)
  assert.equal(shown(), '1:1 2:2')
  goOn(8)
  list.disconnected()
  assert.equal(list.subscribeMessage.after, 8)
})

test('a list whose first items were old when they arrived is not ahead of the changes that follow', () => {
  const { list, put, shown } = listOf()
  list.answered({ subscription: '1', journal: JOURNAL, position: 5, items: [], behind: true })
  list.notified(30)
  assert.equal(list.position, 5)
  put(7, 1, 1)
  list.notified(31)
  list.disconnected()
  assert.deepEqual([shown(), list.subscribeMessage.after], ['1:1', 7])
  list.answered({ subscription: '2', journal: JOURNAL, position: 7, items: [{ id: 1, n: 1 }], behind: true })
  put(8, 2, 2)
  list.current(31)
  list.notified(32)
  assert.deepEqual([shown(), list.position], ['1:1 2:2', 32])
})

test('an item whose content is the same in a list that is read anew stays the same object', () => {
  const { list, begin } = listOf()
  const changes: ListChange<Thing>[] = []
  begin(5, { id: 1, n: 1 }, { id: 2, n: 1 })
  list.onChange((change) => changes.push(change))
  const [first, second] = list.items
  list.disconnected()
  begin(9, { id: 1, n: 1 }, { id: 2, n: 7 })
  assert.equal(list.items[0], first)
  assert.deepEqual(
    changes.map(({ updated }) => updated),
    [[{ item: { id: 2, n: 7 }, before: second }]],
  )
})

test('an interrupted replay continues from the moment it shows, and one that has reached the present stays live', () => {
  const { list, begin, put, goOn, shown, settled } = listOf([], undefined, { from: '2026-01-01', speed: 60 })
  const resets: boolean[] = []
  list.onChange(({ wasReset }) => resets.push(wasReset))
  assert.deepEqual(list.subscribeMessage, { collection: 'a', query: '', from: '2026-01-01', speed: 60 })
  begin(5, { id: 1, n: 1 })
  list.notified(90)
  put(7, 2, 2)
  assert.deepEqual([list.position, list.isReplaying], [7, true])
  list.disconnected()
  assert.deepEqual(list.subscribeMessage, { collection: 'a', query: '', from: 7, speed: 60 })
  begin(7, { id: 1, n: 1 }, { id: 2, n: 2 })
  put(8, 2, 3)
  list.current(91)
  assert.deepEqual([shown(), list.position, list.isReplaying], ['1:1 2:3', 91, false])
  list.disconnected()
  assert.deepEqual(list.subscribeMessage, { collection: 'a', query: '', after: 91, journal: JOURNAL })
  goOn(91)
  list.current(92)
  assert.deepEqual(resets, [false, false, false], 'the same items again are no change')
  assert.deepEqual(settled, [0, 0, 0, 0])
})

test('equal items are ordered by id, numbers before text', () => {
  const { list, begin } = listOf(['-n'])
  begin(
    1,
    ...([
      { id: 10, n: 1 },
      { id: 9, n: 1 },
      { id: 'b', n: 1 },
      { id: 'B', n: 1 },
      { id: 3, n: 2 },
      { id: 4 },
    ] as Thing[]),
  )
  assert.deepEqual(
    list.items.map(({ id }) => id),
    [3, 9, 10, 'B', 'b', 4],
  )
  list.change({ subscription: '1', position: 2, kind: 'update', id: 3, item: { id: 3, n: 0 } })
  assert.deepEqual(
    list.items.map(({ id }) => id),
    [9, 10, 'B', 'b', 3, 4],
  )
})

test('the removal of an unknown item changes nothing and calls no listener', () => {
  const { list, begin, leave } = listOf()
  begin(1)
  let calls = 0
  list.onChange(() => calls++)
  leave(2, 7)
  assert.deepEqual([list.position, calls], [2, 0])
})

test('reloading a large list stops with the connection', async () => {
  let reads = 0
  const { list, asked } = listOf([], async () => {
    reads++
    throw new TypeError('fetch failed')
  })
  list.answered({ error: 'TooLarge', message: '', position: 9, journal: JOURNAL })
  list.disconnected()
  await sleep(0)
  assert.deepEqual([reads, asked(), list.subscribeMessage.after], [1, 0, undefined])
})

test('a large list that cannot be followed after it was read is not read again without a pause', async (t) => {
  let reads = 0
  const { list, asked } = listOf([], async () => {
    reads++
    return [{ id: reads, n: 1 }]
  })
  t.after(() => list.close())
  const refuse = async (position: number) => {
    list.answered({ error: 'TooLarge', message: '', position, journal: JOURNAL })
    for (let turn = 0; turn < 5; turn++) await sleep(0)
  }
  await refuse(9)
  assert.deepEqual([reads, asked(), list.position], [1, 1, 9])
  await refuse(20)
  assert.deepEqual([reads, asked(), list.position], [1, 1, 9])
})

test('a list for which the server has no memory is requested again after a pause', async (t) => {
  const { list, asked, begin, shown } = listOf()
  t.after(() => list.close())
  list.answered({ error: 'Busy', message: 'The memory is in use.' })
  assert.equal(asked(), 0)
  await until('the second request', () => asked() === 1)
  begin(3, { id: 1, n: 1 })
  assert.equal(shown(), '1:1')
  assert.equal(list.error, undefined)
})

test('a list for which the server has no memory is not requested again after it was closed', async () => {
  const { list, asked } = listOf()
  list.answered({ error: 'Busy', message: '' })
  list.disconnected()
  await sleep(0)
  list.answered({ error: 'Busy', message: '' })
  list.close()
  await sleep(0)
  assert.equal(asked(), 0)
})

test('an exception of one listener affects neither other listeners nor the list', async (t) => {
  const { list, begin } = listOf()
  const thrown = uncaughtError(t)
  const told: number[] = []
  list.onChange(() => {
    throw new Error('a mistake')
  })
  list.onChange(({ position }) => told.push(position))
  begin(3)
  assert.deepEqual(told, [3])
  assert.equal(((await thrown) as Error).message, 'a mistake')
})

test('closing a list before it is ready rejects its pending promises', async () => {
  const { list } = listOf()
  list.close()
  await assert.rejects(within('the items of a live list', list.ready), { code: 'Closed' })
  for await (const _ of each('a change of the list', list)) assert.fail('there is nothing')
})

test('a live list is not sorted or shown by $received, which changes do not have', () => {
  const things = connect('http://localhost:1').collection<Thing>('a')
  for (const query of [things.sort('-$received'), things.sort('n', '$received_asc'), things.fields('n', '$received')]) {
    assert.throws(() => query.live(), TypeError)
    assert.throws(() => query.replay({ from: 1 }), TypeError)
  }
})
