import type { Random } from '../support/random.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly schema: Schema
  readonly explode?: boolean
}

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly oneOf?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly additionalProperties?: Schema | boolean
}

export interface Operation {
  readonly path: string
  /** In capitals. */
  readonly method: string
  readonly parameters: readonly Parameter[]
  /** Schemas by media type. */
  readonly bodies: ReadonlyMap<string, Schema>
  readonly statuses: ReadonlySet<number>
  /** Undefined for what is public. */
  readonly role: string | undefined
}

interface Raw {
  readonly paths: Readonly<Record<string, Readonly<Record<string, RawOperation>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}
interface RawOperation {
  readonly description?: string
  readonly parameters: readonly { readonly $ref: string }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> }
  readonly responses: Readonly<Record<string, unknown>>
  readonly security?: readonly unknown[]
}

/** The description of a server at /openapi.json. */
export class OpenApiDocument {
  readonly operations: readonly Operation[]
  readonly #raw: Raw
  readonly #patterns: readonly (readonly [path: string, pattern: RegExp])[]

  constructor(raw: unknown) {
    this.#raw = raw as Raw
    this.operations = Object.entries(this.#raw.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => this.#read(path, method, operation)),
    )
    this.#patterns = Object.keys(this.#raw.paths).map((path) => [path, patternOf(path)])
  }

  /** The operations of each path that the raw path could be; none when nothing is served there. */
  at(rawPath: string): readonly Operation[] {
    const paths = this.#patterns.filter(([, pattern]) => pattern.test(rawPath)).map(([path]) => path)
    return this.operations.filter(({ path }) => paths.includes(path))
  }

  /** A value that the schema allows, as far as the generator understands it. */
  instance(schema: Schema, random: Random, depth = 0): unknown {
    if (schema.$ref) return this.instance(this.#resolve<Schema>(schema.$ref), random, depth)
    if ('const' in schema) return schema.const
    if (schema.enum) return random.pick(schema.enum)
    const choices = schema.oneOf ?? schema.anyOf
    if (choices) return this.instance(random.pick(choices), random, depth)
    switch (typeof schema.type === 'string' ? schema.type : schema.type && random.pick(schema.type)) {
      case 'object': {
        const members = Object.entries(schema.properties ?? {}).filter(
          ([name]) => schema.required?.includes(name) || random.chance(0.7),
        )
        const { additionalProperties: others = false } = schema
        if (others !== false) members.push(['mac', others === true ? {} : others])
        return Object.fromEntries(members.map(([name, inner]) => [name, this.instance(inner, random, depth + 1)]))
      }
      case 'array':
        return Array.from({ length: random.integer(4) }, () => this.instance(schema.items ?? {}, random, depth + 1))
      case 'integer':
        return random.integer(60)
      case 'number':
        return random.integer(6000) / 100
      case 'boolean':
        return random.chance(0.5)
      case 'null':
        return null
      case 'string':
        return random.pick(['a', 'F4:A5', 'name', 'data.temperature', '2026-11-20T12:50:21', '/name', 'x y', 'ü€'])
      default:
        return depth > 3 ? null : this.instance({ type: ['null', 'integer', 'string', 'object'] }, random, depth + 1)
    }
  }

  #read(path: string, method: string, operation: RawOperation): Operation {
    const [, role] = /Needs the role `(\w+)`/.exec(operation.description ?? '') ?? []
    return {
      path,
      method: method.toUpperCase(),
      parameters: operation.parameters.map(({ $ref }) => this.#resolve<Parameter>($ref)),
      bodies: new Map(Object.entries(operation.requestBody?.content ?? {}).map(([type, { schema }]) => [type, schema])),
      statuses: new Set(
        Object.keys(operation.responses)
          .filter((status) => status !== 'default')
          .map(Number),
      ),
      role: operation.security && role,
    }
  }

  #resolve<T>(reference: string): T {
    const [, , kind = '', name = ''] = reference.split('/')
    return this.#raw.components[kind]?.[name] as T
  }
}

/** A slash at the end says nothing, except where the document has a path with one. */
function patternOf(path: string): RegExp {
  const pattern = path
    .split(/(\{\w+\})/)
    .map((part) => {
      if (part === '{rest}') return '.+'
      return /^\{\w+\}$/.test(part) ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    })
    .join('')
  return new RegExp(/^\/(swagger|openapi)/.test(path) ? `^${pattern}$` : `^${pattern}/?$`)
}
