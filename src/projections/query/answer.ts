import type { Item } from '../../collections/item.ts'
import { Refusal } from '../../errors.ts'
import type { JsonValue } from '../../json/value.ts'
import { matches, mentions } from './filter.ts'
import { compareRanked, type Ranked, ranked } from './ordering.ts'
import { firstAt, select } from './paths.ts'
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

/** Stable; an item without the field comes last, ascending and descending. */
function sorted(items: readonly Item[], sort: Query['sort']): readonly Item[] {
  if (sort.length === 0) return items
  const keyed = items.map((item) => ({ item, keys: sort.map(({ path }) => keyAt(item.value, path)) }))
  keyed.sort((a, b) => {
    for (const [index, { descending }] of sort.entries()) {
      const order = compareKeys(a.keys[index], b.keys[index], descending)
      if (order !== 0) return order
    }
    return 0
  })
  return keyed.map(({ item }) => item)
}

function keyAt(value: JsonValue, path: readonly string[]): Ranked | undefined {
  const found = firstAt(value, path)
  return found === undefined ? undefined : ranked(found)
}

function compareKeys(a: Ranked | undefined, b: Ranked | undefined, descending: boolean): number {
  if (!a || !b) return Number(!a) - Number(!b)
  return descending ? compareRanked(b, a) : compareRanked(a, b)
}
