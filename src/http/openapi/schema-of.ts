import { isArray, isObject, type JsonObject, type JsonValue } from '../../json/value.ts'

/** Limits of how much is read, so that the document stays small for any items. */
const DEPTH = 5
const ELEMENTS = 20
const MEMBERS = 100
const PROPERTIES = 500

/**
 * A JSON Schema that all of the values satisfy: their types and all of their members. Values too large to read get an
 * unrestricted schema, and so does what was only ever null. It contains no values, since readers of the document may not
 * be allowed to read items.
 */
export function schemaOf(values: readonly JsonValue[]): JsonObject {
  return describe(values, DEPTH, { left: PROPERTIES })
}

function describe(values: readonly JsonValue[], depth: number, budget: { left: number }): JsonObject {
  const types = typesOf(values)
  if (types.every((type) => type === 'null')) return {}
  const type = types.length === 1 ? (types[0] as string) : types
  const properties = propertiesOf(values.filter(isObject), depth, budget)
  const items = elementSchema(values.filter(isArray), depth, budget)
  return {
    type,
    ...(types.includes('object') && (properties ? { properties } : { additionalProperties: true })),
    ...(types.includes('array') && { items: items ?? {} }),
  }
}

function typesOf(values: readonly JsonValue[]): string[] {
  const types = new Set(values.map(jsonType))
  if (types.has('number')) types.delete('integer')
  return [...types]
}

function jsonType(value: JsonValue): string {
  if (value === null) return 'null'
  if (isArray(value)) return 'array'
  return typeof value === 'number' && Number.isInteger(value) ? 'integer' : typeof value
}

function elementSchema(
  arrays: readonly (readonly JsonValue[])[],
  depth: number,
  budget: { left: number },
): JsonObject | undefined {
  if (depth === 0 || arrays.some(({ length }) => length > ELEMENTS)) return undefined
  const all = arrays.flat(1) as JsonValue[]
  return all.length > 0 ? describe(all, depth - 1, budget) : undefined
}

function propertiesOf(objects: readonly JsonObject[], depth: number, budget: { left: number }): JsonObject | undefined {
  if (depth === 0) return undefined
  const names = new Set<string>()
  for (const object of objects) {
    const own = Object.keys(object)
    if (own.length > MEMBERS) return undefined
    for (const name of own) names.add(name)
  }
  if (names.size === 0 || names.size > MEMBERS || names.size > budget.left) return undefined
  budget.left -= names.size
  return Object.fromEntries(
    [...names].map((name) => [
      name,
      describe(
        objects.flatMap((object) => (Object.hasOwn(object, name) ? [object[name] as JsonValue] : [])),
        depth - 1,
        budget,
      ),
    ]),
  )
}
