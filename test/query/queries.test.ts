import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import type { Position } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { parsePath } from '../../src/json/paths.ts'
import { isWellFormed, type JsonObject, type JsonValue } from '../../src/json/value.ts'
import { type Snapshot, Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { Turns } from '../../src/runtime/turns.ts'
import { Store } from '../../src/store/store.ts'
import { answerOf, whole } from '../support/api.ts'
import { CollectionWriter, collectionOf, fullDisk, project, recordOf, type WithId } from '../support/collections.ts'
import { turnsUntil, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { ORDER } from './order.ts'
import { scan } from './scan.ts'

const LIMITS = { parameters: 1000, pageSize: 10_000 }
const ROOM = 2 ** 30

/** Instants far away, which a number of microseconds cannot tell apart; texts that begin alike; half a surrogate pair. */
const POOL: readonly JsonValue[] = [
  ...ORDER.flat(),
  '0001-01-01T00:00:00.000001Z',
  '0001-01-01T00:00:00.000002Z',
  '9999-12-31T23:59:59.999998Z',
  '9999-12-31T23:59:59.999999Z',
  '2026-01-01T12:00:00.000002Z',
  'ab',
  'abc\u{1f600}',
  'abc\ud83d',
  -0,
  12.5,
]
const FIELDS = ['a', 'b', 'n', 't', 's', 'c', 'c.d', 'e', 'id', 'missing']
const OPERATORS = [
  'eq',
  'ne',
  'gt',
  'gte',
  'lt',
  'lte',
  'in',
  'startswith',
  'contains',
  'endswith',
  'like',
  'istartswith',
  'iendswith',
]
const SEARCHES: readonly string[] = ['contains', 'like']

/** A collection that is written to, and queries over it. */
class World {
  readonly random: Random
  readonly #writer = new CollectionWriter()
  readonly views = this.#writer.views
  readonly collection: Collection = this.#writer.collection
  /** The items as they were at each position, since `remember` was called. */
  readonly #snapshots = new Map<Position, Snapshot>()
  #isRemembering = false
  /** How many of the items are long. */
  readonly longs: number
  #made = 0

  constructor(seed: number, longs: number) {
    this.random = new Random(seed)
    this.longs = longs
  }

  value(): JsonValue {
    const { random } = this
    if (random.chance(0.15)) return Array.from({ length: random.integer(4) }, () => random.pick(POOL))
    return random.pick(POOL)
  }

  /** Too long to reach an index with its write, and most often with too many values for one. */
  long(): JsonValue {
    const { random } = this
    const length = 1000 + random.integer(2000)
    const last = random.pick(POOL)
    switch (random.integer(4)) {
      case 0:
        return [...Array.from({ length }, () => 0), last]
      case 1:
        return Array.from({ length: random.integer(90) }).reduce<JsonValue>(
          (nested) => [nested],
          [...Array.from({ length }, () => 7), last],
        )
      case 2:
        return { ...Object.fromEntries(Array.from({ length }, (_, n) => [`m${n}`, 0])), d: last }
      default:
        return `abc${'a'.repeat(3 * length)}${random.integer(3)}`
    }
  }

  body(): JsonObject {
    const { random } = this
    const body: Record<string, JsonValue> = {}
    if (random.chance(0.9)) body.a = this.value()
    if (random.chance(0.5)) body.b = random.pick(POOL)
    body.n = random.integer(50)
    body.t = new Date(Date.UTC(2026, 0, 1) + random.integer(10_000))
      .toISOString()
      .replace('Z', `${random.integer(3)}00`)
    body.s = `F4:${random.integer(20)}`
    const inner = { d: this.value() }
    const c = random.pick([inner, inner, [inner, random.pick(POOL), { d: random.pick(POOL) }], undefined])
    if (c !== undefined) body.c = c
    if (random.chance(0.01)) body.e = random.pick(POOL)
    if (random.chance(this.longs)) body[random.pick(['a', 'b', 'c', 'e'])] = this.long()
    return body
  }

  put(id: number): void {
    this.#writer.put({ id, ...this.body() })
    this.#made = Math.max(this.#made, id + 1)
  }

  grow(size: number): void {
    const items: WithId[] = []
    while (this.#made < size) items.push({ id: this.#made++, ...this.body() })
    this.#writer.putAll(items)
  }

  /** The operations of clients and of editors of the data file. */
  write(): void {
    const { random, collection } = this
    const id = random.integer(this.#made + 1)
    if (random.chance(0.3)) {
      if (collection.item(String(id))) this.#writer.remove(id)
    } else if (random.chance(0.0005)) {
      this.#writer.order(id, id + 1, random.integer(this.#made), id)
    } else this.put(id)
    if (this.#isRemembering) this.#remember()
  }

  /** From now on what was can be asked for. */
  remember(): void {
    this.#isRemembering = true
    this.#remember()
  }

  forget(): void {
    this.#isRemembering = false
    for (const snapshot of this.#snapshots.values()) snapshot.close()
    this.#snapshots.clear()
  }

  #remember(): void {
    const snapshot = this.views.snapshot()
    this.#snapshots.set(snapshot.position, snapshot)
  }

  /** Builds an index of some fields; resolves when it is complete. */
  index(): Promise<void> {
    const { random, collection } = this
    const fields = new Set(Array.from({ length: random.pick([1, 1, 2, 2, 3]) }, () => random.pick(FIELDS)))
    return this.views.indexes.build(collection.facts.table, collection.name, Array.from(fields, parsePath))
  }

  text(): string {
    const { random } = this
    if (random.chance(0.2)) return String(random.integer(50))
    if (random.chance(0.2)) return `F4:${random.integer(20)}`
    if (random.chance(0.2)) return `2026-01-01T00:00:0${random.integer(10)}`
    const value = random.pick(POOL)
    return typeof value !== 'string' ? JSON.stringify(value) : isWellFormed(value) ? value : 'abc'
  }

  /** A text as long as one to search for may be. */
  searched(): string {
    return this.text().slice(0, 200)
  }

  search(): string {
    const { random } = this
    const pieces: string[] = []
    for (let count = random.pick([0, 0, 1, 1, 1, 2, 3]); count > 0; count--) {
      const field = random.pick(FIELDS)
      if (random.chance(0.1)) pieces.push(`${field}_exists=${random.chance(0.5)}`)
      else {
        const operator = random.pick(OPERATORS)
        for (let more = random.pick([1, 1, 1, 2]); more > 0; more--) {
          const text = SEARCHES.includes(operator) ? this.searched() : this.text()
          pieces.push(`${field}_${operator}=${encodeURIComponent(text)}`)
        }
      }
    }
    if (random.chance(0.05)) pieces.push(`q=${encodeURIComponent(this.searched())}`)
    if (random.chance(0.7)) {
      const sorts = Array.from(
        { length: random.pick([1, 1, 2, 3]) },
        () => random.pick(['-', '']) + random.pick(FIELDS),
      )
      pieces.push(`sort=${sorts.join(',')}`)
    }
    if (random.chance(0.2)) pieces.push('fields=a,c.d')
    const size = random.pick([1, 5, 20, 2000])
    const offset = random.integer(random.pick([1, 30, this.collection.size + 5]))
    return [...pieces, `offset=${offset}`, `limit=${size}`].join('&')
  }

  query() {
    const search = this.search()
    return { search, query: parseQuery(parseParameters(search, LIMITS.parameters), LIMITS) }
  }

  /** An answer equals what a scan finds at the position that the answer is of. */
  async check(queries: Queries): Promise<void> {
    const { search, query } = this.query()
    const { text, total, at } = await answerOf(queries, this.collection, query)
    const then = this.#isRemembering ? this.#snapshots.get(at)?.get('things') : this.collection
    const wanted = scan(then?.items() ?? [], query)
    const by = queries.list().map(({ path }) => path)
    assert.equal(total, wanted.total, `${search} by ${by.join(' ')}`)
    assert.equal(whole(text), wanted.text, `${search} by ${by.join(' ')}`)
  }
}

/** The clock advances with every look at it; between any two turns something may be written. */
function hurried(random: Random, between: () => void): Turns {
  let time = 0
  return new Turns({
    now: () => {
      time += random.pick([0, 0.1, 3])
      return time
    },
    later: (turn) =>
      setImmediate(() => {
        between()
        turn()
      }),
  })
}

describe('a result from indexes equals that of a scan, byte for byte', () => {
  const times = Number(process.env.QUERIES_TIMES ?? 1)
  // In the larger one looking through an index takes several turns, too.
  const sizes = Array.from({ length: Math.ceil(times / 2) }, () => [1200, 6000]).flat()

  test('with writes between queries, in a small collection', async () => {
    for (let round = 0; round < 3 * times; round++) {
      const world = new World(SEED + round, 0.03)
      const queries = new Queries({ views: world.views, bytes: ROOM })
      world.grow(world.random.pick([0, 1, 3, 40, 150]))
      for (let asked = 0; asked < 100; asked++) {
        if (asked % 15 === 0) await world.index()
        await world.check(queries)
        for (let writes = world.random.integer(4); writes > 0; writes--) world.write()
      }
    }
  })

  test('with writes between the turns of index builds and scans', async () => {
    for (const [round, size] of sizes.entries()) {
      const world = new World(SEED + round, 0.002)
      let writes = 0
      const write = () => {
        for (let count = world.random.integer(3); count > 0; count--, writes++) world.write()
      }
      const turns = hurried(world.random, write)
      world.grow(size)
      const queries = new Queries({ views: world.views, bytes: world.random.pick([ROOM, 1]), turns })
      for (let asked = 0; asked < Math.max(2, 4000 / size); asked++) {
        world.remember()
        let isBuilt = false
        const building = world.index().then(() => {
          isBuilt = true
        })
        await Promise.all(Array.from({ length: world.random.pick([1, 3]) }, () => world.check(queries)))
        await turnsUntil('the index', () => {
          if (!isBuilt) write()
          return isBuilt
        })
        await building
        await Promise.all(Array.from({ length: 3 }, () => world.check(queries)))
        world.forget()
      }
      assert.ok(writes > 100, 'it was written meanwhile')
    }
  })
})

describe('the choice of indexes', () => {
  const readings = (size: number) =>
    Array.from({ length: size }, (_, n) => ({ n, mac: `F4:${n % 5}`, at: new Date(n * 60_000).toISOString() }))
  const queryOf = (search: string) => parseQuery(parseParameters(search, LIMITS.parameters), LIMITS)

  async function asked(writer: CollectionWriter, searches: readonly string[], bytes = 0): Promise<Queries> {
    const { views, collection } = writer
    const queries = new Queries({ views, bytes })
    for (const search of searches) {
      const query = queryOf(search)
      const { text, total } = await answerOf(queries, collection, query)
      const wanted = scan(collection.items(), query)
      assert.deepEqual([whole(text), total], [wanted.text, wanted.total], search)
      await until('it is built', () => queries.list().every(({ built }) => built === undefined))
    }
    return queries
  }
  const pathsOf = (queries: Queries): string[] => queries.list().map(({ path }) => path)

  test('a query that is repeated gets an index of its equal fields and then its sort fields', async () => {
    const writer = collectionOf(readings(1000))
    const search = 'mac=F4:2&at_gt=1970-01-01T05:00&sort=-at&pageSize=3'
    assert.deepEqual(pathsOf(await asked(writer, [search])), [])
    const queries = await asked(writer, [search, search, search])
    assert.deepEqual(pathsOf(queries), ['mac,at'])
    assert.deepEqual(
      queries.list().map(({ entries, uses }) => [entries, uses]),
      [[1000, 1]],
    )
  })

  test('a query that matches few items needs no index', async () => {
    assert.deepEqual(pathsOf(await asked(collectionOf(readings(150)), ['n=5', 'n=5', 'n=5'])), [])
    const searches = ['n_gt=5&sort=n', 'n_lt=9&mac=F4:1'].flatMap((search) => [search, search])
    assert.deepEqual(pathsOf(await asked(collectionOf(readings(2000)), searches)), ['n'])
  })

  test('without space for an index every query is still answered', async () => {
    const searches = ['n=7', 'sort=-n', 'n_gt=5&sort=n'].flatMap((search) => [search, search, search])
    assert.deepEqual(pathsOf(await asked(collectionOf(readings(2000)), searches, 1)), [])
  })

  test('the least used index is evicted for one with more queries', async () => {
    const one = await asked(collectionOf(readings(2000)), ['sort=n', 'sort=n'])
    const room = (one.list()[0]?.bytes as number) * 1.5
    const times = (search: string, count: number): string[] => Array.from({ length: count }, () => search)
    const few = [...times('sort=n', 3), ...times('sort=mac', 4)]
    assert.deepEqual(pathsOf(await asked(collectionOf(readings(2000)), few, room)), ['mac'])
    const often = [...times('sort=n', 9), ...times('sort=mac', 3)]
    assert.deepEqual(pathsOf(await asked(collectionOf(readings(2000)), often, room)), ['n'], 'it would soon be back')
  })

  test('the most wanted of several indexes is built next, without another query', async () => {
    const { views, collection } = collectionOf(readings(2000))
    // The clock stands still, so that all queries are answered before the first index is built.
    const queries = new Queries({ views, bytes: ROOM, turns: new Turns({ now: () => 0 }) })
    for (const sort of ['n', 'n', 'mac', 'mac', 'at', 'at', 'at', 'id']) {
      await answerOf(queries, collection, queryOf(`sort=${sort}`))
    }
    await until('all are built', () => queries.list().filter(({ built }) => built === undefined).length === 3)
    assert.deepEqual(pathsOf(queries), ['n', 'at', 'mac'])
  })

  test('configured indexes exist before the first query, also in another field order, and are never evicted', async () => {
    const writer = collectionOf(readings(2000))
    const { views, collection } = writer
    const collections = { things: { indexes: [[['n']], [['mac'], ['at']]] } }
    const queries = new Queries({ views, bytes: 1, collections })
    const built = () => queries.list().filter(({ built }) => built === undefined)
    await until('both are built', () => built().length === 2)
    writer.order(1999, 7, 5)
    queries.apply()
    for (const search of ['n_gt=5&sort=-n', 'mac=F4:1&sort=at', 'sort=mac', 'sort=mac', 'sort=mac']) {
      const { text, total } = await answerOf(queries, collection, queryOf(search))
      const wanted = scan(collection.items(), queryOf(search))
      assert.deepEqual([whole(text), total], [wanted.text, wanted.total], search)
    }
    await until('both are built again', () => built().length === 2)
    assert.deepEqual(pathsOf(queries), ['n', 'mac,at'])
  })

  test('configured indexes whose builds were interrupted are built again', async () => {
    const store = Store.temporary()
    const earlier = new Views(store)
    const names = ['first', 'second', 'third']
    for (const [index, collection] of names.entries()) {
      const item = Document.of({ id: 0, n: 1 })
      const created = { type: 'ItemCreated', collection, id: 0, revision: 1, prior: 0, item } as const
      project(earlier, recordOf(2 * index + 1, [{ type: 'CollectionCreated', collection }, created]))
      void earlier.indexes.build(earlier.find(collection)?.facts.table as number, collection, [['n']])
    }
    earlier.end()
    const configured = Object.fromEntries(names.map((name) => [name, { indexes: [[['n']]] }]))
    const queries = new Queries({ views: new Views(store), bytes: 0, collections: configured })
    await until('all are built', () => queries.list().filter(({ entries }) => entries === 1).length === names.length)
  })

  test('an index build that fills the disk continues when there is space, and is reported meanwhile', async (t) => {
    const writer = collectionOf(readings(1000))
    const { views, collection } = writer
    const queries = new Queries({ views, bytes: 0 })
    const full = fullDisk(t, views.store)
    full.transactions = 3
    const building = views.indexes.build(collection.facts.table, 'things', [['n']])
    assert.deepEqual(
      queries.list().map(({ path, entries, bytes, built }) => [path, entries, bytes, built]),
      [['n', 0, 0, 0]],
    )
    await until('it is built', () => queries.list()[0]?.built === undefined)
    await building
    assert.ok(full.transactions < 0)
    assert.deepEqual(
      queries.list().map(({ entries, built }) => [entries, built]),
      [[1000, undefined]],
    )
  })

  test('a write that fails for lack of space leaves the indexes unchanged', async (t) => {
    const writer = collectionOf(readings(1000))
    const { views, collection } = writer
    const queries = new Queries({ views, bytes: 0 })
    await views.indexes.build(collection.facts.table, 'things', [['n']])
    const transaction = views.store.transaction.bind(views.store)
    const full = t.mock.method(
      views.store,
      'transaction',
      <Result>(work: () => Result): Result =>
        transaction(() => {
          work()
          throw Object.assign(new Error('no room'), { code: 'ENOSPC' })
        }),
    )
    const check = async (): Promise<void> => {
      const query = queryOf('n_gte=990&sort=-n')
      const { text, total } = await answerOf(queries, collection, query)
      assert.deepEqual({ text, total }, scan(collection.items(), query))
      assert.equal(queries.list()[0]?.entries, collection.size)
    }
    assert.throws(() => writer.put({ id: 5, n: 995 }, { id: 2000, n: 996 }), { code: 'ENOSPC' })
    await check()
    full.mock.restore()
    for (const recorded of writer.records) views.replay(recorded)
    views.replayed()
    assert.equal(collection.size, 1001)
    await check()
  })

  test('an index that would omit most items is not built', async () => {
    const writer = collectionOf(Array.from({ length: 300 }, (_, n) => ({ n, text: 'x'.repeat(40_000) })))
    assert.deepEqual(pathsOf(await asked(writer, ['sort=n', 'sort=n', 'sort=n'])), [])
  })

  test('complete indexes survive a restart, incomplete ones do not', async (t) => {
    const path = join(await temporaryDirectory(t), 'store.mdb')
    const store = Store.open(path)
    const writer = new CollectionWriter('things', new Views(store))
    writer.putAll(readings(3000).map((body, id) => ({ id, ...body })))
    const { table } = writer.collection.facts
    await writer.views.indexes.build(table, 'things', [['mac'], ['at']])
    void writer.views.indexes.build(table, 'things', [['n']])
    await new Promise((resolve) => setImmediate(resolve))
    writer.views.end()
    await store.close()
    const again = new Views(Store.open(path))
    await until('it is tidy', () => again.indexes.all.length === 1)
    const things = again.find('things') as Collection
    const query = queryOf('mac=F4:2&sort=-at&pageSize=3')
    const queries = new Queries({ views: again, bytes: 0 })
    const { text, total } = await answerOf(queries, things, query)
    assert.deepEqual({ text, total }, scan(things.items(), query))
    assert.deepEqual(
      queries.list().map(({ path, uses }) => [path, uses]),
      [['mac,at', 1]],
    )
    again.end()
    await again.store.close()
  })

  test('reordering the items needs new indexes, which are built on demand', async () => {
    const writer = collectionOf(readings(2000))
    const searches = ['sort=-mac&pageSize=5', 'sort=-mac&pageSize=5']
    assert.deepEqual(pathsOf(await asked(writer, searches)), ['mac'])
    writer.order(1999, 7, 5)
    const queries = await asked(writer, searches)
    await until('those of before are gone', () => queries.list().length === 1)
    assert.deepEqual(
      writer.views.indexes.all.map(({ table, name }) => [table, name]),
      [[writer.collection.facts.table, 'mac']],
    )
  })
})

test('an item sorts by the first of several values, whichever was filtered by', async () => {
  const writer = collectionOf([{ c: [{ d: 0 }, { d: null }] }, { c: { d: null } }, { c: [{ d: null }, { d: 0 }] }])
  const { views, collection } = writer
  const queries = new Queries({ views, bytes: ROOM })
  await views.indexes.build(collection.facts.table, 'things', [['c', 'd']])
  for (const search of ['c.d=null&sort=c.d', 'c.d=null&sort=-c.d', 'c.d_in=0,null&sort=c.d', 'c.d=0']) {
    const query = parseQuery(parseParameters(search, 10), LIMITS)
    const { text, total } = await answerOf(queries, collection, query)
    assert.deepEqual({ text, total }, scan(collection.items(), query), search)
  }
})

test('a query finds all matches even when an item gets too many values for an index', async () => {
  const writer = new CollectionWriter()
  const { collection, views } = writer
  writer.putAll(Array.from({ length: 6000 }, (_, id) => ({ id, n: id % 20, tags: ['one', 'common'], text: 'abc' })))
  const tooMany = Array.from({ length: 60_000 }, (_, index) => index)
  const queries = new Queries({ views, bytes: ROOM })
  await views.indexes.build(collection.facts.table, 'things', [['n'], ['tags']])
  const total = async (search: string): Promise<number> =>
    (await answerOf(queries, collection, parseQuery(parseParameters(search, 10), LIMITS))).total
  assert.equal(await total('n=5&tags=common'), 300)
  writer.put({ id: 6000, n: 5, tags: [...tooMany, 'common'] })
  assert.equal(await total('n=5&tags=common'), 301)
  assert.equal(await total('n=5&tags=59999'), 1)
  writer.put({ id: 6000, n: 5, tags: 'common' })
  assert.equal(await total('n=5&tags=common'), 301)
})
