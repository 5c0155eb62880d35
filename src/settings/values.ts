import type { JsonValue } from '../json/value.ts'
import { KEYS, type KeyName, type Keys, SCHEMAS, type Section, type ValueOf } from './keys.ts'

/** The values of all settings: those that a source gives, and defaults. */
export class SettingValues {
  readonly #given: ReadonlyMap<string, unknown>
  readonly #keys: Keys

  constructor(given: ReadonlyMap<string, unknown>, keys: Keys = KEYS) {
    this.#given = given
    this.#keys = keys
  }

  get<Name extends KeyName>(name: Name): ValueOf<Name> {
    return this.any(name) as ValueOf<Name>
  }

  /** The value of a setting that may be one of a remote journal. */
  any(name: string): unknown {
    return this.#given.get(name) ?? this.#keys[name]?.default
  }

  section<Name extends string>(section: Name): Section<Name> {
    const names = Object.keys(this.#keys).filter((name) => name.startsWith(`${section}.`))
    return Object.fromEntries(names.map((name) => [memberOf(name), this.any(name)])) as Section<Name>
  }

  /** The settings with another value in `later`, without those that are read again while the server runs. */
  requiringRestart(later: SettingValues): readonly string[] {
    const textOf = (values: SettingValues, name: string): string | undefined =>
      JSON.stringify(name === 'Collections' ? withoutSchemas(values.get(name)) : values.any(name))
    return Object.keys(this.#keys).filter(
      (name) => !RELOADED.includes(name) && textOf(this, name) !== textOf(later, name),
    )
  }

  nonDefaults(schemas: ReadonlyMap<string, JsonValue>): Readonly<Record<string, unknown>> {
    const shown: Record<string, unknown> = {}
    for (const [name, { default: initial, isSecret }] of Object.entries(this.#keys)) {
      const value = this.#given.get(name)
      if (value === undefined || JSON.stringify(value) === JSON.stringify(initial)) continue
      shown[name] = isSecret ? '***' : withoutPasswords(value)
    }
    if (schemas.size > 0) shown[SCHEMAS] = [...schemas.keys()]
    return shown
  }
}

/** The settings that a reload replaces, besides the schemas of collections. */
const RELOADED: readonly string[] = ['Authentication.Users', 'Authentication.ApiKey', 'Authentication.ApiKeys']

/** A collection that has nothing but a schema is left out. */
function withoutSchemas(collections: ValueOf<'Collections'> = {}): unknown {
  return Object.entries(collections).flatMap(([name, { schema, ...others }]) => {
    const { indexes, ...more } = others
    return indexes.length === 0 && Object.keys(more).length === 0 ? [] : [[name, others]]
  })
}

/** Turns `Limits.PageSize` into `pageSize`, and `Simulate.Delay.MinMs` into `minMs`. */
function memberOf(name: string): string {
  const member = name.slice(name.lastIndexOf('.') + 1)
  return member.charAt(0).toLowerCase() + member.slice(1)
}

/** Masks credentials in URLs. */
function withoutPasswords(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPasswords)
  return typeof value === 'string' ? value.replace(/(^|\/\/)[^/\s]+@/g, '$1***@') : value
}
