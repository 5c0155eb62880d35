import type { JsonObject, JsonValue } from '../../json/value.ts'
import type { HeaderName } from './headers.ts'
import type { ParameterName } from './parameters.ts'

/** Components of one kind, by name. */
export type Components = Readonly<Record<string, JsonObject>>

export function headerRefs(names: readonly HeaderName[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name, ref('headers', name)]))
}

export function parameterRefs(names: readonly ParameterName[]): readonly JsonObject[] {
  return names.map((name) => ref('parameters', name))
}

export function ref(kind: 'schemas' | 'headers' | 'parameters' | 'responses', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

/** Content with one schema for each of the media types. */
export function content(schema: JsonValue, ...types: readonly string[]): JsonObject {
  return Object.fromEntries(types.map((type) => [type, { schema }]))
}
