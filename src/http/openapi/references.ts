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

const REFERENCES = /"\$ref":"#\/components\/(\w+)\/([^"]+)"/g

/** The components that the texts refer to, directly or through others, and the security schemes. */
export function usedComponents(
  components: Readonly<Record<string, Components>>,
  texts: readonly string[],
): Record<string, Components> {
  const used = new Set<JsonObject | undefined>([undefined])
  const read = (text: string): void => {
    for (const [, kind, name] of text.matchAll(REFERENCES) as Iterable<readonly [string, string, string]>) {
      const component = components[kind]?.[name]
      if (used.has(component)) continue
      used.add(component)
      read(JSON.stringify(component))
    }
  }
  for (const text of texts) read(text)
  return Object.fromEntries(
    Object.entries(components).map(([kind, named]) => [
      kind,
      Object.fromEntries(Object.entries(named).filter(([, one]) => kind === 'securitySchemes' || used.has(one))),
    ]),
  )
}

/** A JSON object of any members. Without `additionalProperties` generated clients take it for an empty one. */
export const anyObject = { type: 'object', additionalProperties: true } as const

export const idSchema = { type: ['string', 'number'] } as const

/** Content with one schema for each of the media types. */
export function content(schema: JsonValue, ...types: readonly string[]): JsonObject {
  return Object.fromEntries(types.map((type) => [type, { schema }]))
}
