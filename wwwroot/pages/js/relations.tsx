// Items that refer to others: `postId` of a comment is the id of an item of `posts` (docs/api.md, "Related items").
import pluralize from 'pluralize'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { count } from './format.ts'
import { Link } from './link.tsx'
import { idField, pathOfQuery, shownCounts } from './rows.ts'

const SUFFIX = 'Id'
/** Collections that are asked whether items of theirs refer to one. */
const MOST_ASKED = 20

interface Reference {
  readonly collection: string
  readonly id: string
}

/** The items of a collection that refer to one. */
interface Referring {
  readonly collection: string
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

export function ReferenceLink({ collection, id, ...rest }: Reference & { readonly tabIndex?: number }) {
  return (
    <Link class="chip" to={{ collection, query: undefined, item: id }} {...rest}>
      {collection}/{id}
    </Link>
  )
}

/** Asks the other collections for items that refer to this one. */
export async function referringTo(collection: string, id: string): Promise<readonly Referring[]> {
  const query = new URLSearchParams({ [`${pluralize.singular(collection)}${SUFFIX}`]: id })
  const names = Object.entries(shownCounts.peek() ?? {}).flatMap(([name, total]) => (total ? [name] : []))
  const found = await Promise.all(
    names.slice(0, MOST_ASKED).map(async (name) => {
      const asked = pathOfQuery(name, new URLSearchParams([...query, ['pageSize', '1']]))
      const { headers } = await client.request('HEAD', asked, { accept: [400, 404] })
      return { collection: name, query: String(query), total: Number(headers.get('X-Total-Count')) }
    }),
  )
  return found.filter(({ total }) => total > 0)
}

interface Properties {
  readonly item: JsonObject
  /** Undefined: not known yet. */
  readonly referring: readonly Referring[] | undefined
}

export function Relations({ item, referring }: Properties) {
  const { [idField()]: _, ...members } = item
  const references = Object.entries(members).flatMap(([field, value]) =>
    [value].flat().flatMap((one) => referenceOf(field, one) ?? []),
  )
  if (references.length + (referring?.length ?? 1) === 0) {
    return <p class="quiet">It refers to no item, and none to it.</p>
  }
  return (
    <ul class="row" aria-label="Related items">
      {references.map((one) => (
        <li key={`${one.collection}/${one.id}`}>
          <ReferenceLink {...one} />
        </li>
      ))}
      {referring?.map(({ collection, query, total }) => (
        <li key={collection}>
          <Link class="chip" to={{ collection, query, item: undefined }}>
            {count(total)} of {collection}
          </Link>
        </li>
      ))}
    </ul>
  )
}
