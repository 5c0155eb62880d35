import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Item } from '../../src/collections/item.ts'
import { PresentSnapshot } from '../../src/query/collection-snapshot.ts'
import { embed, type ItemText, type Match } from '../../src/query/embedding.ts'
import { AccessPaths } from '../../src/query/index/access.ts'
import { matches } from '../../src/query/index/finder.ts'
import { Matching } from '../../src/query/index/matcher.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { NO_PAGE } from '../../src/query/result-cursor.ts'
import type { Steps } from '../../src/runtime/time-slices.ts'
import { collectionOf } from '../support/collections.ts'

function yieldsOf(steps: Steps<unknown>): number {
  let count = 0
  while (!steps.next().done) count++
  return count
}

test('choosing an index for a thousand filters yields many times', () => {
  const search = Array.from({ length: 1000 }, (_, index) => `a.m${index}_ne=0`).join('&')
  const query = parseQuery(parseParameters(search, 1000), { parameters: 1000, pageSize: 1 })
  assert.ok(yieldsOf(AccessPaths.of(query)) >= 60)
})

test('a scan yields after a few thousand characters, even with very short items', () => {
  const yieldsOfScan = (text: string, count: number): number => {
    const items = collectionOf(Array.from({ length: count }, () => ({ text }))).collection.held()
    const matching = new Matching(items, { filters: [], mentioned: [] })
    let yields = 0
    for (let place = 0; place < items.places; place++) yields += yieldsOf(matching.valueAt(place))
    items.release()
    return yields
  }
  assert.ok(yieldsOfScan('x'.repeat(1000), 100) >= 20)
  assert.ok(yieldsOfScan('', 1000) >= 20)
})

test('embedding in a page of thousands of items compares no item with thousands of keys', () => {
  const writer = collectionOf(Array.from({ length: 100 }, (_, id) => ({ id, postId: [id, 1] })))
  const snapshot = new PresentSnapshot(writer.collection, [])
  const related = { member: 'comments', collection: 'comments', field: 'postId', isMany: true, snapshot }
  const items = Array.from({ length: 9000 }, (_, id) => ({ id, key: String(id), text: `{"id":${id}}`, timeMs: 0 }))
  let mostOperands = 0
  const match: Match = function* (_, { filters }, each) {
    for (const { operands } of filters) mostOperands = Math.max(mostOperands, operands.length)
    yield* matches(snapshot, { ...NO_PAGE, filters, mentioned: [], sort: [] }, undefined, each)
  }
  const steps = embed(items as unknown as readonly Item[], undefined, [related], 10_000, match)
  let texts: readonly ItemText[] | undefined
  let yields = 0
  for (let step = steps.next(); ; step = steps.next(), yields++) {
    if (!step.done) continue
    texts = step.value
    break
  }
  const embedded = texts.map(({ text }) => (JSON.parse(text) as { comments: readonly unknown[] }).comments.length)
  assert.deepEqual(embedded.slice(0, 3), [1, 100, 1])
  assert.equal(
    embedded.reduce((sum, one) => sum + one),
    199,
  )
  assert.ok(mostOperands <= 64)
  assert.ok(yields >= 9000)
  snapshot.release()
})
