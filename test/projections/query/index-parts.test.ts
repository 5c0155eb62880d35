import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Collection } from '../../../src/collections/collection.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { PlaceSet } from '../../../src/projections/query/indexes/place-set.ts'
import { Ranking } from '../../../src/projections/query/indexes/ranking.ts'
import { Indexes } from '../../../src/projections/query/indexes.ts'
import { parseParameters, parseQuery } from '../../../src/projections/query/query.ts'
import { collectionOf as writerOf } from '../../support/collections.ts'
import { Random, seedFor } from '../../support/random.ts'
import { scan } from './scan.ts'

const ROOM = 2 ** 30
/** Changes of a collection, after each of which every query is asked again. */
const ROUNDS = Number(process.env.INDEX_ROUNDS ?? 60)
const random = new Random(seedFor('index parts'))

function queryOf(search: string) {
  return parseQuery(parseParameters(search, 100), { parameters: 100, pageSize: 10_000 })
}

const collectionOf = (bodies: readonly JsonObject[]): Collection => writerOf(bodies).collection

test('a ranking knows every rank while places come and go', () => {
  const keys = Array.from({ length: 50_000 }, () => random.integer(500))
  const compare = (a: number, b: number) => (keys[a] as number) - (keys[b] as number) || a - b
  const ranking = new Ranking(compare)
  const half = Uint32Array.from(keys.keys())
    .filter((place) => place % 2 === 0)
    .sort(compare)
  assert.ok([...ranking.fill(half)].length > 1, 'others have a turn while it is filled')
  const model = new Set(half)
  for (let round = 0; round < 40; round++) {
    for (let count = 0; count < 3000; count++) {
      const place = random.integer(keys.length)
      const isIn = model.has(place)
      if (isIn && random.chance(round < 15 ? 0.2 : 0.9)) {
        ranking.remove(place)
        model.delete(place)
      } else if (!isIn) {
        ranking.insert(place)
        model.add(place)
      }
    }
    const sorted = [...model].sort(compare)
    assert.equal(ranking.size, sorted.length)
    assert.deepEqual([...ranking.slice(0, ranking.size)], sorted)
    const rank = random.integer(sorted.length)
    assert.equal(ranking.at(rank), sorted[rank])
    assert.equal(ranking.rankOf(sorted[rank] as number), rank)
    const part = sorted.slice(rank, rank + random.pick([0, 20, 9000]))
    assert.deepEqual([...ranking.slice(rank, rank + part.length)], part)
    assert.deepEqual(ranking.list(rank, rank + part.length), part)
  }
  for (const place of model) ranking.remove(place)
  assert.deepEqual([ranking.size, ranking.bytes], [0, 0])
  for (let place = 0; place < 20_000; place++) ranking.insert(place)
  assert.equal(ranking.size, 20_000)
})

test('a set of places is a set, in order', () => {
  const set = new PlaceSet(10)
  const model = new Set<number>()
  for (let round = 0; round < 3000; round++) {
    const place = random.integer(2000)
    if (random.chance(0.6)) {
      set.add(place)
      model.add(place)
    } else {
      set.delete(place)
      model.delete(place)
    }
    assert.equal(set.has(place), model.has(place))
  }
  const sorted = [...model].sort((a, b) => a - b)
  assert.equal(set.size, sorted.length)
  for (const offset of [0, 1, 31, 32, 33, 500, sorted.length]) {
    assert.deepEqual(set.slice(offset, 40), sorted.slice(offset, offset + 40))
  }
})

test('a field of a small collection gets an index when it is asked for again, of a large one at once', async () => {
  const small = collectionOf(Array.from({ length: 100 }, (_, n) => ({ n })))
  const indexes = new Indexes({ bytes: ROOM })
  const ask = (collection: Collection) => indexes.answer(collection, queryOf('n_gt=5&sort=-n&pageSize=3'), () => 0)
  await ask(small)
  assert.deepEqual(indexes.list(), [])
  await ask(small)
  assert.deepEqual(
    indexes.list().map(({ path, partial, entries, uses }) => ({ path, partial, entries, uses })),
    [{ path: 'n', partial: 0, entries: 100, uses: 2 }],
  )
  await ask(collectionOf(Array.from({ length: 2000 }, (_, n) => ({ n }))))
  assert.equal(indexes.list().length, 2)
})

test('of the fields that one query asks for, each is indexed once, however many ask at the same time', async () => {
  const collection = collectionOf(Array.from({ length: 3000 }, (_, n) => ({ n, m: -n })))
  const indexes = new Indexes({ bytes: ROOM })
  const ask = () => indexes.answer(collection, queryOf('n_gt=5&m_lt=-7&sort=-n&pageSize=3'), () => 0)
  const answers = await Promise.all([ask(), ask(), ask()])
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
  assert.deepEqual(
    indexes.list().map(({ path }) => path),
    ['n', 'm'],
  )
})

test('what was used least is dropped when there is no room, and is built again when it is asked for', async () => {
  const collection = collectionOf(Array.from({ length: 2000 }, (_, n) => ({ a: n, b: n, c: n })))
  const one = new Indexes({ bytes: ROOM })
  await one.answer(collection, queryOf('sort=a'), () => 0)
  const bytes = one.list()[0]?.bytes as number
  const fresh = collectionOf(Array.from({ length: 2000 }, (_, n) => ({ a: n, b: n, c: n })))
  const indexes = new Indexes({ bytes: bytes * 2.5 })
  for (const field of ['a', 'b', 'a', 'c', 'b']) {
    const query = queryOf(`sort=-${field}&pageSize=5`)
    const { text } = await indexes.answer(fresh, query, () => 0)
    assert.equal(text, scan(fresh.items(), query).text)
  }
  assert.deepEqual(
    indexes.list().map(({ path }) => path),
    ['c', 'b'],
  )
})

test('without any room every query is answered all the same', async () => {
  const collection = collectionOf(Array.from({ length: 2000 }, (_, n) => ({ n })))
  const indexes = new Indexes({ bytes: 0 })
  for (const search of ['n=7', 'sort=-n', 'n_gt=5&sort=n']) {
    const query = queryOf(search)
    const { text, total } = await indexes.answer(collection, query, () => 0)
    assert.deepEqual({ text, total }, scan(collection.items(), query))
    assert.deepEqual(indexes.list(), [])
  }
})

test('of items that have too many values in all only the first is held; what it cannot tell is looked up in the items', async () => {
  const tags = () => Array.from({ length: 30 }, () => random.integer(100))
  const collection = collectionOf(Array.from({ length: 1500 }, () => ({ tags: tags() })))
  const indexes = new Indexes({ bytes: ROOM })
  for (const search of ['tags=7', 'tags_gt=98&sort=-tags', 'tags_exists=true&tags=3&sort=tags']) {
    const query = queryOf(search)
    const { text, total } = await indexes.answer(collection, query, () => 0)
    assert.deepEqual({ text, total }, scan(collection.items(), query), search)
  }
  const [{ partial, entries } = { partial: 0, entries: 0 }] = indexes.list()
  assert.ok(partial > 500 && partial < 1500, `${partial} are held in part`)
  assert.equal(entries, 1500 + 30 * (1500 - partial))
})

test('an index holds about thirteen bytes an item, and a text that many have once', async () => {
  const bodies = Array.from({ length: 20_000 }, (_, n) => ({ n, mac: `F4:A5:74:89:16:${n % 50}` }))
  const indexes = new Indexes({ bytes: ROOM })
  await indexes.answer(collectionOf(bodies), queryOf('sort=n,mac'), () => 0)
  for (const { path, bytes } of indexes.list()) assert.ok(bytes < 20_000 * 16, `${path} takes ${bytes}`)
})

test('what was planned for a query is planned anew after every change', async () => {
  const size = 3000
  const writer = writerOf(Array.from({ length: size }, (_, n) => ({ n, kind: n % 7 })))
  const { collection } = writer
  const indexes = new Indexes({ bytes: ROOM })
  const searches = ['n_gt=1000&sort=-n&pageSize=5&page=3', 'kind=3&pageSize=4', 'n=1500', 'kind_in=1,2&n_lt=90']
  const queries = searches.map((search) => ({ ...queryOf(search), isShared: true }))
  for (let round = 0; round < ROUNDS; round++) {
    for (const query of queries) {
      const { text, total } = await indexes.answer(collection, query, () => 0)
      const wanted = scan(collection.items(), query)
      assert.deepEqual([text, total], [wanted.text, wanted.total])
    }
    if (round % 50 === 49) {
      writer.order(2999, 7)
      continue
    }
    const id = random.integer(size)
    const isThere = collection.item(String(id)) !== undefined
    if (isThere && random.chance(0.3)) writer.remove(id)
    else writer.put({ id, n: random.integer(size), kind: random.integer(7) })
  }
})
