import type { JsonObject, JsonValue } from '../../json/value.ts'
import { JSON_TYPE } from '../media-types.ts'

/** A reference to a component. */
export function ref(name: string, kind: 'schemas' | 'headers' | 'parameters' | 'responses' = 'schemas'): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

/** Content with one schema for each of the media types; a name stands for the component. */
export function content(schema: string | JsonObject, ...types: readonly string[]): JsonObject {
  const value: JsonValue = typeof schema === 'string' ? ref(schema) : schema
  return Object.fromEntries(types.map((type) => [type, { schema: value }]))
}

export function json(schema: string | JsonObject): JsonObject {
  return content(schema, JSON_TYPE)
}

/** A JSON object of any members. Without `additionalProperties` generated clients take it for an empty one. */
export const anyObject = { type: 'object', additionalProperties: true } as const
export const anyText = { type: 'string' } as const
export const idSchema = { type: ['string', 'number'] } as const
