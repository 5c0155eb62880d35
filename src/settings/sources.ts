import { visit } from 'jsonc-parser'
import stripJsonComments from 'strip-json-comments'
import { parseText } from '../json/parse-text.ts'
import { mostSimilar } from '../json/similar.ts'
import { isObject, type JsonValue } from '../json/value.ts'
import { whereMalformed } from '../json/where-malformed.ts'
import { hintFor, isGroup, KEYS, type KeyName, type Keys, SCHEMAS, sectionsOf } from './keys.ts'
import type { Key } from './kinds.ts'

export interface SettingsSource {
  /** All of its values are text. */
  readonly isText: boolean
  /** The prefix of a key's name in messages. */
  readonly where: string
  readonly entries: ReadonlyMap<string, JsonValue>
  /** Schemas, or paths of schemas, by collection. */
  readonly schemas: ReadonlyMap<string, JsonValue>
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

/** The descriptions of all settings. */
export function keysWith({ keys }: RemoteSettings): Keys {
  return { ...KEYS, ...keys }
}

/** Reads all sources; later ones take precedence: configuration file, environment, flags. */
export function readSources(
  flags: SettingsSource & { text(name: string): string | undefined },
  context: SettingsContext,
  mistakes: string[],
): {
  readonly values: ReadonlyMap<string, unknown>
  readonly schemas: Map<string, JsonValue>
  readonly warnings: readonly string[]
} {
  const keys = keysWith(context.remoteJournal)
  const values = new Map<string, unknown>()
  const schemas = new Map<string, JsonValue>()
  const warnings: string[] = []
  for (const source of [
    configuration(context, keys, flags.text('settings'), mistakes, warnings),
    environmentSource(context.env, keys, mistakes),
    flags,
  ]) {
    for (const [name, value] of source.entries) {
      const key = keys[name] as Key<unknown>
      const read = key.read(value, source.isText)
      if (read !== undefined) values.set(name, read)
      else mistakes.push(wrongValue(name, key, value, source))
    }
    for (const [collection, schema] of source.schemas) {
      const read = readSchema(`${SCHEMAS}.${collection}`, schema, source.where, context, mistakes)
      if (read !== undefined) schemas.set(collection, read)
    }
  }
  return { values, schemas, warnings }
}

/** The named configuration file, or the one in the working directory, or the packaged one. */
function configuration(
  context: SettingsContext,
  keys: Keys,
  named: string | undefined,
  mistakes: string[],
  warnings: string[],
): SettingsSource {
  const { absolute, readText, packagedSettings } = context
  const own = absolute(named ?? 'appsettings.json')
  const text = readText(own)
  if (text !== undefined) return fileSource(own, text, keys, mistakes, warnings)
  if (named !== undefined) mistakes.push(`The settings file ${own} does not exist, or is not a regular file.`)
  return fileSource(packagedSettings, readText(packagedSettings) ?? '{}', keys, mistakes, warnings)
}

function wrongValue(
  name: string,
  { expects, isSecret }: Key<unknown>,
  value: JsonValue,
  { where }: SettingsSource,
): string {
  return `The ${where}${name} must be ${expects}${isSecret ? '' : `, not ${JSON.stringify(value)}`}.`
}

const ENVIRONMENT = 'environment variable for '

/** Reads variables of the form `Section__Key`. Ignores those of other sections that resemble no setting. */
function environmentSource(env: SettingsContext['env'], keys: Keys, mistakes: string[]): SettingsSource {
  const entries = new Map<string, JsonValue>()
  const sections = sectionsOf(keys)
  const schemas = new Map<string, JsonValue>()
  for (const [variable, value] of Object.entries(env)) {
    const [section, ...rest] = variable.split('__')
    if (value === undefined || rest.length === 0) continue
    const name = nameOf([section, ...rest].join('.'))
    if (name.startsWith(`${SCHEMAS}.`)) schemas.set(name.slice(SCHEMAS.length + 1), value)
    else if (Object.hasOwn(keys, name)) add(name, value, entries, ENVIRONMENT, mistakes)
    else if (sections.includes(section as string) || mostSimilar(name, Object.keys(keys)) !== undefined) {
      mistakes.push(`The environment variable ${variable} names no setting; ${variableOf(hintFor(keys, name))}`)
    }
  }
  return { isText: true, where: ENVIRONMENT, entries, schemas }
}

function nameOf(given: string): string {
  return Object.hasOwn(KEY_ALIASES, given) ? (KEY_ALIASES[given] as KeyName) : given
}

function add(name: string, value: JsonValue, entries: Map<string, JsonValue>, where: string, mistakes: string[]): void {
  if (entries.has(name)) mistakes.push(`The ${where}${name} is given twice, once by another name.`)
  else entries.set(name, value)
}

/** Turns the names in a hint into names of variables. */
function variableOf(hint: string): string {
  return hint.replace(/(?<=\w)\.(?=\w)/g, '__')
}

function fileSource(path: string, text: string, keys: Keys, mistakes: string[], warnings: string[]): SettingsSource {
  const sections = sectionsOf(keys)
  const entries = new Map<string, JsonValue>()
  const schemas = new Map<string, JsonValue>()
  const where = `${path}: `
  const read = (given: string, value: JsonValue): void => {
    const name = nameOf(given)
    if (Object.hasOwn(keys, name)) add(name, value, entries, where, mistakes)
    else if (name === SCHEMAS && isObject(value)) {
      for (const [collection, schema] of Object.entries(value)) schemas.set(collection, schema as JsonValue)
    } else if (name === SCHEMAS) mistakes.push(`${path}: ${SCHEMAS} must be an object of schemas by collection.`)
    else if (isGroup(keys, name) && isObject(value)) {
      for (const [key, inner] of Object.entries(value)) read(`${name}.${key}`, inner as JsonValue)
    } else if (isGroup(keys, name)) mistakes.push(`${path}: ${name} must be an object.`)
    else mistakes.push(`${path}: unknown key ${name}; ${hintFor(keys, name)}`)
  }
  const root = parseJson(path, text, mistakes) ?? {}
  if (!isObject(root)) mistakes.push(`${path}: the root must be an object.`)
  for (const [section, value] of isObject(root) ? Object.entries(root) : []) {
    if (sections.includes(section)) read(section, value as JsonValue)
    else if (Object.hasOwn(IGNORED_SECTIONS, section)) {
      warnings.push(`${path}: ${section} is ignored. ${IGNORED_SECTIONS[section]}`)
    } else {
      const similar = mostSimilar(section, sections)
      const hint = similar === undefined ? `there are ${sections.join(', ')}.` : `did you mean ${similar}?`
      mistakes.push(`${path}: unknown section ${JSON.stringify(section)}; ${hint}`)
    }
  }
  return { isText: false, where, entries, schemas }
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

/** A schema, or the path of one. */
export function readSchema(
  setting: string,
  schema: JsonValue,
  where: string,
  { absolute, readText }: SettingsContext,
  mistakes: string[],
): JsonValue | undefined {
  if (isSchema(schema)) return schema
  if (typeof schema !== 'string') {
    mistakes.push(`The ${where}${setting} must be a JSON Schema or the path of one.`)
    return undefined
  }
  const path = absolute(schema)
  const text = readText(path)
  if (text === undefined) mistakes.push(`The ${where}${setting} names ${path}, which does not exist.`)
  const read = text === undefined ? undefined : parseJson(path, text, mistakes)
  if (read === undefined || isSchema(read)) return read
  mistakes.push(`${path}: a JSON Schema is an object, true or false.`)
  return undefined
}

function isSchema(value: JsonValue): boolean {
  return isObject(value) || typeof value === 'boolean'
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
