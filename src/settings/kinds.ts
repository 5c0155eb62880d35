import type { Schema } from './schema.ts'

/** The description of a setting: a JSON Schema, and what JSON Schema cannot say. */
export interface Key<Value> extends Schema {
  readonly default: Value
  readonly description: string
  /** The type as --help shows it. */
  readonly shownType: string
  /** Replaces a default that is too long for a table. */
  readonly shownDefault?: string
  /** The value that the program uses, where it is not the one that users write. */
  readonly read?: (value: never) => Value
}

type Extras<Value> = Partial<Omit<Key<Value>, 'default' | 'description'>>

export function boolean(description: string): Key<boolean> {
  return { type: 'boolean', default: false, description, shownType: 'boolean' }
}

export function integer<Default extends number | undefined>(
  initial: Default,
  minimum: number,
  description: string,
  maximum = Number.MAX_SAFE_INTEGER,
): Key<number | Default> {
  const isBounded = maximum < Number.MAX_SAFE_INTEGER
  const expects = isBounded ? `an integer from ${minimum} to ${maximum}` : `an integer of at least ${minimum}`
  return { type: 'integer', minimum, maximum, expects, default: initial, description, shownType: 'integer' }
}

export function choice<const Choices extends readonly string[]>(
  initial: NoInfer<Choices[number]>,
  choices: Choices,
  text: string,
): Key<Choices[number]> {
  return { enum: choices, default: initial, description: text, shownType: choices.join('|') }
}

export function text(initial: string, description: string, extras: Extras<string> = {}): Key<string> {
  const form = { type: 'string', pattern: '^[^\\r\\n]*$', expects: 'text in one line', shownType: 'text' } as const
  return { ...form, default: initial, description, ...extras }
}

/** An array of texts, or texts separated by commas. */
export function texts<Default extends readonly string[] | undefined>(
  initial: Default,
  description: string,
  extras: Extras<readonly string[]> = {},
): Key<readonly string[] | Default> {
  const form = { type: 'array', items: { type: 'string', minLength: 1 }, shownType: 'list' } as const
  return { ...form, expects: 'a list of texts, none of which is empty', default: initial, description, ...extras }
}

export function secret(description: string, extras: Extras<string> = {}): Key<string | undefined> {
  const form = { type: 'string', minLength: 1, expects: 'text', shownType: 'text', isSecret: true } as const
  return { ...form, default: undefined, description, ...extras }
}

/** An array of objects with secrets, or its JSON. */
export function secretObjects<Value>(description: string, extras: Extras<readonly Value[]>): Key<readonly Value[]> {
  const form = { type: 'array', expects: 'an array of objects', shownType: 'json', isSecret: true } as const
  return { ...form, default: [], description, ...extras }
}

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

/** HTTP methods, in capital letters. */
export function methods(initial: readonly string[], description: string): Key<readonly string[]> {
  const expects = 'a list of GET, POST, PUT, PATCH and DELETE'
  return texts(initial, description, { items: { enum: METHODS }, expects })
}

export function probability(initial: number, description: string): Key<number> {
  const expects = 'a number from 0 to 1, or a percentage up to 100'
  const read = (value: number): number => (value > 1 ? value / 100 : value)
  return { type: 'number', minimum: 0, maximum: 100, expects, read, default: initial, description, shownType: 'number' }
}

/** The name of a field that stands for itself in paths, filters and URLs. */
export function fieldName(initial: string, description: string): Key<string> {
  const expects = 'a name of 1 to 64 letters, digits, _, -, $ or @ that begins with no digit'
  return text(initial, description, { pattern: '^(?!__proto__$)[A-Za-z_$@][\\w$@\\-]{0,63}$', expects })
}

/** Node's timers end at once for a longer delay. */
const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1000)

export function secondsOrOff(initial: number, description: string): Key<number | 'off'> {
  const form = { type: ['integer', 'string'], minimum: 0, maximum: MOST_SECONDS, pattern: '^off$' } as const
  const expects = `a number of seconds up to ${MOST_SECONDS} (24 days), or off`
  return { ...form, expects, default: initial, description, shownType: 'seconds|off' }
}

/** A range of hours in minutes of the day; it may include midnight. */
export function hours(description: string): Key<{ readonly from: number; readonly until: number } | 'auto' | 'off'> {
  const minutes = '(?:[01]\\d|2[0-3]):[0-5]\\d'
  return {
    type: 'string',
    pattern: `^(?:auto|off|(?!(.*)-\\1$)${minutes}-(?:${minutes}|24:00))$`,
    expects: 'auto, off, or hours such as 03:00-05:00',
    default: 'auto',
    description,
    shownType: 'auto|off|hours',
    read: (value: string) => {
      if (value === 'auto' || value === 'off') return value
      const [from = 0, fromMinute = 0, until = 0, untilMinute = 0] = value.split(/[:-]/).map(Number)
      return { from: 60 * from + fromMinute, until: 60 * until + untilMinute }
    },
  }
}
