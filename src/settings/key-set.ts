import { mostSimilar } from '../json/similar.ts'
import { KEYS, SCHEMA, SCHEMAS } from './keys.ts'
import type { Key } from './kinds.ts'

/** Descriptions of settings by their names. */
export type Keys = Readonly<Record<string, Key<unknown>>>

/** The settings of the server, and those of a remote journal. */
export class KeySet {
  readonly names: readonly string[]
  readonly sections: readonly string[]
  readonly #keys: Keys

  constructor(others: Keys = {}) {
    this.#keys = { ...KEYS, ...others }
    this.names = Object.keys(this.#keys)
    this.sections = [...new Set(this.names.map((name) => name.split('.')[0] as string))]
  }

  get(name: string): Key<unknown> | undefined {
    if (name.startsWith(`${SCHEMAS}.`)) return SCHEMA
    return Object.hasOwn(this.#keys, name) ? this.#keys[name] : undefined
  }

  /** Whether the name is a prefix of several keys, as `Authentication.Token` is. */
  isGroup(name: string): boolean {
    return name === SCHEMAS || this.names.some((key) => key.startsWith(`${name}.`))
  }

  /** A hint for an unknown setting or section: the most similar name, or else all sections, or the names in it. */
  hintFor(name: string): string {
    const known = name.includes('.') ? [...this.names, SCHEMAS] : this.sections
    const similar = mostSimilar(name, known)
    if (similar !== undefined) return `did you mean ${similar}?`
    const [section = '', ...rest] = name.split('.')
    if (this.get(section)) return `${section} is one setting, whose value is JSON.`
    return `there are ${known.filter((key) => rest.length === 0 || key.startsWith(`${section}.`)).join(', ')}.`
  }

  /** Name, type, description and default of each setting, as `--help` and the documents show them. */
  rows(): readonly (readonly [name: string, type: string, description: string, initial: string])[] {
    const all = [...Object.entries(this.#keys), [`${SCHEMAS}.<collection>`, SCHEMA] as const]
    return all.map(([name, { shownType, description, shownDefault, default: initial }]) => {
      const text = shownDefault ?? String(initial ?? '').replaceAll(',', ', ')
      return [name, shownType, description, text === '' ? 'none' : text]
    })
  }
}
