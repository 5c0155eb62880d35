import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'

type Type = 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object'

/**
 * The part of JSON Schema that describes settings: a value is valid here exactly if ajv accepts it and `mistakes` has
 * none (docs/decisions/0060-settings-are-checked-without-ajv.md says why).
 */
export interface Schema {
  readonly type?: Type | readonly Type[]
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: true
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>
  readonly additionalProperties?: Schema | false
  /** Describes valid values in messages. */
  readonly expects?: string
  /** Messages must not contain the value. */
  readonly isSecret?: true
  /** Finds what JSON Schema cannot describe. The mistakes are predicates such as `must be a path`. */
  readonly mistakes?: (value: never) => readonly string[]
}

/** All mistakes in a value, as sentences that begin with its name. `shown` is the value as the user wrote it. */
export function mistakesIn(schema: Schema, value: JsonValue, name: string, shown = value): readonly string[] {
  if (!isValid(schema, value)) {
    return [`${name} must be ${expectationOf(schema)}${schema.isSecret ? '' : `, not ${JSON.stringify(shown)}`}.`]
  }
  const { items } = schema
  const inner = isObject(value)
    ? memberMistakes(schema, value, name)
    : isArray(value) && items
      ? value.flatMap((one, index) => mistakesIn(items, one, `${name}[${index}]`))
      : []
  if (inner.length > 0) return inner
  return (schema.mistakes?.(value as never) ?? []).map((mistake) => `${name} ${mistake}.`)
}

function memberMistakes(schema: Schema, value: JsonObject, name: string): readonly string[] {
  const { properties = {}, required = [], dependentRequired = {}, additionalProperties } = schema
  const absent = (members: readonly string[]): readonly string[] => members.filter((one) => !Object.hasOwn(value, one))
  const expected = (member: string): string => expectationOf(properties[member] ?? {})
  const mistakes = absent(required).map((one) => `${name}.${one} must be ${expected(one)}.`)
  for (const [member, needed] of Object.entries(dependentRequired)) {
    if (!Object.hasOwn(value, member)) continue
    mistakes.push(...absent(needed).map((one) => `${name}.${member} needs ${one}: ${expected(one)}.`))
  }
  for (const [member, one] of Object.entries(value)) {
    const described = Object.hasOwn(properties, member) ? properties[member] : additionalProperties
    if (described) mistakes.push(...mistakesIn(described, one as JsonValue, `${name}.${member}`))
    else if (described === false)
      mistakes.push(`${name} has an unknown key ${member}; there are ${Object.keys(properties).join(', ')}.`)
  }
  return mistakes
}

/** Whether the value itself is valid. Lists of texts are one value: users write `a,b`, and no index. */
function isValid(schema: Schema, value: JsonValue): boolean {
  const { type, minimum = -Infinity, maximum = Infinity, minLength = 0, pattern = '', items } = schema
  if (type !== undefined && ![type].flat().some((one) => IS_OF_TYPE[one](value))) return false
  if (schema.enum && !schema.enum.some((one) => one === value)) return false
  if (typeof value === 'number') return value >= minimum && value <= maximum
  if (typeof value === 'string') return value.length >= minLength && new RegExp(pattern, 'u').test(value)
  if (!isArray(value)) return true
  const { minItems = 0, maxItems = Infinity, uniqueItems } = schema
  if (value.length < minItems || value.length > maxItems) return false
  if (uniqueItems && new Set(value).size < value.length) return false
  return !items || items.type === 'object' || value.every((one) => isValid(items, one))
}

const IS_OF_TYPE: Readonly<Record<Type, (value: JsonValue) => boolean>> = {
  boolean: (value) => typeof value === 'boolean',
  integer: Number.isInteger,
  number: (value) => typeof value === 'number',
  string: (value) => typeof value === 'string',
  array: isArray,
  object: isObject,
}

/** Describes the valid values. */
function expectationOf({ expects, type, enum: choices }: Schema): string {
  if (expects !== undefined) return expects
  if (choices) return `one of ${choices.join(', ')}`
  return type === 'boolean' ? 'true or false' : type === 'object' ? 'an object' : 'text'
}

/**
 * The value that a text stands for; the text itself if it stands for none. Only lists are written as text in a file,
 * too: `isFromText` says that the text is that of a flag or an environment variable.
 */
export function fromText({ type, items }: Schema, text: string, isFromText: boolean): JsonValue {
  if (type === 'array' && items?.type !== 'object') return text.split(',').map((piece) => piece.trim())
  if (!isFromText) return text
  const types = [type].flat()
  if (types.includes('boolean') && /^(?:true|false)$/.test(text)) return text === 'true'
  if (types.includes('integer') && /^\d+$/.test(text)) return Number(text)
  if (types.includes('number') && /^[\d.]+$/.test(text)) return Number(text)
  if (type !== 'array' && type !== 'object') return text
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return text
  }
}
