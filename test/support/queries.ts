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

/** A query string with all of the grammar (docs/api.md, "Query"), now and then one that is refused. */
export function randomQuery(random: Random): string {
  const parameters: string[] = []
  const add = (name: string, value: string): void => {
    const escaped = encodeURIComponent(value)
    parameters.push(`${encodeURIComponent(name)}=${random.chance(0.5) ? escaped.replaceAll('%20', '+') : escaped}`)
  }
  for (let filters = random.integer(3); filters > 0; filters--) {
    const field = random.pick(FIELDS)
    const again = random.chance(0.2) ? 2 : 1
    const kind = random.integer(10)
    for (let times = 0; times < again; times++) {
      if (kind < 3) add(field, randomValue(random))
      else if (kind < 7) add(`${field}_${random.pick(ORDER_OPERATORS)}`, randomValue(random))
      else if (kind < 8) add(`${field}_in`, [1, 2, 3].map(() => randomValue(random)).join(','))
      else if (kind < 9) add(`${field}_${random.pick(TEXT_OPERATORS)}`, random.pick(['a', 'b', '1', 'red', '']))
      else add(`${field}_exists`, random.pick(['true', 'false', ...(random.chance(0.1) ? ['maybe'] : [])]))
    }
  }
  if (random.chance(0.15)) add('q', random.pick(['ad', 'RED', '7', 'ü', 'nul', '']))
  if (random.chance(0.5)) {
    const fields = Array.from({ length: 1 + random.integer(2) }, () => random.pick(FIELDS))
    add(
      'sort',
      fields.map((field) => random.pick([`${field}_asc`, `${field}_desc`, `-${field}`, `+${field}`, field])).join(','),
    )
  }
  if (random.chance(0.3)) {
    add('fields', Array.from({ length: 1 + random.integer(3) }, () => random.pick(FIELDS)).join(','))
  }
  if (random.chance(0.6)) {
    const [start, size, first] = random.pick(FAMILIES)
    if (random.chance(0.8)) add(start, String(first + random.integer(first === 1 ? 4 : 40)))
    if (random.chance(0.8)) add(size, String(1 + random.integer(30)))
    if (random.chance(0.04)) add(random.pick(['page', 'take', 'limit']), random.pick(['0', 'x', '1']))
  }
  return parameters.join('&')
}

function randomValue(random: Random): string {
  return random.chance(0.5)
    ? String(random.integer(60))
    : random.pick([...WORDS, ...TIMES, 'x', 'y', 'red', 'blue', 'true', 'false', '[1]', '{}', '1.0', '["red"]'])
}
