import type { Item } from '../../collections/item.ts'
import { Refusal } from '../../errors.ts'
import { compareSortKeys, type Sort, sortKeys } from '../../json/order.ts'
import { select } from '../../json/paths.ts'
import { matches, mentions } from './filter.ts'
import type { Query } from './query.ts'

export interface Answer {
  /** A JSON array. */
  readonly text: string
  /** Items that match, on all pages. */
  readonly total: number
}

/** Half of what the longest string can hold. */
const MOST_CHARACTERS = 2 ** 28

/** Refuses a page that would be longer than `most` characters: no string may be. */
export function answer(items: Iterable<Item>, query: Query, most = MOST_CHARACTERS): Answer {
  const matching = sorted(filtered(items, query), query.sort)
  const { offset, size } = query.page
  const page = matching.slice(offset, offset + size)
  const { fields } = query
  const texts = fields ? page.map(({ value }) => JSON.stringify(select(value, fields))) : page.map(({ text }) => text)
  if (texts.reduce((sum, { length }) => sum + length + 1, 1) > most) {
    throw new Refusal(
      'Invalid',
      `The page of ${texts.length} items would be longer than ${most} characters; ask for fewer.`,
    )
  }
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

/** Stable. */
function sorted(items: readonly Item[], sort: readonly Sort[]): readonly Item[] {
  if (sort.length === 0) return items
  const keyed = items.map((item) => ({ item, keys: sortKeys(item.value, sort) }))
  keyed.sort((a, b) => compareSortKeys(a.keys, b.keys, sort))
  return keyed.map(({ item }) => item)
}
