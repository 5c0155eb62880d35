import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AccessPaths } from '../../src/query/index/access.ts'
import { Matching } from '../../src/query/index/matcher.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
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
