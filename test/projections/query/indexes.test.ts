import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Collection } from '../../../src/collections/collection.ts'
import { isWellFormed, type JsonObject, type JsonValue } from '../../../src/json/value.ts'
import { Indexes } from '../../../src/projections/query/indexes.ts'
import { parseParameters, parseQuery } from '../../../src/projections/query/query.ts'
import { Slices } from '../../../src/slices.ts'
import { CollectionWriter, type WithId } from '../../support/collections.ts'
import { Random, seedFor } from '../../support/random.ts'
import { whole } from '../../support/whole.ts'
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
const OPERATORS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'startswith', 'contains', 'endswith']

/** A collection that is written to, and queries over it. */
class World {
  readonly random: Random
  readonly #writer = new CollectionWriter()
  readonly collection: Collection = this.#writer.collection
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

  /** What clients and hand edits do. */
  write(): void {
    const { random, collection } = this
    const id = random.integer(this.#made + 1)
    if (random.chance(0.3)) {
      if (collection.item(String(id))) this.#writer.remove(id)
    } else if (random.chance(0.0005)) {
      this.#writer.order(id, id + 1, random.integer(this.#made), id)
    } else this.put(id)
  }

  text(): string {
    const { random } = this
    if (random.chance(0.2)) return String(random.integer(50))
    if (random.chance(0.2)) return `F4:${random.integer(20)}`
    if (random.chance(0.2)) return `2026-01-01T00:00:0${random.integer(10)}`
    const value = random.pick(POOL)
    return typeof value !== 'string' ? JSON.stringify(value) : isWellFormed(value) ? value : 'abc'
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
          pieces.push(`${field}_${operator}=${encodeURIComponent(this.text())}`)
        }
      }
    }
    if (random.chance(0.05)) pieces.push(`q=${encodeURIComponent(this.text())}`)
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

  /** Answers equal what a scan finds in the moment that they are of. */
  async check(indexes: Indexes): Promise<void> {
    const { search, query } = this.query()
    const { text, total, seen } = await indexes.answer(this.collection, query, () =>
      scan(this.collection.items(), query),
    )
    assert.equal(total, seen.total, search)
    assert.equal(whole(text), seen.text, search)
  }
}

/** Time goes on with every look at the clock; between any two slices something may be written. */
function hurried(random: Random, between: () => void): Slices {
  let time = 0
  return new Slices(
    () => {
      time += random.pick([0, 0.1, 3])
      return time
    },
    (slice) =>
      setImmediate(() => {
        between()
        slice()
      }),
  )
}

describe('an answer found by indexes is byte for byte that of a scan', () => {
  const seed = seedFor('indexes')
  const times = Number(process.env.INDEXES_TIMES ?? 1)
  // In the larger one looking through an index takes several slices, too.
  const sizes = Array.from({ length: Math.ceil(times / 2) }, () => [1200, 9000]).flat()

  test('with writes between the queries, in a small collection', async () => {
    for (let round = 0; round < 4 * times; round++) {
      const world = new World(seed + round, 0.03)
      const indexes = new Indexes({ bytes: ROOM })
      world.grow(world.random.pick([0, 1, 3, 40, 150]))
      for (let asked = 0; asked < 100; asked++) {
        await world.check(indexes)
        for (let writes = world.random.integer(4); writes > 0; writes--) world.write()
      }
    }
  })

  test('with writes between the slices in which indexes are built and items are looked through', async () => {
    for (const [round, size] of sizes.entries()) {
      const world = new World(seed + round, 0.002)
      let writes = 0
      const slices = hurried(world.random, () => {
        for (let count = world.random.integer(3); count > 0; count--, writes++) world.write()
      })
      world.grow(size)
      const indexes = new Indexes({ bytes: world.random.pick([ROOM, 200_000, 0]), slices })
      for (let asked = 0; asked < 12_000 / size; asked++) {
        await Promise.all(Array.from({ length: world.random.pick([1, 3]) }, () => world.check(indexes)))
      }
      assert.ok(writes > 100, 'it was written meanwhile')
    }
  })
})

test('a query finds all that match though an item comes to have too many values for an index meanwhile', async () => {
  const writer = new CollectionWriter()
  const { collection } = writer
  writer.putAll(Array.from({ length: 6000 }, (_, id) => ({ id, n: id % 20, tags: ['one', 'common'], text: 'abc' })))
  const tooMany = Array.from({ length: 60_000 }, (_, index) => index)
  let isToWrite = false
  let time = 0
  const slices = new Slices(
    () => (time += 10),
    (slice) =>
      setImmediate(() => {
        if (isToWrite) writer.put({ id: 6000, n: 1, tags: tooMany })
        isToWrite = false
        slice()
      }),
  )
  const indexes = new Indexes({ bytes: ROOM, slices })
  const query = parseQuery(parseParameters('n=5&tags=common&text_contains=b', 10), LIMITS)
  const totalNow = async (): Promise<number> => (await indexes.answer(collection, query, () => undefined)).total
  assert.equal(await totalNow(), 300)
  isToWrite = true
  assert.equal(await totalNow(), 300)
  assert.equal(await totalNow(), 300)
  assert.equal(indexes.list().find(({ path }) => path === 'tags')?.partial, 1)
})
