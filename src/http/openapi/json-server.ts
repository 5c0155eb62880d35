import { isObject, type JsonObject, type JsonValue } from '../../json/value.ts'
import { JSON_TYPE } from '../media-types.ts'
import { create } from './collection-operations.ts'
import { pathItem } from './operations.ts'
import { content, ref } from './references.ts'

const pageOrNull = { type: ['integer', 'null'] }
const page = { type: 'integer' }

const NESTED = pathItem('/api/{collection}/{id}/{rest}', {
  tag: 'Any collection',
  name: 'Nested',
  parameters: ['collection', 'id', 'rest'],
  operations: {
    POST: {
      ...create({ item: ref('schemas', 'Item'), sent: ref('schemas', 'Item') }),
      summary: 'Create an item of another collection that refers to this one',
      description: 'The last segment is the name of that collection; the item gets the `<singular>Id` of this one.',
    },
  },
})

/** The paths as they are with `Api.Compatibility` `json-server`. */
export function asJsonServer(paths: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(paths).map(([path, item]) => [path, changed(path, item as Readonly<Record<string, JsonObject>>)]),
  )
}

function changed(path: string, item: Readonly<Record<string, JsonObject>>): JsonObject {
  if (!path.startsWith('/api/')) return item
  if (path.endsWith('/{rest}')) return { ...item, post: NESTED.post as JsonObject }
  const { get, delete: remove } = item
  if (path.endsWith('/{id}') && remove) {
    const { 204: _, ...others } = remove.responses as JsonObject
    const deleted = { description: 'The item as it was.', content: content(ref('schemas', 'Item'), JSON_TYPE) }
    return { ...item, delete: { ...remove, responses: { 200: deleted, ...others } } }
  }
  return get ? { ...item, get: { ...get, responses: inEnvelope(get.responses as JsonObject) } } : item
}

/** The schema of a list: with `_page`, the envelope of json-server 1.0. */
function inEnvelope(responses: JsonObject): JsonObject {
  const found = responses['200'] as { readonly content: Readonly<Record<string, { readonly schema: JsonObject }>> }
  const plain = found.content[JSON_TYPE]?.schema
  if (plain === undefined) return responses
  const envelope = {
    type: 'object',
    properties: { first: page, prev: pageOrNull, next: pageOrNull, last: page, pages: page, items: page, data: plain },
  }
  const json = { schema: { anyOf: [plain, envelope] } }
  return { ...responses, 200: { ...found, content: { ...found.content, [JSON_TYPE]: json } } }
}

/** The paths as they are with `Api.UseResultObject`: a page of a collection is an object, a whole result still a list. */
export function withResultObjects(paths: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(paths).map(([path, item]) => [path, isObject(item) ? pages(item) : item]))
}

function pages(item: JsonObject): JsonObject {
  const { get } = item
  const { responses } = isObject(get) ? get : {}
  const { 200: ok } = isObject(responses) ? responses : {}
  const { headers, content } = isObject(ok) ? ok : {}
  if (!isObject(get) || !isObject(headers) || !isObject(content) || !('X-Total-Count' in headers)) return item
  const { schema } = content[JSON_TYPE] as { readonly schema: JsonValue }
  const body = { ...content, [JSON_TYPE]: { schema: { anyOf: [resultObject(schema), schema] } } }
  return {
    ...item,
    get: { ...get, responses: { ...(responses as JsonObject), 200: { ...(ok as JsonObject), content: body } } },
  }
}

function resultObject(results: JsonValue): JsonObject {
  const link = { type: 'string', description: 'Path and query; empty where there is no such page.' }
  return {
    type: 'object',
    required: ['results', 'link', 'count'],
    properties: {
      results,
      link: {
        type: 'object',
        required: ['Prev', 'Next', 'First', 'Last'],
        properties: { Prev: link, Next: link, First: link, Last: link },
      },
      count: { type: 'integer', minimum: 0, description: 'Items that match, on all pages.' },
    },
  }
}
