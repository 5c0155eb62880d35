import type { JsonObject, JsonValue } from '../json/value.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'

interface ItemSchema {
  /** The schema as JSON. */
  readonly text: string
  readonly faultsOf: (item: JsonObject) => readonly Fault[]
}

/** The JSON Schemas of collections. They can be replaced while items are checked. */
export class ItemSchemas {
  #compiled: ReadonlyMap<string, ItemSchema> = new Map()

  /** @throws {Refusal} with every schema that cannot be compiled. */
  static async open(schemas: Readonly<Record<string, JsonValue>>): Promise<ItemSchemas> {
    const opened = new ItemSchemas()
    const put = await opened.prepare(schemas)
    put()
    return opened
  }

  has(collection: string): boolean {
    return this.#compiled.has(collection)
  }

  /** The errors of an item; none in a collection without a schema. */
  faultsOf(collection: string, item: JsonObject): readonly Fault[] {
    return this.#compiled.get(collection)?.faultsOf(item) ?? []
  }

  /**
   * Resolves with a function that replaces all schemas at once. Compiles the changed ones only.
   * @throws {Refusal} with every schema that cannot be compiled.
   */
  async prepare(schemas: Readonly<Record<string, JsonValue>>): Promise<() => void> {
    const compiled = new Map<string, ItemSchema>()
    const mistakes: string[] = []
    for (const [collection, schema] of Object.entries(schemas)) {
      const text = JSON.stringify(schema)
      const known = this.#compiled.get(collection)
      try {
        compiled.set(collection, known?.text === text ? known : { text, faultsOf: await compile(schema) })
      } catch (error) {
        mistakes.push(`The schema of "${collection}" is not a usable JSON Schema: ${(error as Error).message}.`)
      }
    }
    if (mistakes.length > 0) throw new Refusal('Invalid', mistakes.join('\n'))
    return () => {
      this.#compiled = compiled
    }
  }
}

/** Without schemas, ajv is not loaded. Compiling one takes tens of milliseconds, so requests are served in between. */
async function compile(schema: JsonValue): Promise<ItemSchema['faultsOf']> {
  const { compileSchema } = await import('./schema-compiler.ts')
  await new Promise(setImmediate)
  return compileSchema(schema)
}
