// Items that refer to others: `postId` of a comment is the id of an item of `posts` (docs/api.md, "Related items").
import pluralize from 'pluralize'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { idField, pathOf, shownCounts } from './rows.ts'
import { asOf } from './time.ts'

const SUFFIX = 'Id'
/** Collections that are asked whether items of theirs refer to one. */
const MOST_ASKED = 20

export interface Reference {
  readonly collection: string
  readonly id: string
}

export interface Referring {
  readonly collection: string
  readonly field: string
  readonly total: number
}

/** Collections that have no such field, by the field. */
const unrelated = new Set<string>()

/** The item that the value of a field refers to. */
export function referenceOf(name: string | undefined, value: JsonValue | undefined): Reference | undefined {
  if (!name?.endsWith(SUFFIX) || (typeof value !== 'string' && typeof value !== 'number') || value === '')
    return undefined
  const collection = pluralize.plural(name.slice(0, -SUFFIX.length))
  return typeof shownCounts.value?.[collection] === 'number' ? { collection, id: String(value) } : undefined
}

export function referencesOf(item: JsonObject): readonly (Reference & { readonly field: string })[] {
  return Object.entries(item).flatMap(([field, value]) =>
    (Array.isArray(value) ? value : [value]).flatMap((one) => {
      const reference = field === idField() ? undefined : referenceOf(field, one)
      return reference ? [{ ...reference, field }] : []
    }),
  )
}

/** The collections with items that refer to this one, with their number. */
export async function referringTo(
  collection: string,
  id: string,
  names: readonly string[],
): Promise<readonly Referring[]> {
  const field = `${pluralize.singular(collection)}${SUFFIX}`
  const asked = names.filter((name) => !unrelated.has(JSON.stringify([name, field]))).slice(0, MOST_ASKED)
  const found = await Promise.all(
    asked.map(async (name) => {
      const at = asOf.value === undefined ? '' : `&asOf=${asOf.value}`
      const path = `${pathOf(name)}?${field}=${encodeURIComponent(id)}&pageSize=1${at}`
      const { headers } = await client.request('HEAD', path, { accept: [400, 404] })
      if (headers.has('Recollect-Hint')) unrelated.add(JSON.stringify([name, field]))
      return { collection: name, field, total: Number(headers.get('X-Total-Count')) }
    }),
  )
  return found.filter(({ total }) => total > 0)
}
