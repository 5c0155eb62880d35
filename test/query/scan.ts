import type { Item } from '../../src/collections/item.ts'
import type { Sort } from '../../src/json/order.ts'
import { type Path, select } from '../../src/json/paths.ts'
import { isArray, isObject, type JsonValue, own } from '../../src/json/value.ts'
import type { Conditions, Filter } from '../../src/query/filter.ts'
import type { Query } from '../../src/query/query.ts'
import { compareRanked, compareSortValues, interpretations, ranked, sortValues } from '../support/queries.ts'

/** The result of a query by looking at every item: short enough to be right, and the reference for indexes. */
export function scan(items: Iterable<Item>, query: Query): { readonly text: string; readonly total: number } {
  const matching = sorted(filtered(items, query), query.sort)
  const { offset, size } = query.page
  const page = matching.slice(offset, offset + size)
  const { fields } = query
  const texts = fields ? page.map(({ value }) => JSON.stringify(select(value, fields))) : page.map(({ text }) => text)
  return { text: `[${texts.join(',')}]`, total: matching.length }
}

function filtered(items: Iterable<Item>, conditions: Conditions): readonly Item[] {
  return Array.from(items).filter(({ value }) => meets(value, conditions))
}

function meets(value: JsonValue, { filters, others }: Conditions): boolean {
  return (
    filters.every((filter) => matches(value, filter)) &&
    others.every((other) =>
      'mentions' in other ? mentions(value, other.mentions) : other.anyOf.some((one) => meets(value, one)),
    )
  )
}

function sorted(items: readonly Item[], sort: readonly Sort[]): readonly Item[] {
  if (sort.length === 0) return items
  const valued = items.map((item) => ({ item, values: sortValues(item.value, sort) }))
  valued.sort((a, b) => compareSortValues(a.values, b.values, sort))
  return valued.map(({ item }) => item)
}

function matches(item: JsonValue, { path, operator, operands }: Filter): boolean {
  const found = naiveValuesAt(item, path)
  const texts = operands.map(({ text }) => text)
  switch (operator) {
    case 'exists':
      return texts.includes(String(found.length > 0))
    case 'contains':
      return found.some((value) => typeof value === 'string' && texts.some((text) => value.includes(text)))
    case 'startswith':
      return found.some((value) => typeof value === 'string' && texts.some((text) => value.startsWith(text)))
    case 'endswith':
      return found.some((value) => typeof value === 'string' && texts.some((text) => value.endsWith(text)))
    case 'like':
      return found.some((value) => isScalar(value) && texts.some((text) => folded(value).includes(text)))
    case 'istartswith':
      return found.some((value) => typeof value === 'string' && texts.some((text) => folded(value).startsWith(text)))
    case 'iendswith':
      return found.some((value) => typeof value === 'string' && texts.some((text) => folded(value).endsWith(text)))
    default: {
      const wanted = texts.flatMap(interpretations)
      return found.map(ranked).some((value) => {
        const orders = wanted.filter(({ rank }) => rank === value.rank).map((one) => compareRanked(value, one))
        if (operator === 'ne') return orders.length > 0 && orders.every((order) => order !== 0)
        return orders.some((order) => HOLDS[operator](order))
      })
    }
  }
}

function isScalar(value: JsonValue): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

function folded(value: string | number | boolean): string {
  return String(value).toLowerCase().toUpperCase()
}

const HOLDS = {
  eq: (order: number) => order === 0,
  gt: (order: number) => order > 0,
  gte: (order: number) => order >= 0,
  lt: (order: number) => order < 0,
  lte: (order: number) => order <= 0,
}

function mentions(value: JsonValue, folded: readonly string[]): boolean {
  if (isArray(value)) return value.some((element) => mentions(element, folded))
  if (isObject(value)) return Object.values(value).some((member) => mentions(member as JsonValue, folded))
  const text = String(value).toLowerCase().toUpperCase()
  return folded.some((one) => text.includes(one))
}

function naiveValuesAt(item: JsonValue, path: Path): readonly JsonValue[] {
  return path.reduce(
    (reached, name) =>
      reached.flatMap((value) => {
        const inner = isObject(value) ? own(value, name) : undefined
        return inner === undefined ? [] : withElements(inner)
      }),
    withElements(item),
  )
}

function withElements(value: JsonValue): readonly JsonValue[] {
  return isArray(value) ? [value, ...value.flatMap(withElements)] : [value]
}
