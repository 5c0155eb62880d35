import minimist from 'minimist'
import { isObject, type JsonObject, type JsonValue } from './json/value.ts'

/** An address to listen on; no host means every interface. */
export interface Address {
  readonly host: string | undefined
  readonly port: number
}

export interface Settings {
  /** The data file. */
  readonly file: string
  /** The data file was not named: it is begun as a copy of the packaged sample. */
  readonly isSample: boolean
  /** The journal's directory. */
  readonly journal: string
  /** Go on with a journal that does not fit the data file. */
  readonly acceptJournal: boolean
  readonly urls: readonly Address[]
  readonly common: { readonly eagerDataReload: boolean }
  readonly api: {
    readonly upsertOnPut: boolean
    readonly clientIdsOnPost: boolean
    /** JSON Schemas by collection. */
    readonly schemas: Readonly<Record<string, JsonValue>>
  }
  readonly limits: {
    readonly bodyBytes: number
    readonly pageSize: number
    readonly queryParameters: number
    readonly patchOperations: number
  }
  readonly segmentBytes: number
  readonly logLevel: string
}

/** All that is wrong with the flags, the environment and the configuration file. */
export class BadSettings extends Error {
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'))
    this.name = 'BadSettings'
    this.mistakes = mistakes
  }
}

export interface Surroundings {
  /** Without the program and the script. */
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** A path as seen from the working directory, made absolute. */
  readonly absolute: (path: string) => string
  /** The packaged appsettings.json. */
  readonly packagedSettings: string
  /** The text of a file, undefined when there is none. */
  readonly readText: (path: string) => string | undefined
}

export const DEFAULT_URL = 'http://localhost:57602'
export const DEFAULT_FILE = 'data/datastore.json'

/** Where a data file's journal is, unless it is named. */
export function journalOf(file: string): string {
  return `${file.replace(/\.json$/i, '')}.journal`
}

type Key =
  | { readonly type: 'boolean'; readonly otherwise: boolean; readonly about: string }
  | { readonly type: 'integer'; readonly otherwise: number; readonly least: number; readonly about: string }
  | { readonly type: 'choice'; readonly otherwise: string; readonly choices: readonly string[]; readonly about: string }

const KEYS = {
  'Common.EagerDataReload': boolean('take in edits of the data file as soon as it changes'),
  'Api.UpsertOnPut': boolean('PUT creates an item that does not exist'),
  'Api.ClientIdsOnPost': boolean('POST keeps the id that the client sends'),
  'Limits.BodyBytes': integer(1024 * 1024, 1, 'bytes of a request body, and of an item'),
  'Limits.PageSize': integer(10_000, 1, 'items of a page'),
  'Limits.QueryParameters': integer(1000, 1, 'parameters of a query'),
  'Limits.PatchOperations': integer(1000, 1, 'operations of a JSON Patch'),
  'Logging.Level': {
    type: 'choice',
    otherwise: 'info',
    choices: ['fatal', 'error', 'warn', 'info', 'debug', 'silent'],
    about: 'what is logged; debug has a line a request',
  },
  'Journal.SegmentBytes': integer(64 * 1024 * 1024, 1024, 'bytes of a segment, after which a new one is begun'),
} as const satisfies Readonly<Record<string, Key>>

type KeyName = keyof typeof KEYS
const KEY_NAMES = Object.keys(KEYS) as KeyName[]
const SCHEMAS = 'Api.Schemas'
const SECTIONS = [...new Set(KEY_NAMES.map((name) => name.split('.')[0] as string))]

function boolean(about: string): Key & { type: 'boolean' } {
  return { type: 'boolean', otherwise: false, about }
}

function integer(otherwise: number, least: number, about: string): Key & { type: 'integer' } {
  return { type: 'integer', otherwise, least, about }
}

const PATH_FLAGS = ['file', 'journal', 'settings', 'urls'] as const
const SWITCHES = ['accept-journal', 'help', 'version'] as const

export type Invocation =
  | { readonly type: 'serve'; readonly settings: Settings }
  | { readonly type: 'help' }
  | { readonly type: 'version' }

/** Flag, then environment, then configuration file, then default. Throws BadSettings with every mistake; touches nothing. */
export function readSettings(surroundings: Surroundings): Invocation {
  const mistakes: string[] = []
  const flags = parseFlags(surroundings.argv, mistakes)
  if (mistakes.length === 0 && flags.switches.has('help')) return { type: 'help' }
  if (mistakes.length === 0 && flags.switches.has('version')) return { type: 'version' }
  const { absolute } = surroundings
  const values = new Map<KeyName, Value>()
  const schemas: Record<string, JsonValue> = {}
  const sources: readonly Source[] = [
    fileSource(surroundings, flags.named.get('settings'), mistakes),
    environmentSource(surroundings.env, mistakes),
    { isText: true, where: 'flag --', entries: flags.keys, schemas: flags.schemas },
  ]
  for (const source of sources) {
    for (const [name, value] of source.entries) {
      const read = readValue(name, value, source, mistakes)
      if (read !== undefined) values.set(name, read)
    }
    for (const [collection, schema] of source.schemas) {
      const read = readSchema(collection, schema, source, surroundings, mistakes)
      if (read !== undefined) schemas[collection] = read
    }
  }
  const urls = parseUrls(flags.named.get('urls') ?? DEFAULT_URL, mistakes)
  if (mistakes.length > 0) throw new BadSettings(mistakes)

  const named = flags.named.get('file')
  const file = absolute(named ?? DEFAULT_FILE)
  const isOn = (name: KeyName): boolean => (values.get(name) ?? KEYS[name].otherwise) === true
  const numberOf = (name: KeyName): number => Number(values.get(name) ?? KEYS[name].otherwise)
  return {
    type: 'serve',
    settings: deepFreeze({
      file,
      isSample: named === undefined,
      journal: absolute(flags.named.get('journal') ?? journalOf(file)),
      acceptJournal: flags.switches.has('accept-journal'),
      urls,
      common: { eagerDataReload: isOn('Common.EagerDataReload') },
      api: { upsertOnPut: isOn('Api.UpsertOnPut'), clientIdsOnPost: isOn('Api.ClientIdsOnPost'), schemas },
      limits: {
        bodyBytes: numberOf('Limits.BodyBytes'),
        pageSize: numberOf('Limits.PageSize'),
        queryParameters: numberOf('Limits.QueryParameters'),
        patchOperations: numberOf('Limits.PatchOperations'),
      },
      segmentBytes: numberOf('Journal.SegmentBytes'),
      logLevel: String(values.get('Logging.Level') ?? KEYS['Logging.Level'].otherwise),
    }),
  }
}

interface Source {
  /** Its values are text, whatever they are to be. */
  readonly isText: boolean
  /** Stands before a key's name in a message. */
  readonly where: string
  readonly entries: ReadonlyMap<KeyName, JsonValue>
  readonly schemas: ReadonlyMap<string, JsonValue>
}

interface Flags {
  readonly named: ReadonlyMap<(typeof PATH_FLAGS)[number], string>
  readonly switches: ReadonlySet<(typeof SWITCHES)[number]>
  readonly keys: ReadonlyMap<KeyName, string>
  readonly schemas: ReadonlyMap<string, string>
}

function parseFlags(argv: readonly string[], mistakes: string[]): Flags {
  const schemaFlags = argv.flatMap((argument) => /^--(Api\.Schemas\.[^=]+)/.exec(argument)?.[1] ?? [])
  const parsed = minimist([...argv], {
    string: [...PATH_FLAGS, ...KEY_NAMES, ...schemaFlags],
    boolean: [...SWITCHES],
    unknown: (argument) => {
      mistakes.push(
        argument.startsWith('-')
          ? `Unknown flag ${argument}; the known ones are listed by --help.`
          : `Unexpected argument ${JSON.stringify(argument)}.`,
      )
      return false
    },
  })
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
    named: collect(PATH_FLAGS),
    switches: new Set(SWITCHES.filter((name) => parsed[name] === true)),
    keys: collect(KEY_NAMES),
    schemas: new Map([...collect(schemaFlags)].map(([name, value]) => [name.slice(SCHEMAS.length + 1), value])),
  }
}

function environmentSource(env: Surroundings['env'], mistakes: string[]): Source {
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

function fileSource(surroundings: Surroundings, named: string | undefined, mistakes: string[]): Source {
  const { absolute, readText, packagedSettings } = surroundings
  const entries = new Map<KeyName, JsonValue>()
  const schemas = new Map<string, JsonValue>()
  const own = absolute(named ?? 'appsettings.json')
  const text = readText(own)
  if (text === undefined && named !== undefined) mistakes.push(`The settings file ${own} does not exist.`)
  const path = text === undefined ? packagedSettings : own
  const source: Source = { isText: false, where: `${path}: `, entries, schemas }
  const root = parseObject(text ?? readText(packagedSettings) ?? '{}', path, mistakes)
  for (const [section, keys] of Object.entries(root ?? {}) as [string, JsonValue][]) {
    if (!SECTIONS.includes(section)) {
      mistakes.push(`${path}: unknown section ${JSON.stringify(section)}; there are ${SECTIONS.join(', ')}.`)
    } else if (!isObject(keys)) {
      mistakes.push(`${path}: the section ${section} must be an object.`)
    } else {
      for (const [key, value] of Object.entries(keys) as [string, JsonValue][]) {
        const name = `${section}.${key}`
        if (isKey(name)) entries.set(name, value)
        else if (name !== SCHEMAS) mistakes.push(`${path}: unknown key ${name}; ${knownKeys(section)}.`)
        else if (!isObject(value)) mistakes.push(`${path}: ${SCHEMAS} must be an object of schemas by collection.`)
        else for (const [collection, schema] of Object.entries(value)) schemas.set(collection, schema as JsonValue)
      }
    }
  }
  return source
}

function parseObject(text: string, path: string, mistakes: string[]): JsonObject | undefined {
  try {
    const root = JSON.parse(text) as JsonValue
    if (isObject(root)) return root
    mistakes.push(`${path}: the root must be an object.`)
  } catch (error) {
    mistakes.push(`${path}: not well-formed JSON: ${(error as Error).message}.`)
  }
  return undefined
}

function isKey(name: string): name is KeyName {
  return Object.hasOwn(KEYS, name)
}

function knownKeys(section: string): string {
  const names = KEY_NAMES.filter((name) => name.startsWith(`${section}.`))
  return `there are ${[...names, ...(section === 'Api' ? [`${SCHEMAS}.<collection>`] : [])].join(', ')}`
}

type Value = boolean | number | string

function readValue(name: KeyName, value: JsonValue, { where, isText }: Source, mistakes: string[]): Value | undefined {
  const key: Key = KEYS[name]
  const read = isText ? readText(key, String(value)) : value
  switch (key.type) {
    case 'boolean':
      if (typeof read === 'boolean') return read
      break
    case 'integer':
      if (Number.isSafeInteger(read) && (read as number) >= key.least) return read as number
      break
    case 'choice':
      if (key.choices.includes(read as string)) return read as string
      break
    default:
      return key satisfies never
  }
  mistakes.push(`The ${where}${name} must be ${expectation(key)}, not ${JSON.stringify(value)}.`)
  return undefined
}

/** A flag or an environment variable is text; the configuration file has JSON's types. */
function readText(key: Key, text: string): JsonValue {
  if (key.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return key.type === 'integer' && /^\d+$/.test(text) ? Number(text) : text
}

function expectation(key: Key): string {
  switch (key.type) {
    case 'boolean':
      return 'true or false'
    case 'integer':
      return `an integer of at least ${key.least}`
    case 'choice':
      return `one of ${key.choices.join(', ')}`
    default:
      return key satisfies never
  }
}

/** A schema, or the path of one. */
function readSchema(
  collection: string,
  schema: JsonValue,
  { where }: Source,
  { absolute, readText }: Surroundings,
  mistakes: string[],
): JsonValue | undefined {
  if (typeof schema !== 'string') {
    if (isObject(schema) || typeof schema === 'boolean') return schema
    mistakes.push(`The ${where}${SCHEMAS}.${collection} must be a JSON Schema or the path of one.`)
    return undefined
  }
  const path = absolute(schema)
  const text = readText(path)
  if (text !== undefined) return parseObject(text, path, mistakes)
  mistakes.push(`The ${where}${SCHEMAS}.${collection} names ${path}, which does not exist.`)
  return undefined
}

function parseUrls(list: string, mistakes: string[]): readonly Address[] {
  const addresses: Address[] = []
  for (const text of list.split(';').filter((piece) => piece.trim() !== '')) {
    const isEvery = /^http:\/\/[*+](?=[:/]|$)/i.test(text.trim())
    const url = parseUrl(isEvery ? text.trim().replace(/[*+]/, 'localhost') : text.trim())
    if (url?.protocol !== 'http:' || url.pathname !== '/' || url.search || url.hash || url.username) {
      mistakes.push(`The flag --urls must hold addresses such as ${DEFAULT_URL}, not ${JSON.stringify(text)}.`)
    } else {
      const host = isEvery ? undefined : url.hostname.replace(/^\[|\]$/g, '')
      addresses.push({ host, port: url.port === '' ? 80 : Number(url.port) })
    }
  }
  if (addresses.length === 0 && mistakes.length === 0) mistakes.push('The flag --urls needs an address.')
  return addresses
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}

export function helpText(): string {
  const keys = KEY_NAMES.map(
    (name) => `${`  --${name} <${KEYS[name].type}>`.padEnd(38)}${KEYS[name].about} (${KEYS[name].otherwise})`,
  )
  return `Serves the collections of a JSON file over REST and remembers every change.

Usage: recollect [flags]
       recollect verify [--file <path>] [--journal <path>] [--json]
       recollect replay --to <position|time> --out <file> [--file <path>] [--journal <path>]
       recollect backup --out <directory> [--file <path>] [--journal <path>]

  --file <path>                       the JSON data file; created when missing (${DEFAULT_FILE})
  --urls <url>[;<url>]                listening addresses; the hosts * and + mean every interface (${DEFAULT_URL})
  --journal <path>                    the journal's directory (<file without .json>.journal)
  --settings <path>                   the configuration file (appsettings.json)
  --accept-journal                    go on with a journal that does not fit the data file
  --help, --version

Settings, also in the configuration file and as environment variables (Section__Key):

${keys.join('\n')}
  --Api.Schemas.<collection> <path>   a JSON Schema that the collection's items must satisfy
`
}
