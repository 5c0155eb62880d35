import { compareInstants, type Instant, instantOf, parseInstant, readInstant } from '../../src/json/instant.ts'
import { firstAt } from '../../src/json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/json/value.ts'
import type { Random } from './random.ts'

/** Items and questions about them that go together: enough of both alike for most questions to find something. */

const WORDS = ['ada', 'Bob', 'grace', 'ünal', 'a b', 'x&y', '', '10', 'null']
const TIMES = ['2026-11-20', '2026-11-20T00:00:00Z', '2026-11-20T01:00:00.000500+01:00', '2026-11-21T12:00:00', '2025']
const FIELDS = [
  'n',
  'kind',
  'name',
  'at',
  'tags',
  'list.v',
  'list.id',
  'data',
  'data.x',
  'data.deep.v',
  'flag',
  'id',
  'no',
]
const TEXT_OPERATORS = ['contains', 'startswith', 'endswith']
const ORDER_OPERATORS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte']
const FAMILIES = [
  ['page', 'pageSize', 1],
  ['page', 'per_page', 1],
  ['skip', 'take', 0],
  ['offset', 'limit', 0],
] as const

/** Its members come in any order: what is answered keeps it. */
export function randomItem(random: Random): JsonObject {
  const members: [string, JsonValue][] = [
    ['n', random.chance(0.9) ? random.integer(60) : random.next() * 60],
    ['kind', random.pick(['x', 'y', 'z', null])],
    ['name', random.pick(WORDS)],
    ['at', random.pick(TIMES)],
    ['tags', random.pick<JsonValue>([[], ['red'], ['red', 'blue'], 'red', [['blue']]])],
    ['list', Array.from({ length: random.integer(3) }, (_, id) => ({ id, v: random.integer(9) }))],
    ['data', { x: random.integer(20), deep: { v: random.pick<JsonValue>([1, '1', true, {}, [1]]) } }],
    ['flag', random.pick<JsonValue>([true, false, null, 0])],
  ]
  const kept = members.filter(() => random.chance(0.85))
  for (let index = kept.length - 1; index > 0; index--) {
    const other = random.integer(index + 1)
    const one = kept[index] as [string, JsonValue]
    kept[index] = kept[other] as [string, JsonValue]
    kept[other] = one
  }
  return Object.fromEntries(kept)
}

class Parameters {
  readonly #random: Random
  readonly #all: string[] = []

  constructor(random: Random) {
    this.#random = random
  }

  add(name: string, value: string): void {
    const escaped = encodeURIComponent(value)
    const spaced = this.#random.chance(0.5) ? escaped.replaceAll('%20', '+') : escaped
    this.#all.push(`${encodeURIComponent(name)}=${spaced}`)
  }

  get text(): string {
    return this.#all.join('&')
  }
}

/** The filters of a query, none of which is refused: what a subscription takes. */
export function randomFilters(random: Random): string {
  const parameters = new Parameters(random)
  addFilters(random, parameters)
  return parameters.text
}

function addFilters(random: Random, parameters: Parameters): void {
  for (let filters = random.integer(3); filters > 0; filters--) {
    const field = random.pick(FIELDS)
    const again = random.chance(0.2) ? 2 : 1
    const kind = random.integer(10)
    for (let times = 0; times < again; times++) {
      if (kind < 3) parameters.add(field, randomValue(random))
      else if (kind < 7) parameters.add(`${field}_${random.pick(ORDER_OPERATORS)}`, randomValue(random))
      else if (kind < 8) parameters.add(`${field}_in`, [1, 2, 3].map(() => randomValue(random)).join(','))
      else if (kind < 9)
        parameters.add(`${field}_${random.pick(TEXT_OPERATORS)}`, random.pick(['a', 'b', '1', 'red', '']))
      else parameters.add(`${field}_exists`, random.pick(['true', 'false']))
    }
  }
  if (random.chance(0.15)) parameters.add('q', random.pick(['ad', 'RED', '7', 'ü', 'nul', '']))
}

/** A query string with all of the grammar (docs/api.md, "Query"), now and then one that is refused. */
export function randomQuery(random: Random): string {
  const parameters = new Parameters(random)
  addFilters(random, parameters)
  if (random.chance(0.02)) parameters.add('n_exists', 'maybe')
  if (random.chance(0.5)) {
    const fields = Array.from({ length: 1 + random.integer(2) }, () => random.pick(FIELDS))
    parameters.add(
      'sort',
      fields.map((field) => random.pick([`${field}_asc`, `${field}_desc`, `-${field}`, `+${field}`, field])).join(','),
    )
  }
  if (random.chance(0.3)) {
    parameters.add('fields', Array.from({ length: 1 + random.integer(3) }, () => random.pick(FIELDS)).join(','))
  }
  if (random.chance(0.6)) {
    const [start, size, first] = random.pick(FAMILIES)
    if (random.chance(0.8)) parameters.add(start, String(first + random.integer(first === 1 ? 4 : 40)))
    if (random.chance(0.8)) parameters.add(size, String(1 + random.integer(30)))
    if (random.chance(0.04)) parameters.add(random.pick(['page', 'take', 'limit']), random.pick(['0', 'x', '1']))
  }
  return parameters.text
}

function randomValue(random: Random): string {
  return random.chance(0.5)
    ? String(random.integer(60))
    : random.pick([...WORDS, ...TIMES, 'x', 'y', 'red', 'blue', 'true', 'false', '[1]', '{}', '1.0', '["red"]'])
}

/** The types in the order of their values. */
export const RANK = { null: 1, boolean: 2, number: 3, instant: 4, text: 5, array: 6, object: 7 } as const
type Rank = typeof RANK

/** The reference for order keys: values of different types compare by rank, values of one type by content. */
type Ranked =
  | { readonly rank: Rank['null'] }
  | { readonly rank: Rank['boolean']; readonly value: boolean }
  | { readonly rank: Rank['number']; readonly value: number }
  | { readonly rank: Rank['instant']; readonly value: Instant }
  | { readonly rank: Rank['text']; readonly value: string }
  /** The elements of an array, or the members of an object: names sorted, each followed by its value. */
  | { readonly rank: Rank['array' | 'object']; readonly value: readonly Ranked[] }

export function ranked(value: JsonValue): Ranked {
  if (typeof value === 'boolean') return { rank: RANK.boolean, value }
  if (typeof value === 'number') return { rank: RANK.number, value }
  if (typeof value === 'string') {
    const instant = parseInstant(value)
    return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.text, value }
  }
  if (value === null) return { rank: RANK.null }
  if (isArray(value)) return { rank: RANK.array, value: value.map(ranked) }
  return { rank: RANK.object, value: members(value) }
}

/** A value as an event time: an instant in any spelling, or in a list, which comes after all instants. */
function rankedTime(value: JsonValue): Ranked {
  const instant = instantOf(value)
  return instant ? { rank: RANK.instant, value: instant } : { rank: RANK.array, value: [ranked(value)] }
}

function members(object: JsonObject): readonly Ranked[] {
  return Object.keys(object)
    .sort(comparePoints)
    .flatMap((name) => [{ rank: RANK.text, value: name }, ranked(object[name] as JsonValue)])
}

/** The text of a parameter as a value of each type that it may be. */
export function interpretations(text: string): readonly Ranked[] {
  const instant = readInstant(text)
  const json = parsed(text)
  return [
    { rank: RANK.text, value: text },
    ...(instant ? [{ rank: RANK.instant, value: instant }] : []),
    ...(json === undefined || typeof json === 'string' ? [] : [ranked(json)]),
  ]
}

function parsed(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text)
    const isContainer = isArray(value) || isObject(value)
    return isContainer || text === text.trim() ? value : undefined
  } catch {
    return undefined
  }
}

export function compareRanked(a: Ranked, b: Ranked): number {
  if (a.rank !== b.rank) return a.rank - b.rank
  switch (a.rank) {
    case RANK.null:
      return 0
    case RANK.boolean:
    case RANK.number:
      return Number(a.value) - Number((b as typeof a).value)
    case RANK.instant:
      return compareInstants(a.value, (b as typeof a).value)
    case RANK.text:
      return comparePoints(a.value, (b as typeof a).value)
    default:
      return compareSequences(a.value, (b as typeof a).value, compareRanked)
  }
}

function comparePoints(a: string, b: string): number {
  return compareSequences(Array.from(a), Array.from(b), (l, r) => (l.codePointAt(0) ?? 0) - (r.codePointAt(0) ?? 0))
}

/** Lexicographic order. */
function compareSequences<T>(a: readonly T[], b: readonly T[], compare: (left: T, right: T) => number): number {
  for (const [index, left] of a.entries()) {
    if (index >= b.length) return 1
    const order = compare(left, b[index] as T)
    if (order !== 0) return order
  }
  return a.length - b.length
}

interface Sort {
  readonly path: readonly string[]
  readonly descending: boolean
  readonly isTime?: boolean
}

/** The values by which an item is sorted, one for each sort; undefined where the item has none. */
type SortValues = readonly (Ranked | undefined)[]

export function sortValues(item: JsonValue, sort: readonly Sort[]): SortValues {
  return sort.map(({ path, isTime }) => {
    const found = firstAt(item, path)
    if (found === undefined) return undefined
    return isTime ? rankedTime(found) : ranked(found)
  })
}

export function compareSortValues(a: SortValues, b: SortValues, sort: readonly Sort[]): number {
  for (const [index, { descending, isTime }] of sort.entries()) {
    const left = a[index]
    const right = b[index]
    const order = !left || !right ? Number(!left) - Number(!right) : compareRanked(left, right)
    // An event time that is no instant comes last in both directions.
    const isLast = (one: Ranked | undefined): boolean => !one || (isTime === true && one.rank > RANK.instant)
    if (order !== 0) return descending && !isLast(left) && !isLast(right) ? -order : order
  }
  return 0
}
