// Items that refer to others: `postId` of a comment is the id of an item of `posts` (docs/api.md, "Related items").
import pluralize from 'pluralize'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { idField, pathOfQuery, shownCounts } from './rows.ts'

const SUFFIX = 'Id'
/** Collections that are asked whether items of theirs refer to one. */
const MOST_ASKED = 20

export interface Reference {
  readonly collection: string
  readonly id: string
}

export interface Referring {
  readonly collection: string
  /** Selects the items that refer to the one. */
  readonly query: string
  readonly total: number
}

/** The item that the value of a field refers to. */
export function referenceOf(name: string | undefined, value: JsonValue | undefined): Reference | undefined {
  const isId = (typeof value === 'string' && value !== '') || typeof value === 'number'
  if (!name?.endsWith(SUFFIX) || !isId) return undefined
  const collection = pluralize.plural(name.slice(0, -SUFFIX.length))
  return typeof shownCounts.value?.[collection] === 'number' ? { collection, id: String(value) } : undefined
}

/** The items that the members of an item refer to, each once. */
export function referencesOf(item: JsonObject): readonly Reference[] {
  const { [idField()]: _, ...others } = item
  const found = Object.entries(others).flatMap(([field, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((one) => referenceOf(field, one) ?? []),
  )
  return [...new Map(found.map((one) => [JSON.stringify(one), one])).values()]
}

/** The collections with items that refer to this one. */
export async function referringTo(collection: string, id: string): Promise<readonly Referring[]> {
  const query = new URLSearchParams({ [`${pluralize.singular(collection)}${SUFFIX}`]: id })
  const names = Object.entries(shownCounts.peek() ?? {}).flatMap(([name, count]) => (count ? [name] : []))
  const found = await Promise.all(
    names.slice(0, MOST_ASKED).map(async (name) => {
      const asked = pathOfQuery(name, new URLSearchParams([...query, ['pageSize', '1']]))
      const response = await client.request('HEAD', asked, { accept: [400, 404] })
      return { collection: name, query: String(query), total: Number(response.headers.get('X-Total-Count')) }
    }),
  )
  return found.filter(({ total }) => total > 0)
}
