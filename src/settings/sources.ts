import minimist from 'minimist'
import { parseText } from '../json/parse-text.ts'
import { isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { whereMalformed } from '../json/where-malformed.ts'
import { atOnce } from '../slices.ts'
import { isGroup, isKey, KEY_NAMES, type KeyName, knownKeys, SCHEMAS, SECTIONS } from './keys.ts'

/** Where settings come from. */
export interface Source {
  /** Its values are text, whatever they are to be. */
  readonly isText: boolean
  /** Stands before a key's name in a message. */
  readonly where: string
  readonly entries: ReadonlyMap<KeyName, JsonValue>
  /** Schemas, or paths of schemas, by collection. */
  readonly schemas: ReadonlyMap<string, JsonValue>
}

const NAMED_FLAGS = ['file', 'journal', 'settings', 'urls'] as const
const SWITCHES = ['accept-journal', 'help', 'version'] as const

export interface Flags extends Source {
  readonly named: ReadonlyMap<(typeof NAMED_FLAGS)[number], string>
  readonly switches: ReadonlySet<(typeof SWITCHES)[number]>
}

export function flagSource(argv: readonly string[], mistakes: string[]): Flags {
  const schemaFlags = argv.flatMap((argument) => /^--(Api\.Schemas\.[^=]+)/.exec(argument)?.[1] ?? [])
  const parsed = minimist([...argv], {
    string: [...NAMED_FLAGS, ...KEY_NAMES, ...schemaFlags],
    boolean: [...SWITCHES],
    unknown: (argument) => {
      mistakes.push(
        argument.startsWith('-')
          ? `Unknown flag ${argument.replace(/=.*/s, '')}; the known ones are listed by --help.`
          : `Unexpected argument ${JSON.stringify(argument)}.`,
      )
      return false
    },
  })
  for (const argument of parsed._) mistakes.push(`Unexpected argument ${JSON.stringify(argument)}.`)
  for (const name of SWITCHES) checkSwitch(name, argv, mistakes)
  const text = (name: string, value: unknown): string | undefined => {
    if (typeof value === 'string' && value !== '') return value
    if (Array.isArray(value)) mistakes.push(`The flag --${name} is given more than once.`)
    else mistakes.push(`The flag --${name} needs a value.`)
    return undefined
  }
  const collect = <Name extends string>(names: readonly Name[]): Map<Name, string> => {
    const found = new Map<Name, string>()
    for (const name of new Set(names)) {
      const value = name.split('.').reduce<unknown>((inner, part) => (inner as Record<string, unknown>)?.[part], parsed)
      const read = value === undefined ? undefined : text(name, value)
      if (read !== undefined) found.set(name, read)
    }
    return found
  }
  return {
    isText: true,
    where: 'flag --',
    named: collect(NAMED_FLAGS),
    switches: new Set(SWITCHES.filter((name) => parsed[name] === true)),
    entries: collect(KEY_NAMES),
    schemas: new Map([...collect(schemaFlags)].map(([name, value]) => [name.slice(SCHEMAS.length + 1), value])),
  }
}

/** What minimist lets through: a switch twice, with a value, or turned off. */
function checkSwitch(name: (typeof SWITCHES)[number], argv: readonly string[], mistakes: string[]): void {
  const given = argv.filter((argument) => argument === `--${name}` || argument.startsWith(`--${name}=`))
  if (given.length > 1) mistakes.push(`The flag --${name} is given more than once.`)
  if (given.some((argument) => argument.includes('='))) mistakes.push(`The flag --${name} has no value.`)
  if (argv.includes(`--no-${name}`)) mistakes.push(`Unknown flag --no-${name}; the known ones are listed by --help.`)
}

/** `Section__Key`; other variables, and other sections, are somebody else's. */
export function environmentSource(env: Readonly<Record<string, string | undefined>>, mistakes: string[]): Source {
  const entries = new Map<KeyName, JsonValue>()
  const schemas = new Map<string, JsonValue>()
  for (const [variable, value] of Object.entries(env)) {
    const [section, ...rest] = variable.split('__')
    if (value === undefined || rest.length === 0 || !SECTIONS.includes(section as string)) continue
    const name = [section, ...rest].join('.')
    if (name.startsWith(`${SCHEMAS}.`)) schemas.set(name.slice(SCHEMAS.length + 1), value)
    else if (isKey(name)) entries.set(name, value)
    else mistakes.push(`The environment variable ${variable} names no setting; ${knownKeys(section as string)}.`)
  }
  return { isText: true, where: 'environment variable for ', entries, schemas }
}

export function fileSource(path: string, text: string, mistakes: string[]): Source {
  const entries = new Map<KeyName, JsonValue>()
  const schemas = new Map<string, JsonValue>()
  const read = (name: string, value: JsonValue): void => {
    if (isKey(name)) entries.set(name, value)
    else if (name === SCHEMAS && isObject(value)) {
      for (const [collection, schema] of Object.entries(value)) schemas.set(collection, schema as JsonValue)
    } else if (name === SCHEMAS) mistakes.push(`${path}: ${SCHEMAS} must be an object of schemas by collection.`)
    else if (isGroup(name) && isObject(value)) {
      for (const [key, inner] of Object.entries(value)) read(`${name}.${key}`, inner as JsonValue)
    } else if (isGroup(name)) mistakes.push(`${path}: ${name} must be an object.`)
    else mistakes.push(`${path}: unknown key ${name}; ${knownKeys(name.split('.')[0] as string)}.`)
  }
  for (const [section, keys] of Object.entries(parseObject(path, text, mistakes) ?? {})) {
    if (SECTIONS.includes(section)) read(section, keys as JsonValue)
    else mistakes.push(`${path}: unknown section ${JSON.stringify(section)}; there are ${SECTIONS.join(', ')}.`)
  }
  return { isText: false, where: `${path}: `, entries, schemas }
}

export function parseObject(path: string, text: string, mistakes: string[]): JsonObject | undefined {
  try {
    const root = parseText(text)
    if (isObject(root)) return root
    mistakes.push(`${path}: the root must be an object.`)
  } catch {
    mistakes.push(`${path}: not well-formed JSON: ${atOnce(whereMalformed([text]))}.`)
  }
  return undefined
}
