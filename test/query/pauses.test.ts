import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '../../src/collections/item.ts'
import { jsonWriter } from '../../src/http/formats/writers.ts'
import { selectionOf } from '../../src/json/paths.ts'
import type { Grouping } from '../../src/query/aggregate/aggregation.ts'
import { groupPage } from '../../src/query/aggregate/group-query.ts'
import { PresentSnapshot } from '../../src/query/collection-snapshot.ts'
import { embed, type Match } from '../../src/query/embedding.ts'
import { findPlaces, visitMatches } from '../../src/query/index/finder.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { NO_PAGE } from '../../src/query/result-cursor.ts'
import type { Turn } from '../../src/runtime/turns.ts'
import type { SubscriptionFilter } from '../../src/sockets/subscribe-request.ts'
import { SubscriptionIndex } from '../../src/sockets/subscription-index.ts'
import { collectionOf } from '../support/collections.ts'

/** A turn that is over at each look. */
class CountedTurn implements Turn {
  readonly isOver = true
  estimatedMs = 0
  pauses = 0

  hold(): void {}

  async next(): Promise<void> {
    this.pauses++
  }
}

function queryOf(search: string) {
  return parseQuery(parseParameters(search, 1000), { parameters: 1000, pageSize: 1000 })
}

for (const search of ['text=x', 'text=x&sort=text', 'sort=text', 'aggregate=count']) {
  test(`a scan pauses at each item: ${search}`, async () => {
    const { collection } = collectionOf(Array.from({ length: 100 }, () => ({ text: 'x' })))
    const snapshot = new PresentSnapshot(collection, [])
    const turn = new CountedTurn()
    const query = queryOf(search)
    if (query.grouping) await visitMatches(snapshot, query, undefined, () => {}, turn)
    else assert.equal((await findPlaces(snapshot, query, undefined, turn)).total, 100)
    assert.ok(turn.pauses >= 100, `${turn.pauses} pauses`)
    snapshot.release()
  })
}

test('the selection of fields from a page pauses at each item', async () => {
  const items = Array.from({ length: 100 }, (_, id) => ({ text: `{"id":${id},"n":1}` }))
  const turn = new CountedTurn()
  await jsonWriter(selectionOf([['n']])).part(items, turn)
  assert.ok(turn.pauses >= 100, `${turn.pauses} pauses`)
})

test('rows with the spellings of event times pause at each of these', async () => {
  const times = Array.from({ length: 50 }, (_, n) => ({ n, time: `2026-11-20T10:00:${String(n).padStart(2, '0')}` }))
  const { collection } = collectionOf(times)
  const snapshot = new PresentSnapshot(collection, [])
  const parameters = parseParameters('aggregate=min(time),max(time)&groupBy=n', 1000)
  const query = parseQuery(parameters, { parameters: 1000, pageSize: 1000 }, { time: ['time'] })
  const turn = new CountedTurn()
  const { total } = await groupPage(snapshot, query, query.grouping as Grouping, undefined, turn)
  assert.equal(total, 50)
  // One for each item that is scanned, for each row and each of its times, and for each row as text.
  assert.ok(turn.pauses >= 50 * (1 + 1 + 2 + 1), `${turn.pauses} pauses`)
  snapshot.release()
})

test('rows, groups and the newest items are sorted with pauses', async () => {
  const count = 1000
  // Between two pauses at most so many are sorted, or merged.
  const atOnce = 64
  const items = Array.from({ length: count }, (_, n) => ({ text: `${(n * 7919) % count}`, time: n }))
  const { collection } = collectionOf(items)
  const pausesOf = async (search: string): Promise<number> => {
    const snapshot = new PresentSnapshot(collection, [])
    const query = parseQuery(parseParameters(search, 1000), { parameters: 1000, pageSize: 1000 }, { time: ['time'] })
    const turn = new CountedTurn()
    const { total } = await groupPage(snapshot, query, query.grouping as Grouping, undefined, turn)
    assert.equal(total, count)
    snapshot.release()
    return turn.pauses
  }
  const sorting = (count / atOnce) * Math.log2(count / atOnce)
  const rows = await pausesOf('aggregate=max(text)&groupBy=text')
  // One for each item, and for its group, its row and its row as text.
  assert.ok(rows >= count * 4 + sorting, `${rows} pauses`)
  const sorted = await pausesOf('aggregate=max(text)&groupBy=text&sort=-max(text)')
  assert.ok(sorted >= rows + count + sorting, `${sorted} pauses`)
  const newest = await pausesOf('newestBy=text')
  assert.ok(newest >= count + sorting, `${newest} pauses`)
})

test('a change pauses at each field by which subscriptions are found', async () => {
  const index = new SubscriptionIndex<string>()
  for (let n = 0; n < 100; n++) {
    const filters = queryOf(`a.b${n}=1`).filters
    index.add(`subscription ${n}`, { filters } as unknown as SubscriptionFilter)
  }
  const turn = new CountedTurn()
  assert.deepEqual([...(await index.concernedBy({ a: { b7: 1 } }, turn))], ['subscription 7'])
  assert.ok(turn.pauses >= 100, `${turn.pauses} pauses`)
})

test('embedding in a page of thousands of items compares no item with thousands of keys', async () => {
  const writer = collectionOf(Array.from({ length: 100 }, (_, id) => ({ id, postId: [id, 1] })))
  const snapshot = new PresentSnapshot(writer.collection, [])
  const related = { member: 'comments', collection: 'comments', field: 'postId', isMany: true, snapshot }
  const items = Array.from({ length: 9000 }, (_, id) => ({ id, key: String(id), text: `{"id":${id}}`, timeMs: 0 }))
  let mostOperands = 0
  const match: Match = async (_, { filters }, each, turn) => {
    for (const { operands } of filters) mostOperands = Math.max(mostOperands, operands.length)
    await visitMatches(snapshot, { ...NO_PAGE, filters, others: [], sort: [] }, undefined, each, turn)
  }
  const turn = new CountedTurn()
  const texts = await embed(items as unknown as readonly Item[], undefined, [related], 10_000, match, turn)
  const embedded = texts.map(({ text }) => (JSON.parse(text) as { comments: readonly unknown[] }).comments.length)
  assert.deepEqual(embedded.slice(0, 3), [1, 100, 1])
  assert.equal(
    embedded.reduce((sum, one) => sum + one),
    199,
  )
  assert.ok(mostOperands <= 64)
  assert.ok(turn.pauses >= 9000)
  snapshot.release()
})
