import type { JsonObject, JsonValue } from '../../src/json/value.ts'
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
