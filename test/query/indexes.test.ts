import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import type { Position } from '../../src/events/event.ts'
import { parsePath } from '../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { AccessPaths } from '../../src/query/index/plan.ts'
import { Queries, type QuerySource } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { UNLIMITED } from '../../src/runtime/memory.ts'
import { answerOf, whole } from '../support/api.ts'
import { collectionOf, recordOf, storedHistory } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { begun, created, deleted, replaced } from '../support/decider.ts'
import { Random, SEED } from '../support/random.ts'
import { ORDER } from './order.ts'

const TIMES = Number(process.env.COVERED_TIMES ?? 1)
const LIMITS = { parameters: 100, pageSize: 10_000 }
const TIME = parsePath('time')
const TIMED = { times: new Map([['things', TIME]]) }
const START = Date.parse('2026-03-28T20:00:00Z')

function queryOf(search: string) {
  return parseQuery(parseParameters(search, 100), LIMITS, { time: TIME })
}

/** The same items twice: in a collection with indexes and in one without. */
class World {
  readonly random: Random
  readonly indexed = collectionOf([], TIMED)
  readonly plain = collectionOf([], TIMED)
  readonly #past: readonly Past[]
  readonly #building: Promise<void>[] = []
  readonly #queries: readonly Queries[]

  constructor(seed: number) {
    this.random = new Random(seed)
    const worlds = [this.indexed, this.plain]
    for (const writer of worlds) writer.put({ id: 'first' })
    this.#past = worlds.map(({ journal, views }) => new Past(journal, views, storedHistory(views), UNLIMITED))
    this.#queries = worlds.map(({ views }) => new Queries({ views, bytes: 1 }))
  }

  /** Mostly readings as sensors send them, and now and then any value at all. */
  item(): JsonObject {
    const { random } = this
    const odd = (): JsonValue => random.pick(random.pick(ORDER))
    const item: Record<string, JsonValue> = {}
    if (random.chance(0.97)) item.mac = random.chance(0.95) ? random.pick(['a', 'b', 'Mökki', 'ab', 7]) : odd()
    const ms = START + random.integer(40) * 900_000 + random.integer(3) * random.integer(900_000)
    if (random.chance(0.97)) item.time = random.chance(0.95) ? this.time(ms) : odd()
    const number = (): number => random.pick([random.integer(20), random.integer(2000) / 100 - 10, 0.1, -0, 1e16])
    if (random.chance(0.9)) item.n = random.chance(0.9) ? number() : odd()
    if (random.chance(0.1)) item.n = random.pick<JsonValue>(['x'.repeat(1500), [1, 2, [3]], { m: 1 }, 'warm'])
    if (random.chance(0.9)) item.data = { t: random.chance(0.95) ? number() : odd() }
    return item
  }

  time(ms: number): JsonValue {
    const { random } = this
    const iso = new Date(ms).toISOString()
    const written = [iso, iso.slice(0, -1), `${iso.slice(0, -1)}${random.pick(['001', '999'])}`]
    const spelled = [iso.replace('T', ' '), iso.slice(0, 10), String(ms), String(Math.floor(ms / 1000)), `${ms}000`]
    const none = ['', 'soon', 'y'.repeat(3000), '2026-02-30', null, true, [iso], { iso }, -ms, 1e300, 4e15]
    return random.pick<JsonValue>([...written, ...written, ...spelled, ms, ms / 1000, ms * 1000, ...none])
  }

  write(): void {
    const { random, indexed, plain } = this
    const id = random.integer(400)
    const item = random.chance(0.15) ? undefined : this.item()
    if (!item && !plain.collection.item(String(id))) return
    for (const writer of [indexed, plain]) {
      if (item) writer.put({ id, ...item })
      else writer.remove(id)
    }
  }

  search(): string {
    const { random } = this
    const field = (): string => random.pick(['n', 'data.t', 'time', 'mac'])
    const filters: string[] = []
    if (random.chance(0.4))
      filters.push(random.pick(['mac=a', 'mac_in=a,b,7', 'mac=M%C3%B6kki', 'mac_gt=a', 'mac_exists=false']))
    const when = (): string => encodeURIComponent(new Date(START + random.integer(40) * 900_000).toISOString())
    if (random.chance(0.4)) filters.push(`time_${random.pick(['gte', 'lt', 'gt', 'lte', 'ne'])}=${when()}`)
    if (random.chance(0.2)) filters.push(random.pick(['n_gt=3', 'n_lt=1e15', 'data.t_ne=7', 'n_exists=true']))
    const question = random.integer(10)
    if (question < 2) return [...filters, `newestBy=${random.pick(['mac', 'mac', 'n'])}`].join('&')
    if (question < 3) return [...filters, `distinct=${field()}`].join('&')
    const functions = ['avg', 'sum', 'min', 'max', 'first', 'last', 'p50', 'p99', 'stddev', 'delta', 'count']
    const values = random.pick([['n'], ['data.t'], ['n', 'data.t'], ['time']])
    const column = (_: unknown, index: number): string =>
      `${random.pick(functions)}(${random.pick(values)}) as c${index}`
    const columns = Array.from({ length: random.integer(3) }, column)
    const asked = [
      ...filters,
      `aggregate=${[...(columns.length === 0 || random.chance(0.5) ? ['count'] : []), ...columns].join(',')}`,
    ]
    if (random.chance(0.6)) asked.push(`groupBy=${random.pick(['mac', 'mac', 'n', 'mac,n'])}`)
    if (random.chance(0.6)) {
      asked.push(`window=${random.pick(['15m', '1h', '12h', '1d', '1w', '1mo'])}`)
      if (random.chance(0.5)) asked.push(`tz=${random.pick(['Europe/Helsinki', 'Asia/Kolkata', 'UTC', '-09:30'])}`)
    }
    return asked.join('&')
  }

  /** Builds the index that a question would get by itself, or any other. */
  async index(search: string): Promise<void> {
    const { views, collection } = this.indexed
    const { ideal } = new AccessPaths(queryOf(search))
    const any = this.random.pick(['time,mac,n', 'mac,time,n', 'n,mac,time', 'mac,time,n,data.t', 'mac', 'time'])
    const paths = this.random.chance(0.7) && ideal.length > 0 ? ideal : any.split(',').map(parsePath)
    const built = views.indexes.build(collection.facts.table, collection.name, paths)
    if (this.random.chance(0.8)) await built
    else this.#building.push(built)
  }

  async end(): Promise<void> {
    await Promise.all(this.#building)
  }

  /** Cached past states may still read the indexes. */
  forget(): void {
    const { indexes } = this.indexed.views
    for (const index of indexes.all) if (this.random.chance(0.5)) void indexes.drop(index)
  }

  async check(search: string, at?: Position): Promise<void> {
    const answers: JsonValue[] = []
    for (const [index, writer] of [this.indexed, this.plain].entries()) {
      const reading = at === undefined ? undefined : await this.#past[index]?.collection('things', at)
      const source: QuerySource = reading ?? writer.collection
      try {
        const { text, total } = await answerOf(this.#queries[index] as Queries, source, queryOf(search))
        answers.push([whole(text), total])
      } finally {
        reading?.release()
      }
    }
    assert.deepEqual(answers[0], answers[1], `${search}, asOf=${at}`)
  }
}

describe('a query with groups that an index covers', () => {
  test('has the same result as from the items, now and as of any position', async () => {
    for (let round = 0; round < TIMES; round++) {
      const world = new World(SEED + round)
      const { random } = world
      for (let step = 0; step < 40; step++) {
        for (let count = random.integer(60); count > 0; count--) world.write()
        const search = world.search()
        if (random.chance(0.5)) await world.index(search)
        if (random.chance(0.1)) world.forget()
        await world.check(search)
        const at = 2 + random.integer(world.plain.views.position - 1)
        await world.check(search, at)
        await world.check(world.search())
        await world.check(world.search(), at)
      }
      await world.end()
    }
  })

  test('distinguishes times to the microsecond, and takes the last item of equal times', async () => {
    const { collection, views } = collectionOf(
      [
        { mac: 'a', time: '2026-01-01T00:00:00.000001Z', n: 1 },
        { mac: 'a', time: '2026-01-01T00:00:00.000002Z', n: 2 },
        { mac: 'a', time: '2026-01-01T00:00:00', n: 3 },
        { mac: 'b', time: 1_767_225_600, n: 4 },
        { mac: 'b', time: 1_767_225_600_000, n: 5 },
        { mac: 'b', time: '2026-01-01T00:00:00Z', n: 6 },
        { mac: 'b', time: '2026-01-01', n: 7 },
        { mac: 'b', time: 1_767_225_599_999.5, n: 8 },
        // A double has no room for microseconds at such late times.
        { mac: 'c', time: '9000-01-01T00:00:00.000002Z', n: 9 },
        { mac: 'c', time: '9000-01-01T00:00:00.000001Z', n: 10 },
      ],
      TIMED,
    )
    const queries = new Queries({ views, bytes: 1 })
    const asked = async (): Promise<unknown> => {
      const newest = await answerOf(queries, collection, queryOf('newestBy=mac&fields=n'))
      const search = 'aggregate=first(n),last(n)&groupBy=mac'
      const values = await answerOf(queries, collection, queryOf(search))
      return [whole(newest.text), JSON.parse(whole(values.text))]
    }
    const expected = [
      '[{"n":2},{"n":7},{"n":10}]',
      [
        { mac: 'a', 'first(n)': 3, 'last(n)': 2 },
        { mac: 'b', 'first(n)': 8, 'last(n)': 7 },
        { mac: 'c', 'first(n)': 9, 'last(n)': 10 },
      ],
    ]
    assert.deepEqual(await asked(), expected)
    await views.indexes.build(collection.facts.table, collection.name, ['mac', 'time', 'n'].map(parsePath))
    assert.deepEqual(await asked(), expected)
  })

  test('has the order of the collection without event times, also if some items are read', async () => {
    const { collection, views } = collectionOf([...Array(600).fill(5), 8, [2], 3, [9, 1]].map((n) => ({ mac: 'a', n })))
    const search = 'aggregate=first(n),last(n),delta(n)&groupBy=mac'
    const query = parseQuery(parseParameters(search, 100), LIMITS)
    const queries = new Queries({ views, bytes: 1 })
    const expected = [{ mac: 'a', 'first(n)': 5, 'last(n)': 1, 'delta(n)': 13 }]
    const check = async (): Promise<void> => {
      assert.deepEqual(JSON.parse(whole((await answerOf(queries, collection, query)).text)), expected)
    }
    await check()
    await views.indexes.build(collection.facts.table, collection.name, ['mac', 'n'].map(parsePath))
    await check()
  })

  test('reads the items for the time of their last event, which no index has', async () => {
    const { collection, views } = collectionOf(Array.from({ length: 300 }, (_, n) => ({ mac: `m${n % 2}` })))
    const queries = new Queries({ views, bytes: 0 })
    const received = '1970-01-01T00:00:00.000Z'
    const expected: Readonly<Record<string, JsonValue>> = {
      'aggregate=max($received)&groupBy=mac': ['m0', 'm1'].map((mac) => ({ mac, 'max($received)': received })),
      'distinct=$received': [received],
      'sort=$received&pageSize=1&fields=$received': [{ $received: received }],
    }
    const check = async (): Promise<void> => {
      for (const [search, rows] of Object.entries(expected)) {
        const { text } = await answerOf(queries, collection, queryOf(search))
        assert.deepEqual(JSON.parse(whole(text)), rows, search)
      }
    }
    for (let asked = 0; asked < 3; asked++) await check()
    assert.deepEqual(views.indexes.all, [], 'none is built')
    // Earlier versions have built these.
    for (const list of [['mac', '$received'], ['$received']]) {
      await views.indexes.build(collection.facts.table, collection.name, list.map(parsePath))
    }
    await check()
  })

  test('reads no item when the keys contain everything', async () => {
    const { collection, views } = collectionOf(
      Array.from({ length: 3000 }, (_, n) => ({ mac: `m${n % 5}`, time: START + n * 60_000, data: { t: n % 7 } })),
      TIMED,
    )
    const queries = new Queries({ views, bytes: 0 })
    const read = async (search: string): Promise<number> => {
      const reading = queries.hold(collection)
      const itemAt = reading.items.itemAt.bind(reading.items)
      let count = 0
      reading.items.itemAt = (place) => {
        count++
        return itemAt(place)
      }
      await answerOf(queries, reading, queryOf(search))
      reading.release()
      return count
    }
    const search = 'aggregate=count,avg(data.t),last(data.t)&groupBy=mac&window=1h&time_gte=1774731600000'
    assert.ok((await read(search)) >= 3000)
    // The second time an index is built.
    for (let asked = 0; asked < 2; asked++) await answerOf(queries, collection, queryOf(search))
    await until('the index is built', () => views.indexes.of(collection.facts.table).some(({ isBuilt }) => isBuilt))
    assert.deepEqual(
      views.indexes.all.map(({ name }) => name),
      ['mac,time,data.t'],
    )
    assert.equal(await read(search), 0)
    assert.equal(await read('aggregate=max(data.t)&mac=m1&window=1d&tz=Europe/Helsinki'), 0)
    assert.equal(await read('aggregate=count&groupBy=mac'), 0)
    assert.equal(await read('distinct=mac'), 0)
    assert.equal(await read('newestBy=mac'), 5, 'those that are answered')
    for (let asked = 0; asked < 2; asked++) await answerOf(queries, collection, queryOf('newestBy=mac'))
    assert.equal(views.indexes.all.length, 1, 'no other index would help more')
  })
})

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
