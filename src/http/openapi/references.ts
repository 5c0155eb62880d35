import type { JsonObject, JsonValue } from '../../json/value.ts'
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

const text = { type: 'string' }

function header(description: string, schema: JsonObject = text): JsonObject {
  return { description, schema }
}

export const headers = {
  ETag: header('The entity tag of the response; for an item a hash of its data: equal data has an equal tag.'),
  Location: header('The path of the created resource.'),
  Link: header('The pages `first`, `prev`, `next` and `last` (RFC 8288), as paths; every other parameter is kept.'),
  'Recollect-Hint': header(
    'Fields of the query that no item of the collection has; of a write the ids that the server replaced, and event times that are not valid.',
  ),
  'X-Total-Count': header('Number of matching items on all pages.', { type: 'integer', minimum: 0 }),
  'Journal-Position': header(
    'The position of the write (of its last event), or the position that a read reflects. Every response under `/api` has it.',
    { type: 'integer', minimum: 0 },
  ),
  'X-Request-Id': header('The id of the request in the journal and in the log.'),
  Allow: header('The methods that are allowed here.'),
  'Accept-Patch': header('The media types of PATCH (RFC 5789).'),
  'Retry-After': header('Seconds.', { type: 'integer', minimum: 0 }),
  'Preference-Applied': header('The applied preference of `Prefer`.'),
  Vary: header('`Accept`: the representations have one address.'),
  'Cache-Control': header('How long the response may be cached.'),
} as const satisfies Readonly<Record<string, JsonObject>>

export type HeaderName = keyof typeof headers
