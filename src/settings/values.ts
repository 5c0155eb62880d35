import type { JsonValue } from '../json/value.ts'
import { KeySet } from './key-set.ts'
import { JSON_SERVER_DEFAULTS, type KeyName, SCHEMAS, type Section, type ValueOf } from './keys.ts'

/** The values of all settings: those that a source gives, and defaults. */
export class SettingValues {
  readonly #given: ReadonlyMap<string, unknown>
  readonly #keys: KeySet
  readonly #implied: typeof JSON_SERVER_DEFAULTS

  constructor(given: ReadonlyMap<string, unknown>, keys = new KeySet()) {
    this.#given = given
    this.#keys = keys
    this.#implied = given.get('Api.Compatibility') === 'json-server' ? JSON_SERVER_DEFAULTS : {}
  }

  get<Name extends KeyName>(name: Name): ValueOf<Name> {
    return this.valueOf(name) as ValueOf<Name>
  }

  /** The value of any setting, also one that is plugged in. */
  valueOf(name: string): unknown {
    return this.#given.get(name) ?? this.#implied[name] ?? this.#keys.get(name)?.default
  }

  section<Name extends string>(section: Name): Section<Name> {
    const names = this.#keys.names.filter((name) => name.startsWith(`${section}.`))
    return Object.fromEntries(names.map((name) => [memberOf(name), this.valueOf(name)])) as Section<Name>
  }

  /** Schemas, or their paths, by collection. */
  schemas(): readonly (readonly [collection: string, schema: JsonValue])[] {
    const given = [...this.#given].filter(([name]) => name.startsWith(`${SCHEMAS}.`))
    return given.map(([name, schema]) => [name.slice(SCHEMAS.length + 1), schema as JsonValue])
  }

  /** The settings with another value in `later`, without those that are read again while the server runs. */
  requiringRestart(later: SettingValues): readonly string[] {
    const comparable = (values: SettingValues, name: string): string | undefined =>
      JSON.stringify(name === 'Collections' ? withoutSchemas(values.get(name)) : values.valueOf(name))
    return this.#keys.names.filter(
      (name) => !ACCOUNTS.includes(name) && comparable(this, name) !== comparable(later, name),
    )
  }

  /** The settings that differ from their defaults, without secrets, for the log. */
  nonDefaults(): Readonly<Record<string, unknown>> {
    const shown: Record<string, unknown> = {}
    for (const name of this.#keys.names) {
      const value = this.#given.get(name)
      const key = this.#keys.get(name)
      if (value === undefined || JSON.stringify(value) === JSON.stringify(key?.default)) continue
      shown[name] = key?.isSecret ? '***' : withoutPasswords(value)
    }
    const schemas = this.schemas().map(([collection]) => collection)
    return schemas.length > 0 ? { ...shown, [SCHEMAS]: schemas } : shown
  }
}

/** The settings that a reload replaces, besides the schemas of collections. */
export const ACCOUNTS: readonly string[] = ['Authentication.Users', 'Authentication.ApiKey', 'Authentication.ApiKeys']

/** A collection that has nothing but a schema is left out. */
function withoutSchemas(collections: ValueOf<'Collections'>): unknown {
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
