import { Ajv, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { type Fault, Refusal } from '../errors.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'

/** Faults that a response lists for one item. */
const MOST_FAULTS = 100
/** Validation of an item with more values stops at the first fault, because each value may have one. */
const MOST_VALUES = 10_000
/** Characters by format. The check of a url takes quadratic time, that of a regex compiles it; longer text is not valid. */
const MOST_CHARACTERS = { url: 2048, regex: 2048 } as const

interface Compiled {
  /** Stops at the first fault. */
  readonly first: ValidateFunction
  readonly all: ValidateFunction
}

/** Compiles the schemas (draft-07 where `$schema` says so, else 2020-12) of the named collections; refuses bad ones. */
export function compileSchemas(
  schemas: Readonly<Record<string, JsonValue>>,
): (collection: string, item: JsonObject) => readonly Fault[] {
  const compiled = new Map<string, Compiled>()
  const mistakes: string[] = []
  for (const [collection, schema] of Object.entries(schemas)) {
    try {
      compiled.set(collection, { first: compile(schema, false), all: compile(schema, true) })
    } catch (error) {
      mistakes.push(`Api.Schemas.${collection} is not a JSON Schema that can be used: ${(error as Error).message}.`)
    }
  }
  if (mistakes.length > 0) throw new Refusal('Invalid', mistakes.join('\n'))
  return (collection, item) => {
    const known = compiled.get(collection)
    return known ? faultsBy(known, item) : []
  }
}

function faultsBy({ first, all }: Compiled, item: JsonObject): readonly Fault[] {
  try {
    if (first(item)) return []
    const validate = hasFewValues(item) ? all : first
    if (validate === all) all(item)
    return (validate.errors ?? []).slice(0, MOST_FAULTS).map((error) => ({
      pointer: error.instancePath,
      message: error.message ?? `fails "${error.keyword}"`,
    }))
  } catch (error) {
    // Comparing values (const, enum), ajv calls the valueOf or toString that an object brings along.
    if (!(error instanceof TypeError)) throw error
    return [{ pointer: '', message: `cannot be compared: ${error.message}` }]
  }
}

function hasFewValues(item: JsonObject): boolean {
  let left = MOST_VALUES
  const waiting: JsonValue[] = [item]
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (typeof value !== 'object' || value === null) continue
    const inner = Object.values(value) as JsonValue[]
    left -= inner.length
    if (left < 0) return false
    for (const one of inner) waiting.push(one)
  }
  return true
}

function compile(schema: JsonValue, allErrors: boolean): ValidateFunction {
  if (!isObject(schema) && typeof schema !== 'boolean') throw new Error('a JSON Schema is an object or a boolean')
  // Of its own: what every JavaScript object inherits, such as `toString`, is no member of an item.
  const options = { allErrors, strict: false, ownProperties: true }
  const isDraft7 = isObject(schema) && String(schema.$schema).includes('draft-07')
  const ajv = isDraft7 ? new Ajv(options) : new Ajv2020(options)
  addFormats.default(ajv)
  for (const [name, most] of Object.entries(MOST_CHARACTERS)) boundFormat(ajv, name, most)
  // ajv compares each element with each other.
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    validate: (isWanted: boolean, array: readonly JsonValue[]) => !isWanted || areUnique(array),
    error: { message: 'must NOT have duplicate items' },
  })
  return ajv.compile(schema)
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
    if (typeof value === 'object' && value !== null) texts.add(canonical(value))
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
