import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Collection } from '../../src/collections/collection.ts'
import { parsePath } from '../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { Store } from '../../src/store/store.ts'
import { answerOf, whole } from '../support/api.ts'
import { CollectionWriter, collectionOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'

const TIMES = Number(process.env.EVENT_TIME_TIMES ?? 400)
const TIME = parsePath('data.t')
const LIMITS = { parameters: 100, pageSize: 10_000 }
const NOW = Date.parse('2026-11-21T00:00:00Z')

/** Each line has the spellings of one instant, before those of the next line. */
const INSTANTS: readonly (readonly JsonValue[])[] = [
  ['1969-12-31T23:59:59Z', -1],
  [0, '1970-01-01'],
  ['2024-11-25T00:00:00+01:00', '2024-11-24 23:00:00', 1_732_489_200, '1732489200', '20241124T230000Z'],
  ['2026-11-20', '20261120', 20_261_120, '2026-11-20T00:00', '2026-11-20 00:00:00Z', 1_795_132_800, '1795132800000'],
  ['2026-11-20T00:00:00.000001Z', 1_795_132_800_000_001, '1795132800000001', 1_795_132_800_000.001],
  [
    '20261120T000000.5',
    '2026-11-20T00:00:00.5',
    1_795_132_800.5,
    1_795_132_800_500,
    '2026-11-20 02:00:00,5 +02:00',
    '1795132800.5',
  ],
  ['2026-11-20T22:00:00Z', '2026-11-21T00:00:00+0200', '2026-11-20 22:00', 1_795_212_000_000_000],
  ['9000-01-01', '9000-01-01T01:00:00+01:00'],
]
/** Longer than a key of an index. */
const LONG = 'y'.repeat(5000)
/** In the order of all values, after the instants. */
const OTHERS: readonly JsonValue[] = [
  null,
  true,
  1e300,
  '',
  '11/25/2026',
  '179513280',
  '17951328000',
  '2026-02-30',
  '2026-11-20T25:00:00Z',
  'now',
  'soon',
  LONG,
  [],
  ['2026-11-20'],
  { $date: '2026-11-20' },
]
/** Those that no filter reads as an instant. */
const UNREAD: readonly JsonValue[] = [
  '',
  'soon',
  LONG,
  'y'.repeat(4000),
  '11/25/2026',
  '2026-02-30',
  null,
  true,
  [],
  ['2026-11-20'],
]
const POOL = [...INSTANTS.flat(), ...OTHERS]

/** The line of an instant; undefined for all other values. */
function lineOf(value: JsonValue | undefined): number | undefined {
  const line = INSTANTS.findIndex((spellings) => spellings.includes(value as JsonValue))
  return line < 0 ? undefined : line
}

function timeOf(item: JsonObject): JsonValue | undefined {
  return (item.data as JsonObject).t
}

const COMPARISONS: Readonly<Record<string, (order: number) => boolean>> = {
  eq: (order) => order === 0,
  gt: (order) => order > 0,
  gte: (order) => order >= 0,
  lt: (order) => order < 0,
  lte: (order) => order <= 0,
}

function passes(item: JsonObject, operator: string, wanted: JsonValue): boolean {
  const value = timeOf(item)
  if (operator === 'exists') return (value !== undefined) === wanted
  if (value === undefined) return false
  const [line, other] = [lineOf(value), lineOf(wanted)]
  if (other === undefined) return (JSON.stringify(value) === JSON.stringify(wanted)) === (operator === 'eq')
  const order = line === undefined ? undefined : line - other
  if (operator === 'ne') return order !== 0
  return order !== undefined && (COMPARISONS[operator] as (order: number) => boolean)(order)
}

/** Instants in order, then other values, then none. */
function rankOf(item: JsonObject, descending: boolean): number {
  const value = timeOf(item)
  if (value === undefined) return 2000
  const line = lineOf(value)
  return line === undefined ? 1000 + OTHERS.indexOf(value) : descending ? -line : line
}

function search(random: Random, filters: readonly (readonly [string, JsonValue])[], sort: string): string {
  const parameters = filters.map(([operator, value]) => {
    // As many clients send it, with the "+" of a zone as it is.
    const spelled = typeof value === 'object' ? JSON.stringify(value) : String(value)
    const text =
      random.chance(0.5) || typeof value === 'object' ? encodeURIComponent(spelled) : spelled.replaceAll(' ', '+')
    return `data.t_${operator}=${text}`
  })
  return [...parameters, ...(sort === '' ? [] : [`sort=${sort}`])].join('&')
}

function queryOf(text: string) {
  return parseQuery(parseParameters(text, 100), LIMITS, { time: TIME, now: NOW })
}

describe('event times', () => {
  for (const isIndexed of [false, true]) {
    test(`of any spelling are compared as instants, ${isIndexed ? 'with' : 'without'} indexes`, async () => {
      const random = new Random(SEED)
      const bodies = Array.from({ length: 500 }, () =>
        random.chance(0.1) ? { data: {} } : { data: { t: random.pick<JsonValue>(POOL) } },
      )
      const { collection, views } = collectionOf(bodies, { times: new Map([['things', TIME]]) })
      if (isIndexed) await views.indexes.build(collection.facts.table, collection.name, [TIME])
      const queries = new Queries({ views, bytes: 1 })
      const items = bodies.map((body, id) => ({ id, ...body }))
      for (let time = 0; time < TIMES; time++) {
        const filters = Array.from({ length: random.integer(3) }, () => {
          const operator = random.pick(['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'exists'])
          if ((operator === 'eq' || operator === 'ne') && random.chance(0.4))
            return [operator, random.pick(UNREAD)] as const
          const wanted = operator === 'exists' ? random.chance(0.5) : random.pick(random.pick(INSTANTS))
          return [operator, wanted] as const
        })
        if (new Set(filters.map(([operator]) => operator)).size < filters.length) continue
        const sort = random.pick(['', 'data.t', '-data.t'])
        const asked = search(random, filters, sort)
        const wanted = items.filter((item) => filters.every(([operator, value]) => passes(item, operator, value)))
        if (sort !== '') wanted.sort((a, b) => rankOf(a, sort[0] === '-') - rankOf(b, sort[0] === '-') || a.id - b.id)
        const answer = await answerOf(queries, collection, queryOf(`${asked}&pageSize=1000`))
        const ids = (JSON.parse(whole(answer.text)) as readonly { readonly id: number }[]).map(({ id }) => id)
        assert.deepEqual(
          ids,
          wanted.map(({ id }) => id),
          asked,
        )
      }
    })
  }

  test('relative to now match readings in any spelling, and no others', async () => {
    const { collection, views } = collectionOf(
      POOL.map((t) => ({ data: { t } })),
      { times: new Map([['things', TIME]]) },
    )
    const queries = new Queries({ views, bytes: 1 })
    const found = async (text: string): Promise<readonly unknown[]> => {
      const { text: page } = await answerOf(queries, collection, queryOf(`${text}&pageSize=1000`))
      return (JSON.parse(whole(page)) as readonly { data: { t: JsonValue } }[]).map(({ data }) => data.t)
    }
    assert.deepEqual(await found('data.t_gte=now-24h'), INSTANTS.slice(3).flat())
    assert.deepEqual(await found('data.t_lt=now-30d'), INSTANTS.slice(0, 3).flat())
  })

  test('as text are searched as they are spelled', async () => {
    const { collection, views } = collectionOf(
      POOL.map((t) => ({ data: { t } })),
      { times: new Map([['things', TIME]]) },
    )
    await views.indexes.build(collection.facts.table, collection.name, [TIME])
    const queries = new Queries({ views, bytes: 1 })
    const total = async (text: string): Promise<number> => (await answerOf(queries, collection, queryOf(text))).total
    assert.equal(
      await total('data.t_startswith=2026-11-20'),
      POOL.filter((one) => /^2026-11-20/.test(String(one)) && typeof one === 'string').length + 1,
    )
    assert.equal(await total('data.t_contains=oo'), 1)
    assert.equal(await total('data.t_like=SOON'), 1)
  })

  test('are grouped by windows, and have a first, a last, a lowest and a highest', async () => {
    const bodies = POOL.map((t, n) => ({ n, data: { t } }))
    const { collection, views } = collectionOf(bodies, { times: new Map([['things', TIME]]) })
    const queries = new Queries({ views, bytes: 1 })
    const rows = async (text: string): Promise<readonly JsonObject[]> =>
      JSON.parse(whole((await answerOf(queries, collection, queryOf(text))).text))
    const check = async (): Promise<void> => {
      const days = await rows('aggregate=count,first(n),last(n)&window=1d&data.t_gte=2026-11-20&data.t_lt=20261121')
      const today = bodies.filter(({ data: { t } }) => [3, 4, 5, 6].includes(lineOf(t) ?? -1))
      const [first, last] = [lineOf(today[0]?.data.t), lineOf(today.at(-1)?.data.t)]
      assert.deepEqual([first, last], [3, 6])
      assert.equal(days.length, 1)
      assert.equal(days[0]?.count, today.length)
      assert.equal(days[0]?.['last(n)'], today.at(-1)?.n)
      assert.equal(days[0]?.['first(n)'], today[0]?.n)
      assert.deepEqual(await rows('aggregate=min(data.t),max(data.t)'), [
        { 'min(data.t)': '1969-12-31T23:59:59Z', 'max(data.t)': '9000-01-01' },
      ])
      const distinct = (await rows('distinct=data.t')) as readonly unknown[] as readonly JsonValue[]
      assert.deepEqual(
        distinct.slice(0, INSTANTS.length),
        INSTANTS.map(([first]) => first),
        'of several spellings the first',
      )
      const groups = await rows('aggregate=count&groupBy=data.t&sort=-data.t')
      const counts = groups.map((row) => [lineOf(row['data.t']), row.count])
      const expected = INSTANTS.map((line, index) => [index, line.length]).reverse()
      assert.deepEqual(counts.slice(0, INSTANTS.length), expected, 'the latest come first, and what is no instant last')
      const seen = await rows('aggregate=max(data.t) as seen,first(n) as data\\.t&groupBy=n&sort=-seen')
      assert.deepEqual(
        seen.slice(0, 9).map((row) => lineOf(row.seen)),
        [7, 7, 6, 6, 6, 6, 5, 5, 5],
        'columns of event times are sorted as such',
      )
      assert.deepEqual(await rows('newestBy=kind&fields=data.t'), [{ data: { t: '9000-01-01T01:00:00+01:00' } }])
    }
    await check()
    for (const paths of [['data.t', 'n'], ['data.t'], ['kind', 'data.t']]) {
      await views.indexes.build(collection.facts.table, collection.name, paths.map(parsePath))
      await check()
    }
  })
})

test('an index that was built with another event time is not used, and is built again in the background', async (t) => {
  const path = join(await temporaryDirectory(t), 'store.mdb')
  const items = Array.from({ length: 1000 }, (_, id) => ({ id, data: { t: POOL[id % POOL.length] as JsonValue } }))
  const store = Store.open(path)
  const writer = new CollectionWriter('things', new Views(store))
  writer.putAll(items)
  const { table } = writer.collection.facts
  await writer.views.indexes.build(table, 'things', [TIME])
  await writer.views.indexes.build(table, 'things', [['id']])
  writer.views.end()
  await store.close()
  const again = new Views(Store.open(path), { times: new Map([['things', TIME]]) })
  const queries = new Queries({ views: again, bytes: 1 })
  const check = async (): Promise<void> => {
    const { text } = await answerOf(
      queries,
      again.find('things') as Collection,
      queryOf('data.t_gte=20261120&sort=-data.t'),
    )
    const found = (JSON.parse(whole(text)) as readonly JsonObject[]).map((item) => lineOf(timeOf(item)))
    const wanted = items.flatMap((item) => ((lineOf(timeOf(item)) ?? 0) >= 3 ? [lineOf(timeOf(item))] : []))
    assert.deepEqual(found, wanted.sort((a, b) => (b as number) - (a as number)).slice(0, found.length))
    assert.ok(found.length > 0)
  }
  await check()
  assert.deepEqual(
    again.indexes
      .of(table)
      .filter(({ isBuilt }) => isBuilt)
      .map(({ name }) => name),
    ['id'],
  )
  await until('both are built', () => again.indexes.of(table).filter(({ isBuilt }) => isBuilt).length === 2)
  await check()
  assert.equal(queries.list().find(({ path }) => path === 'data.t')?.uses, 1)
  again.end()
  await again.store.close()
})
