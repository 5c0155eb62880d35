import { isObject, type JsonObject, type JsonValue } from '../../json/value.ts'
import { JSON_TYPE } from '../bodies.ts'

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
