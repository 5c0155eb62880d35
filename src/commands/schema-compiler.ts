import { Ajv, type ErrorObject, type SchemaValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { equal, isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import type { Fault } from '../runtime/errors.ts'

/** Highest number of reported faults of one item. */
const MOST_FAULTS = 100
/** Validation of an item with more values stops at the first fault, because each value may have one. */
const MOST_VALUES = 10_000
/** Highest number of values of one item that `uniqueItems` compares, which takes up to 20 ms; more are invalid. */
const MOST_COMPARED = 50_000
/** Longest texts by format; longer ones are invalid. Checking a url takes quadratic time, a regex is compiled. */
const MOST_CHARACTERS = { url: 2048, regex: 2048 } as const

type Check = (item: JsonObject) => readonly ErrorObject[]

/**
 * Compiles the schema of items: draft-07 if `$schema` says so, otherwise 2020-12. Returns a function for the errors of an
 * item.
 * @throws {Error} if the schema is not valid.
 */
export function compileSchema(schema: JsonValue): (item: JsonObject) => readonly Fault[] {
  // The first one stops at the first error.
  const [first, all] = [compile(schema, false), compile(schema, true)]
  return (item) => {
    try {
      const errors = first(item)
      if (errors.length === 0) return []
      const hasFewValues = countValues(item, MOST_VALUES) <= MOST_VALUES
      return (hasFewValues ? all(item) : errors).slice(0, MOST_FAULTS).map((error) => ({
        pointer: error.instancePath,
        message: error.message ?? `fails "${error.keyword}"`,
      }))
    } catch (error) {
      // When comparing values (const), ajv calls the valueOf or toString of an object, which may be data.
      if (!(error instanceof TypeError)) throw error
      return [{ pointer: '', message: `cannot be compared: ${error.message}` }]
    }
  }
}

/** Counts the values nested in a value; stops beyond `most`. */
function countValues(value: JsonValue, most: number): number {
  let count = 0
  const waiting: JsonValue[] = [value]
  for (let one = waiting.pop(); one !== undefined && count <= most; one = waiting.pop()) {
    if (typeof one !== 'object' || one === null) continue
    const inner = isArray(one) ? one : (Object.values(one) as JsonValue[])
    count += inner.length
    if (count <= most) for (const another of inner) waiting.push(another)
  }
  return count
}

function compile(schema: JsonValue, allErrors: boolean): Check {
  if (!isObject(schema) && typeof schema !== 'boolean') throw new Error('a JSON Schema is an object or a boolean')
  // Own properties only: inherited ones, such as `toString`, are not members of an item.
  const options = { allErrors, strict: false, ownProperties: true }
  const isDraft7 = isObject(schema) && String(schema.$schema).includes('draft-07')
  const ajv = isDraft7 ? new Ajv(options) : new Ajv2020(options)
  addFormats.default(ajv)
  for (const [name, most] of Object.entries(MOST_CHARACTERS)) boundFormat(ajv, name, most)
  const beginUniqueItems = replaceUniqueItems(ajv)
  replaceEnum(ajv)
  const validate = ajv.compile(schema)
  return (item) => {
    beginUniqueItems()
    return validate(item) ? [] : (validate.errors ?? [])
  }
}

/** ajv compares each element with each other. Returns a function to call before each item. */
function replaceUniqueItems(ajv: Ajv): () => void {
  // No limit while schemas are compiled, which validates them against the meta-schema.
  let left = Number.POSITIVE_INFINITY
  const validate: SchemaValidateFunction = (isWanted: boolean, array: readonly JsonValue[]) => {
    if (!isWanted) return true
    left -= countValues(array, left)
    const message =
      left < 0 ? `has too many values for uniqueItems, more than ${MOST_COMPARED}` : 'must NOT have duplicate items'
    validate.errors = [{ keyword: 'uniqueItems', message, params: {} }]
    return left >= 0 && areUnique(array)
  }
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({ keyword: 'uniqueItems', type: 'array', schemaType: 'boolean', validate, errors: true })
  return () => {
    left = MOST_COMPARED
  }
}

/** ajv compares a value with each one of a long enumeration. */
function replaceEnum(ajv: Ajv): void {
  ajv.removeKeyword('enum')
  ajv.addKeyword({
    keyword: 'enum',
    schemaType: 'array',
    compile: (allowed: readonly JsonValue[]) => {
      const scalars = new Set(allowed.filter((value) => !isContainer(value)))
      const containers = allowed.filter(isContainer)
      return (value: JsonValue) =>
        isContainer(value) ? containers.some((one) => equal(one, value)) : scalars.has(value)
    },
    error: { message: 'must be equal to one of the allowed values' },
  })
}

function isContainer(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null
}

function boundFormat(ajv: Ajv, name: string, most: number): void {
  const known = ajv.formats[name]
  const isValid = known instanceof RegExp ? (text: string) => known.test(text) : known
  if (typeof isValid !== 'function') throw new Error(`the format ${name} is checked in another way`)
  ajv.addFormat(name, (text: string) => text.length <= most && Boolean(isValid(text)))
}

function areUnique(array: readonly JsonValue[]): boolean {
  const scalars = new Set<JsonValue>()
  const texts = new Set<string>()
  for (const value of array) {
    if (isContainer(value)) texts.add(canonical(value))
    else scalars.add(value)
  }
  return scalars.size + texts.size === array.length
}

/** The same text for values that are equal as JSON. */
function canonical(value: JsonValue): string {
  if (isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonical(value[name] as JsonValue)}`).join(',')}}`
}
