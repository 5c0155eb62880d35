import { visit } from 'jsonc-parser'
import stripJsonComments from 'strip-json-comments'
import { type AddressRules, mistakesOfRule } from '../http/rewriting.ts'
import { parseText } from '../json/parse.ts'
import { mostSimilar } from '../json/similar.ts'
import { isObject, type JsonValue } from '../json/value.ts'
import { whereMalformed } from '../json/where-malformed.ts'
import type { KeySet, Keys } from './key-set.ts'
import type { KeyName } from './keys.ts'
import type { Key } from './kinds.ts'
import { fromText, mistakesIn } from './schema.ts'

/** Each is compared with the address of every request. */
const MOST_RULES = 100

export interface SettingsSource {
  /** All of its values are text. */
  readonly isText: boolean
  /** The name of a setting in messages. */
  readonly subject: (name: string) => string
  readonly entries: ReadonlyMap<string, JsonValue>
}

export interface SettingsContext {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Resolves a path relative to the working directory. */
  readonly absolute: (path: string) => string
  /** The packaged appsettings.json. */
  readonly packagedSettings: string
  /** The text of a file; undefined if it does not exist. */
  readonly readText: (path: string) => string | undefined
  /** A journal that is not in local files; see engine/remote-journal.ts. */
  readonly remoteJournal: RemoteSettings
}

/** The settings of a remote journal. */
export interface RemoteSettings {
  readonly keys: Keys
  /** Undefined if the journal is in local files. Adds mistakes. */
  read(value: (name: string) => unknown, absolute: (path: string) => string, mistakes: string[]): object | undefined
}

/** Reads all sources; later ones take precedence: configuration file, environment, flags. */
export function readSources(
  flags: SettingsSource & { text(name: string): string | undefined },
  context: SettingsContext,
  keys: KeySet,
  mistakes: string[],
): {
  readonly values: ReadonlyMap<string, unknown>
  /** Settings with a wrong value, which is left out. */
  readonly invalid: ReadonlySet<string>
  readonly warnings: readonly string[]
} {
  const values = new Map<string, unknown>()
  const invalid = new Set<string>()
  const warnings: string[] = []
  const file = fileSource(...configuration(context, flags.text('settings'), mistakes), keys, mistakes, warnings)
  for (const { isText, subject, entries } of [file, environmentSource(context.env, keys, mistakes), flags]) {
    for (const [name, given] of entries) {
      const key = keys.get(name) as Key<unknown>
      const value = typeof given === 'string' ? fromText(key, given, isText) : given
      const wrong = mistakesIn(key, value, subject(name), given)
      mistakes.push(...wrong)
      if (wrong.length === 0) values.set(name, key.read ? key.read(value as never) : value)
      else invalid.add(name)
    }
  }
  return { values, invalid, warnings }
}

/** The named configuration file, or the one in the working directory, or the packaged one. */
function configuration(
  { absolute, readText, packagedSettings }: SettingsContext,
  named: string | undefined,
  mistakes: string[],
): readonly [path: string, text: string] {
  const own = absolute(named ?? 'appsettings.json')
  const text = readText(own)
  if (text !== undefined) return [own, text]
  if (named !== undefined) mistakes.push(`The settings file ${own} does not exist, or is not a regular file.`)
  return [packagedSettings, readText(packagedSettings) ?? '{}']
}

function fileSource(path: string, text: string, keys: KeySet, mistakes: string[], warnings: string[]): SettingsSource {
  const source = { isText: false, subject: (name: string) => `${path}: ${name}`, entries: new Map<string, JsonValue>() }
  const read = (given: string, value: JsonValue): void => {
    const name = withoutAlias(given)
    if (keys.get(name)) add(name, value, source, mistakes)
    else if (!keys.isGroup(name)) mistakes.push(`${path}: unknown key ${name}; ${keys.hintFor(name)}`)
    else if (!isObject(value)) mistakes.push(`${path}: ${name} must be an object.`)
    else for (const [key, inner] of Object.entries(value)) read(`${name}.${key}`, inner as JsonValue)
  }
  const root = parseJson(path, text, mistakes) ?? {}
  if (!isObject(root)) mistakes.push(`${path}: the root must be an object.`)
  for (const [section, value] of isObject(root) ? Object.entries(root) : []) {
    if (keys.sections.includes(section)) read(section, value as JsonValue)
    else if (Object.hasOwn(IGNORED_SECTIONS, section)) {
      warnings.push(`${path}: ${section} is ignored. ${IGNORED_SECTIONS[section]}`)
    } else mistakes.push(`${path}: unknown section ${JSON.stringify(section)}; ${keys.hintFor(section)}`)
  }
  return source
}

/** Reads variables of the form `Section__Key`. Ignores those of other sections that resemble no setting. */
function environmentSource(env: SettingsContext['env'], keys: KeySet, mistakes: string[]): SettingsSource {
  const subject = (name: string): string => `The environment variable ${name.replaceAll('.', '__')}`
  const source = { isText: true, subject, entries: new Map<string, JsonValue>() }
  for (const [variable, value] of Object.entries(env)) {
    const [section = '', ...rest] = variable.split('__')
    if (value === undefined || rest.length === 0) continue
    const name = withoutAlias([section, ...rest].join('.'))
    if (keys.get(name)) add(name, value, source, mistakes)
    else if (keys.sections.includes(section) || mostSimilar(name, keys.names) !== undefined) {
      const hint = keys.hintFor(name).replace(/(?<=\w)\.(?=\w)/g, '__')
      mistakes.push(`The environment variable ${variable} names no setting; ${hint}`)
    }
  }
  return source
}

function withoutAlias(given: string): string {
  return Object.hasOwn(KEY_ALIASES, given) ? (KEY_ALIASES[given] as KeyName) : given
}

function add(
  name: string,
  value: JsonValue,
  { entries, subject }: { readonly entries: Map<string, JsonValue>; readonly subject: SettingsSource['subject'] },
  mistakes: string[],
): void {
  if (entries.has(name)) mistakes.push(`${subject(name)} is given twice, once by another name.`)
  else entries.set(name, value)
}

/** Parses JSON with comments and trailing commas. They are replaced by spaces, so that errors keep their places. */
function parseJson(path: string, content: string, mistakes: string[]): JsonValue | undefined {
  const text = stripJsonComments(content.replace(/^\uFEFF/, ''), { trailingCommas: true })
  try {
    const value = parseText(text)
    checkMembers(path, text, mistakes)
    return value
  } catch {
    mistakes.push(`${path}: not well-formed JSON: ${whereMalformed(text)}.`)
    return undefined
  }
}

/** Refuses a member that an object has twice: the first one would be lost, such as a section that switches authentication on. */
function checkMembers(path: string, text: string, mistakes: string[]): void {
  const objects: Set<string>[] = []
  visit(text, {
    onObjectBegin: () => void objects.push(new Set()),
    onObjectEnd: () => void objects.pop(),
    onObjectProperty(name, _offset, _length, line, column) {
      const names = objects.at(-1)
      const place = `line ${line + 1}, column ${column + 1}`
      if (names?.has(name)) mistakes.push(`${path}: ${place}: ${JSON.stringify(name)} is given twice in one object.`)
      names?.add(name)
    },
  })
}

/** Reads a schema that is given as a path. */
export function readSchema(
  setting: string,
  schema: JsonValue,
  context: SettingsContext,
  mistakes: string[],
): JsonValue {
  if (typeof schema !== 'string') return schema
  const read = readNamed(setting, schema, context, mistakes) ?? true
  if (!isObject(read) && typeof read !== 'boolean') {
    mistakes.push(`${context.absolute(schema)}: a JSON Schema is an object, true or false.`)
  }
  return read
}

/** Reads the file of other addresses; an empty path stands for none. */
export function readRoutes(path: string, context: SettingsContext, mistakes: string[]): AddressRules {
  if (path === '') return {}
  const read = readNamed('Http.Routes', path, context, mistakes) ?? {}
  const file = context.absolute(path)
  if (!isObject(read)) mistakes.push(`${file}: the root must be an object, such as {"/blog/*": "/api/$1"}.`)
  const rules = isObject(read) ? Object.entries(read) : []
  if (rules.length > MOST_RULES) mistakes.push(`${file}: at most ${MOST_RULES} addresses are accepted.`)
  for (const [from, to] of rules) for (const mistake of mistakesOfRule(from, to)) mistakes.push(`${file}: ${mistake}.`)
  return Object.fromEntries(rules) as AddressRules
}

/** The JSON of a file that a setting names; undefined after a mistake. */
function readNamed(
  setting: string,
  named: string,
  { absolute, readText }: SettingsContext,
  mistakes: string[],
): JsonValue | undefined {
  const path = absolute(named)
  const text = readText(path)
  if (text !== undefined) return parseJson(path, text, mistakes)
  mistakes.push(`${setting} names ${path}, which does not exist.`)
  return undefined
}

/** Keys of FakeServer's appsettings.json that have another name here. */
const KEY_ALIASES: Readonly<Record<string, KeyName>> = { 'DataStore.EagerDataReload': 'Common.EagerDataReload' }

/** Sections of FakeServer that the server ignores, with the setting to use instead. */
const IGNORED_SECTIONS: Readonly<Record<string, string>> = {
  AllowedHosts: 'Http.Hosts names the hosts.',
  Caching: 'ETags are always sent.',
  CustomResponse: 'Koa middleware changes responses (docs/library.md).',
  Jobs: 'There are no jobs: writes take milliseconds.',
  Logging: 'Log.Level sets the level.',
  Serilog: 'Log.Level and Log.Format set the log.',
}
