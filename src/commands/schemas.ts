import { Ajv, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { type Fault, Refusal } from '../errors.ts'
import { isObject, type JsonObject, type JsonValue } from '../json/value.ts'

/** Compiles the schemas (draft-07 where `$schema` says so, else 2020-12) of the named collections; refuses bad ones. */
export function compileSchemas(
  schemas: Readonly<Record<string, JsonValue>>,
): (collection: string, item: JsonObject) => readonly Fault[] {
  const compiled = new Map<string, ValidateFunction>()
  const mistakes: string[] = []
  for (const [collection, schema] of Object.entries(schemas)) {
    try {
      compiled.set(collection, compile(schema))
    } catch (error) {
      mistakes.push(`Api.Schemas.${collection} is not a JSON Schema that can be used: ${(error as Error).message}.`)
    }
  }
  if (mistakes.length > 0) throw new Refusal('Invalid', mistakes.join('\n'))
  return (collection, item) => {
    const validate = compiled.get(collection)
    return validate ? faultsBy(validate, item) : []
  }
}

function faultsBy(validate: ValidateFunction, item: JsonObject): readonly Fault[] {
  try {
    if (validate(item)) return []
  } catch (error) {
    // Comparing values (const, enum, uniqueItems), ajv calls the valueOf or toString that an object brings along.
    if (!(error instanceof TypeError)) throw error
    return [{ pointer: '', message: `cannot be compared: ${error.message}` }]
  }
  return (validate.errors ?? []).map((error) => ({
    pointer: error.instancePath,
    message: error.message ?? `fails "${error.keyword}"`,
  }))
}

function compile(schema: JsonValue): ValidateFunction {
  if (!isObject(schema) && typeof schema !== 'boolean') throw new Error('a JSON Schema is an object or a boolean')
  // Of its own: what every JavaScript object inherits, such as `toString`, is no member of an item.
  const options = { allErrors: true, strict: false, ownProperties: true }
  const isDraft7 = isObject(schema) && String(schema.$schema).includes('draft-07')
  const ajv = isDraft7 ? new Ajv(options) : new Ajv2020(options)
  addFormats.default(ajv)
  return ajv.compile(schema)
}
