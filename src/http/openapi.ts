import type { Scheme } from '../access/access.ts'
import type { JsonObject } from '../json/value.ts'
import { collectionPath } from '../projections/address.ts'
import type { Views } from '../projections/views.ts'
import { secured } from './openapi/access.ts'
import { headers, parameters, ref, responses, schemas } from './openapi/components.ts'
import { itemPaths, namesPath, valuePath } from './openapi/item-paths.ts'
import { schemaOf } from './openapi/schema-of.ts'
import { servicePaths } from './openapi/service-paths.ts'

export interface OpenApiOptions {
  readonly version: string
  readonly views: Pick<Views, 'names' | 'find'>
  /** The ways to say who one is; none where everybody may in. */
  readonly schemes: readonly Scheme[]
  /** Nothing can be written. */
  readonly isReadOnly?: boolean
}

/** Collections that get paths of their own, as many as the page shows without a wait, and the items of each that are looked at. */
const COLLECTIONS = 50
const ITEMS = 20

const DESCRIPTION = `The collections of a JSON file, and every change that was ever made to them.

Every change is an event, and every event has a *position* in the journal: 1, 2, 3… without gaps. Every answer
under \`/api\` says in \`Journal-Position\` which one it reflects. A method that a resource does not have is a 405
that names in \`Allow\` those that it has. Every error is a problem document (RFC 9457).

Whoever connects by Socket.IO, or by WebSocket to \`/ws\`, is told of every event.`

const TAGS = [
  {
    name: 'Any collection',
    description: 'The same paths for a collection of any name, also for one that does not exist yet.',
  },
  { name: 'Journal', description: 'What happened, oldest first.' },
  { name: 'Service' },
  { name: 'Documentation' },
]

/** The service as it is now, in OpenAPI 3.1: each collection with the fields that its first items have. */
export function openApi({ version, views, schemes, isReadOnly = false }: OpenApiOptions): JsonObject {
  const collections = views
    .names()
    .slice(0, COLLECTIONS)
    .map((name) => describe(name, views))
  const paths: JsonObject = {
    ...Object.assign({}, ...collections.map((collection) => collection.paths)),
    '/api': namesPath,
    ...itemPaths({
      path: '/api/{collection}',
      tag: 'Any collection',
      name: '',
      item: ref('schemas', 'Item'),
      parameters: ['collection'],
    }),
    '/api/{collection}/{id}/{rest}': valuePath,
    ...servicePaths,
  }
  const document = {
    openapi: '3.1.0',
    info: { title: 'Recollect', version, description: DESCRIPTION },
    tags: [...collections.map(({ path }) => ({ name: path })), ...TAGS],
    paths: isReadOnly ? readable(paths) : paths,
    components: {
      schemas: { ...schemas, ...Object.fromEntries(collections.map(({ name, schema }) => [`Item${name}`, schema])) },
      headers,
      parameters,
      responses,
    },
  }
  return secured(document, schemes)
}

/** The paths that can be read, with the operations that read. */
function readable(paths: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).flatMap(([path, item]) => {
      const { get, head, options } = item as JsonObject
      return get === undefined ? [] : [[path, { get, ...(head && { head }), ...(options && { options }) }]]
    }),
  )
}

/** Its tag is its path: whatever the name, that is no other tag. */
function describe(collection: string, views: OpenApiOptions['views']) {
  const path = collectionPath(collection)
  const name = `_${componentName(collection)}`
  const item = ref('schemas', `Item${name}`)
  return {
    path,
    name,
    schema: itemSchema(collection, views),
    paths: itemPaths({ path, tag: path, name, item, parameters: [] }),
  }
}

function itemSchema(collection: string, views: OpenApiOptions['views']): JsonObject {
  const values: JsonObject[] = []
  for (const { value } of views.find(collection)?.items() ?? []) if (values.push(value) === ITEMS) break
  if (values.length === 0) return ref('schemas', 'Item')
  return { description: 'As the first items are; others may be different.', ...schemaOf(values) }
}

/** The name as components may be called; different names stay different. */
function componentName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/gu, (character) => `.${character.codePointAt(0)?.toString(16)}.`)
}
