import type { Item } from '../../../src/collections/item.ts'
import { compareSortKeys, type Sort, sortKeys } from '../../../src/json/order.ts'
import { select } from '../../../src/json/paths.ts'
import { matches, mentions } from '../../../src/projections/query/filter.ts'
import type { Query } from '../../../src/projections/query/query.ts'

/** What a query is answered, found by looking at every item: short enough to be right, and what indexes must equal. */
export function scan(items: Iterable<Item>, query: Query): { readonly text: string; readonly total: number } {
  const matching = sorted(filtered(items, query), query.sort)
  const { offset, size } = query.page
  const page = matching.slice(offset, offset + size)
  const { fields } = query
  const texts = fields ? page.map(({ value }) => JSON.stringify(select(value, fields))) : page.map(({ text }) => text)
  return { text: `[${texts.join(',')}]`, total: matching.length }
}

function filtered(items: Iterable<Item>, { filters, mentioned }: Query): readonly Item[] {
  const all = Array.from(items)
  if (filters.length === 0 && mentioned.length === 0) return all
  return all.filter(
    ({ value }) =>
      filters.every((filter) => matches(value, filter)) && (mentioned.length === 0 || mentions(value, mentioned)),
  )
}

function sorted(items: readonly Item[], sort: readonly Sort[]): readonly Item[] {
  if (sort.length === 0) return items
  const keyed = items.map((item) => ({ item, keys: sortKeys(item.value, sort) }))
  keyed.sort((a, b) => compareSortKeys(a.keys, b.keys, sort))
  return keyed.map(({ item }) => item)
}
