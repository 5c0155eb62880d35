import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { AccessPaths } from '../../src/query/index/plan.ts'
import { pageLinks } from '../../src/query/paging.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { answerOf, whole } from '../support/api.ts'
import { type CollectionWriter, collectionOf } from '../support/collections.ts'
import { SEED } from '../support/random.ts'
import { ORDER } from './order.ts'

const LIMITS = { parameters: 1000, pageSize: 10_000 }
const RUNS = Number(process.env.QUERY_RUNS ?? 150)

/*
 * The model knows nothing of classes or instants: it looks values up in the order that was written down by hand.
 * Only texts other than dates are compared, by their code points, as any text may be asked for of them.
 */

const CLASSES = ['null', 'boolean', 'number', 'date-time', 'text', 'array', 'object'] as const
type Class = (typeof CLASSES)[number]
const FIRSTS: readonly [Class, JsonValue][] = [
  ['null', null],
  ['boolean', false],
  ['number', -1.5],
  ['date-time', '2025-12-31T23:30:00-01:00'],
  ['text', ''],
  ['array', []],
  ['object', {}],
]

const LINES = new Map(ORDER.flatMap((values, line) => values.map((value) => [JSON.stringify(value), line] as const)))

function lineOf(value: JsonValue): number {
  const line = LINES.get(JSON.stringify(value))
  assert.ok(line !== undefined, `${JSON.stringify(value)} is in the list`)
  return line
}

const STARTS = FIRSTS.map(([name, first]) => [name, lineOf(first)] as const)

function classOf(value: JsonValue): Class {
  const line = lineOf(value)
  return STARTS.reduce((found, [name, start]) => (start <= line ? name : found), 'null' as Class)
}

function spelled(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const POOL = ORDER.flat()
const SPELLED = new Map(POOL.map((value) => [`${classOf(value)} ${spelled(value)}`, lineOf(value)]))

/** How a value lies to what is wanted; undefined when that is not of its class. */
function orderTo(value: JsonValue, wanted: string): number | undefined {
  if (classOf(value) === 'text') {
    const [left, right] = [value as string, wanted].map((text) => Array.from(text, (c) => c.codePointAt(0) as number))
    for (const [index, point] of (left as number[]).entries()) {
      const other = (right as number[])[index]
      if (other === undefined) return 1
      if (point !== other) return point - other
    }
    return (left as number[]).length - (right as number[]).length
  }
  const line = SPELLED.get(`${classOf(value)} ${wanted}`)
  return line === undefined ? undefined : lineOf(value) - line
}

function everything(value: JsonValue): JsonValue[] {
  return Array.isArray(value) ? [value, ...value.flatMap((one: JsonValue) => everything(one))] : [value]
}

function found(item: JsonObject, field: string): JsonValue[] {
  if (field !== 'c.d') return field in item ? everything(item[field] as JsonValue) : []
  return everything(item.c ?? null).flatMap((c) =>
    c !== null && typeof c === 'object' && 'd' in c ? everything((c as JsonObject).d as JsonValue) : [],
  )
}

interface Asked {
  readonly field: string
  readonly operator: string
  readonly texts: readonly string[]
}

function passes(item: JsonObject, { field, operator, texts }: Asked): boolean {
  const values = found(item, field)
  const some = (holds: (value: JsonValue, text: string) => boolean) =>
    values.some((value) => texts.some((text) => holds(value, text)))
  const ordered = (holds: (order: number) => boolean) =>
    some((value, text) => {
      const order = orderTo(value, text)
      return order !== undefined && holds(order)
    })
  const onText = (holds: (value: string, text: string) => boolean) =>
    some((value, text) => typeof value === 'string' && holds(value, text))
  switch (operator) {
    case 'exists':
      return texts.includes(values.length > 0 ? 'true' : 'false')
    case '':
    case 'eq':
      return ordered((order) => order === 0)
    case 'ne':
      return values.some((value) => {
        const orders = texts.map((text) => orderTo(value, text)).filter((order) => order !== undefined)
        return orders.length > 0 && !orders.includes(0)
      })
    case 'gt':
      return ordered((order) => order > 0)
    case 'gte':
      return ordered((order) => order >= 0)
    case 'lt':
      return ordered((order) => order < 0)
    case 'lte':
      return ordered((order) => order <= 0)
    case 'in':
      return texts.some((list) =>
        list.split(',').some((text) => passes(item, { field, operator: 'eq', texts: [text] })),
      )
    case 'contains':
      return onText((value, text) => value.indexOf(text) >= 0)
    case 'startswith':
      return onText((value, text) => value.slice(0, text.length) === text)
    case 'endswith':
      return onText((value, text) => text === '' || value.slice(-text.length) === text)
    default:
      throw new Error(operator)
  }
}

interface Sorted {
  readonly field: string
  readonly descending: boolean
}

function comesBefore(a: JsonObject, b: JsonObject, sort: readonly Sorted[]): boolean {
  for (const { field, descending } of sort) {
    const [left] = found(a, field)
    const [right] = found(b, field)
    if (left === undefined && right === undefined) continue
    if (left === undefined || right === undefined) return right === undefined
    const order = lineOf(left) - lineOf(right)
    if (order !== 0) return order < 0 !== descending
  }
  return false
}

/** By insertion: each goes before the first that it must come before, else to the end. */
function insertionSorted(items: readonly JsonObject[], sort: readonly Sorted[]): JsonObject[] {
  const sorted: JsonObject[] = []
  for (const item of items) {
    let at = sorted.length
    while (at > 0 && comesBefore(item, sorted[at - 1] as JsonObject, sort)) at--
    sorted.splice(at, 0, item)
  }
  return sorted
}

const pooled = fc.constantFrom(...POOL)
const field = fc.constantFrom('a', 'b', 'c.d', 'missing')
const optional = { requiredKeys: [], noNullPrototype: true }
const inner = fc.record<JsonObject>({ d: pooled }, optional)
const itemBody = fc.record<JsonObject>(
  { a: pooled, b: pooled, c: fc.oneof<fc.Arbitrary<JsonValue>[]>(inner, pooled, fc.array(inner)) },
  optional,
)
const text = pooled.map(spelled)
const asked: fc.Arbitrary<Asked> = fc.oneof(
  fc.record({
    field,
    operator: fc.constantFrom('', 'eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'startswith', 'endswith'),
    texts: fc.array(text, { minLength: 1, maxLength: 3 }),
  }),
  fc.record({
    field,
    operator: fc.constant('contains'),
    // Longer ones are refused, and more than four of two filters.
    texts: fc.array(
      text.filter(({ length }) => length <= 200),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  fc.record({
    field,
    operator: fc.constant('in'),
    texts: fc.array(
      fc.array(text, { minLength: 1 }).map((list) => list.join(',')),
      { minLength: 1, maxLength: 2 },
    ),
  }),
  fc.record({
    field,
    operator: fc.constant('exists'),
    texts: fc.array(fc.constantFrom('true', 'false'), { minLength: 1, maxLength: 2 }),
  }),
)
const sort = fc.array(fc.record({ field, descending: fc.boolean() }), { maxLength: 3 })
const paging = fc.record({
  family: fc.constantFrom('page/pageSize', 'page/per_page', 'skip/take', 'offset/limit'),
  page: fc.integer({ min: 1, max: 5 }),
  size: fc.integer({ min: 1, max: 12 }),
})
const items = fc
  .array(itemBody, { maxLength: 30, size: 'max' })
  .map((bodies) => bodies.map((body, index): JsonObject => ({ id: index, ...body })))
const filters = fc.uniqueArray(asked, {
  maxLength: 2,
  selector: ({ field: name, operator }) => `${name}_${operator}`,
})

function searchFor(filtered: readonly Asked[], sorted: readonly Sorted[]): string[] {
  const parameters = filtered.flatMap(({ field: name, operator, texts }) =>
    texts.map((each) => `${operator === '' ? name : `${name}_${operator}`}=${encodeURIComponent(each)}`),
  )
  const spelledSort = sorted.map(({ field: name, descending }, index) =>
    descending ? [`-${name}`, `${name}_desc`][index % 2] : [name, `${name}_asc`, `%2B${name}`][index % 3],
  )
  return spelledSort.length > 0 ? [...parameters, `sort=${spelledSort.join(',')}`] : parameters
}

/** Any query must give the same result with the index that would help most. */
async function ask({ views, collection }: CollectionWriter, search: string) {
  const parameters = parseParameters(search, LIMITS.parameters)
  const query = parseQuery(parameters, LIMITS)
  const queries = new Queries({ views, bytes: 2 ** 20 })
  const { text: body, total } = await answerOf(queries, collection, query)
  const { ideal } = new AccessPaths(query)
  if (ideal.length > 0) await views.indexes.build(collection.facts.table, collection.name, ideal)
  const again = await answerOf(queries, collection, query)
  assert.deepEqual([again.text, again.total], [body, total], search)
  const next = pageLinks(parameters, query.page, total).find(({ relation }) => relation === 'next')
  return { items: JSON.parse(whole(body)) as JsonObject[], total, next: next?.search }
}

test('filter, sort and page give the result of a naive model', async () => {
  await fc.assert(
    fc.asyncProperty(items, filters, sort, paging, async (all, filtered, sorted, { family, page, size }) => {
      const matching = all.filter((item) => filtered.every((one) => passes(item, one)))
      const expected = insertionSorted(matching, sorted)
      const [start, length] = family.split('/')
      const offset = (page - 1) * size
      const search = [
        `${start}=${start === 'page' ? page : offset}`,
        ...searchFor(filtered, sorted),
        `${length}=${size}`,
      ].join('&')
      const given = await ask(collectionOf(all), search)
      assert.equal(given.total, expected.length, search)
      assert.deepEqual(given.items, expected.slice(offset, offset + size), search)
    }),
    { seed: SEED, numRuns: RUNS },
  )
})

test('following next from the first page visits every matching item once, in order', async () => {
  await fc.assert(
    fc.asyncProperty(items, filters, sort, paging, async (all, filtered, sorted, { family, size }) => {
      const others = searchFor(filtered, sorted)
      const from = collectionOf(all)
      const [, length] = family.split('/')
      const walked: JsonObject[] = []
      let search: string | undefined = [...others, `${length}=${size}`].join('&')
      for (let pages = 0; search !== undefined; pages++) {
        assert.ok(pages <= all.length, `the walk ends: ${search}`)
        const given = await ask(from, search)
        walked.push(...given.items)
        search = given.next
      }
      assert.deepEqual(walked, (await ask(from, [...others, 'pageSize=10000'].join('&'))).items)
    }),
    { seed: SEED, numRuns: Math.ceil(RUNS / 4) },
  )
})
