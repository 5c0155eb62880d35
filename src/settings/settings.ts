import { TrustedProxies } from '../access/addresses.ts'
import type { ClusterSettings } from '../cluster/connection.ts'
import type { WriteSettings } from '../data-file/write-budget.ts'
import { isOwnPath, parseBasePath } from '../http/base-path.ts'
import type { SimulationSettings } from '../http/simulation.ts'
import { isObject, type JsonValue } from '../json/value.ts'
import { type AuthenticationSettings, parseAuthentication } from './authentication.ts'
import { type CollectionSettings, checkCollections } from './collections.ts'
import type { ParsedFlags } from './flags.ts'
import { KEY_NAMES, KEYS, type KeyName, SCHEMAS, type Section, type ValueOf } from './keys.ts'
import type { Key } from './kinds.ts'
import { environmentSource, fileSource, parseObject, type SettingsSource } from './sources.ts'
import { type Address, DEFAULT_URL, parseHostAndPort, parseUrls } from './urls.ts'

export interface Settings {
  /** The data file. */
  readonly file: string
  /** The data file was not named: it begins as a copy of the packaged sample. */
  readonly isSample: boolean
  /** The journal's directory. */
  readonly journal: string
  /** Continue with a journal that does not fit the data file. */
  readonly acceptJournal: boolean
  readonly urls: readonly Address[]
  readonly common: Section<'Common'>
  readonly dataStore: Section<'DataStore'>
  readonly dataFile: WriteSettings
  readonly api: Section<'Api'> & {
    /** JSON Schemas by collection. */
    readonly schemas: Readonly<Record<string, JsonValue>>
  }
  readonly authentication: AuthenticationSettings
  readonly cors: Section<'Cors'>
  /** The policy of pages; empty for none. */
  readonly contentSecurityPolicy: string
  /** The path below which a reverse proxy serves it: empty, or such as `/recollect`. */
  readonly basePath: string
  /** Names by which the server is reached. */
  readonly hosts: readonly string[]
  /** The directory of static files; undefined: `wwwroot` in the working directory. */
  readonly staticFiles: string | undefined
  /** By name. */
  readonly collections: Readonly<Record<string, CollectionSettings>>
  readonly limits: Section<'Limits'>
  readonly segmentBytes: number
  /** Seconds after which a full segment is compressed. */
  readonly compressAfter: number | 'off'
  /** The directory of the store that is built from the journal. */
  readonly store: string
  /** The hours in which the store is compacted, in minutes since midnight; undefined: never. */
  readonly compactAt: { readonly from: number; readonly until: number } | undefined
  /** Set if the journal is in a stream; undefined: it is in the directory. */
  readonly cluster: ClusterSettings | undefined
  readonly simulation: SimulationSettings
  readonly log: Section<'Log'>
  /** The settings that differ from their defaults, without secrets, for the log. */
  readonly nonDefaults: Readonly<Record<string, unknown>>
}

/** All mistakes in the flags, the environment and the configuration file. */
export class BadSettings extends Error {
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'))
    this.name = 'BadSettings'
    this.mistakes = mistakes
  }
}

export interface SettingsContext {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Resolves a path relative to the working directory. */
  readonly absolute: (path: string) => string
  /** The packaged appsettings.json. */
  readonly packagedSettings: string
  /** The text of a file; undefined if it does not exist. */
  readonly readText: (path: string) => string | undefined
}

export const DEFAULT_FILE = 'data/datastore.json'

/** The default path of a data file's journal. */
export function journalOf(file: string): string {
  return `${file.replace(/\.json$/i, '')}.journal`
}

/**
 * Precedence: flag, environment, configuration file, default. Changes nothing.
 * @throws {BadSettings} with every mistake.
 */
export function readSettings(flags: ParsedFlags, context: SettingsContext, mistakes: string[] = []): Settings {
  const { absolute } = context
  const { values, schemas } = readSources(flags, context, mistakes)
  const get = <Name extends KeyName>(name: Name) => (values.get(name) ?? KEYS[name].default) as ValueOf<Name>
  const sectionOf = <Name extends string>(section: Name): Section<Name> => {
    const names = KEY_NAMES.filter((name) => name.startsWith(`${section}.`))
    return Object.fromEntries(names.map((name) => [memberOf(name), get(name)])) as Section<Name>
  }
  const collections = get('Collections') ?? {}
  checkCollections(collections, schemas, mistakes)
  for (const [name, { schema }] of Object.entries(collections)) {
    const read =
      schema === undefined ? undefined : readSchema(`Collections.${name}.Schema`, schema, '', context, mistakes)
    if (read !== undefined) schemas.set(name, read)
  }
  const urls = addressesOf(flags, mistakes)
  const authentication = parseAuthentication(
    {
      enabled: get('Authentication.Enabled'),
      types: get('Authentication.AuthenticationType'),
      users: get('Authentication.Users'),
      apiKey: get('Authentication.ApiKey'),
      apiKeys: get('Authentication.ApiKeys'),
      secret: get('Authentication.Token.Secret'),
      expiresInSeconds: get('Authentication.Token.ExpiresInSeconds'),
    },
    mistakes,
  )
  const cors = sectionOf('Cors')
  checkOrigins(cors, mistakes)
  const dataFile: WriteSettings = { write: get('DataFile.Write'), maxDelaySeconds: get('DataFile.MaxDelay') }
  if (dataFile.write !== 'auto' && dataFile.maxDelaySeconds !== undefined)
    mistakes.push(`DataFile.MaxDelay needs DataFile.Write to be auto, not ${dataFile.write}.`)
  const basePath = readBasePath(get('Http.BasePath'), mistakes)
  const hosts = get('Http.Hosts')
  checkHosts(hosts, mistakes)
  const limits = sectionOf('Limits')
  checkProxies(limits.trustedProxies, mistakes)
  const simulation = {
    delay: sectionOf('Simulate.Delay'),
    error: sectionOf('Simulate.Error'),
    seed: get('Simulate.Seed'),
  }
  if (simulation.delay.minMs > simulation.delay.maxMs)
    mistakes.push('Simulate.Delay.MinMs must not be more than Simulate.Delay.MaxMs.')
  const cluster =
    get('Journal.Type') === 'jetstream'
      ? clusterOf(
          get('Journal.Servers'),
          get('Journal.Stream'),
          get('Journal.Replicas'),
          get('Journal.Credentials'),
          absolute,
          mistakes,
        )
      : undefined
  if (mistakes.length > 0) throw new BadSettings(mistakes)

  const named = flags.text('file')
  const file = absolute(named ?? DEFAULT_FILE)
  const journal = absolute(flags.text('journal') ?? journalOf(file))
  const staticFiles = get('Http.Static')
  return deepFreeze({
    file,
    isSample: named === undefined,
    journal,
    store: `${journal}/store`,
    compactAt: get('Store.CompactAt'),
    acceptJournal: flags.has('accept-journal'),
    urls,
    common: sectionOf('Common'),
    dataStore: sectionOf('DataStore'),
    dataFile,
    api: { ...sectionOf('Api'), schemas: Object.fromEntries(schemas) },
    authentication,
    cors,
    contentSecurityPolicy: get('Http.ContentSecurityPolicy'),
    basePath,
    hosts,
    staticFiles: staticFiles === '' ? undefined : absolute(staticFiles),
    collections,
    limits,
    segmentBytes: get('Journal.SegmentBytes'),
    compressAfter: get('Journal.Compress'),
    cluster,
    simulation,
    log: sectionOf('Log'),
    nonDefaults: nonDefaultsOf(values, schemas),
  })
}

/** The values of all settings from all sources. */
function readSources(flags: ParsedFlags, context: SettingsContext, mistakes: string[]) {
  const values = new Map<KeyName, unknown>()
  const schemas = new Map<string, JsonValue>()
  for (const source of [
    configuration(context, flags.text('settings'), mistakes),
    environmentSource(context.env, mistakes),
    flags,
  ]) {
    for (const [name, value] of source.entries) {
      const read = KEYS[name].read(value, source.isText)
      if (read !== undefined) values.set(name, read)
      else mistakes.push(wrongValue(name, value, source))
    }
    for (const [collection, schema] of source.schemas) {
      const read = readSchema(`${SCHEMAS}.${collection}`, schema, source.where, context, mistakes)
      if (read !== undefined) schemas.set(collection, read)
    }
  }
  return { values, schemas }
}

/** Turns `Limits.PageSize` into `pageSize`, and `Simulate.Delay.MinMs` into `minMs`. */
function memberOf(name: KeyName): string {
  const member = name.slice(name.lastIndexOf('.') + 1)
  return member.charAt(0).toLowerCase() + member.slice(1)
}

function nonDefaultsOf(
  values: ReadonlyMap<KeyName, unknown>,
  schemas: ReadonlyMap<string, JsonValue>,
): Settings['nonDefaults'] {
  const shown: Record<string, unknown> = {}
  for (const name of KEY_NAMES) {
    const { default: initial, isSecret } = KEYS[name] as Key<unknown>
    const value = values.get(name)
    if (value === undefined || JSON.stringify(value) === JSON.stringify(initial)) continue
    shown[name] = isSecret ? '***' : withoutPasswords(value)
  }
  if (schemas.size > 0) shown[SCHEMAS] = [...schemas.keys()]
  return shown
}

/** Masks credentials in URLs, such as those of NATS servers. */
function withoutPasswords(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPasswords)
  return typeof value === 'string' ? value.replace(/(^|\/\/)[^/\s]+@/g, '$1***@') : value
}

/** The addresses of --urls, or the one of --host and --port. */
function addressesOf(flags: ParsedFlags, mistakes: string[]): readonly Address[] {
  const [urls, host, port] = [flags.text('urls'), flags.text('host'), flags.text('port')]
  if (host === undefined && port === undefined) return parseUrls(urls ?? DEFAULT_URL, mistakes)
  if (urls !== undefined) mistakes.push('Give either --urls, or --host and --port.')
  return parseHostAndPort(host, port, mistakes)
}

/** Valid names of streams and subjects for NATS servers. */
const STREAM_NAME = /^[\w-]{1,64}$/
const SERVER = /^((nats|tls):\/\/)?[^/\s]+$/

/** Parses the location of a stream. */
export function clusterOf(
  servers: readonly string[],
  stream: string,
  replicas: number,
  credentials: string,
  absolute: (path: string) => string,
  mistakes: string[],
): ClusterSettings {
  if (servers.length === 0) mistakes.push('Journal.Servers must name a NATS server, such as nats://localhost:4222.')
  for (const server of servers) {
    if (SERVER.test(server)) continue
    mistakes.push('Journal.Servers must hold URLs such as nats://localhost:4222; one of them is none.')
  }
  if (!STREAM_NAME.test(stream)) mistakes.push('Journal.Stream must have 1 to 64 letters, digits, - or _.')
  return {
    servers,
    stream,
    replicas: replicas || (servers.length >= 3 ? 3 : 1),
    credentials: credentials === '' ? undefined : absolute(credentials),
  }
}

/** The named configuration file, or the one in the working directory, or the packaged one. */
function configuration(context: SettingsContext, named: string | undefined, mistakes: string[]): SettingsSource {
  const { absolute, readText, packagedSettings } = context
  const own = absolute(named ?? 'appsettings.json')
  const text = readText(own)
  if (text !== undefined) return fileSource(own, text, mistakes)
  if (named !== undefined) mistakes.push(`The settings file ${own} does not exist.`)
  return fileSource(packagedSettings, readText(packagedSettings) ?? '{}', mistakes)
}

function wrongValue(name: KeyName, value: JsonValue, { where }: SettingsSource): string {
  const { expects, isSecret } = KEYS[name] as (typeof KEYS)[KeyName] & { readonly isSecret?: true }
  return `The ${where}${name} must be ${expects}${isSecret ? '' : `, not ${JSON.stringify(value)}`}.`
}

function checkOrigins({ origins = [], credentials }: Settings['cors'], mistakes: string[]): void {
  for (const origin of origins) {
    if (origin === '*' && credentials) {
      mistakes.push('Cors.Origins must not be * together with Cors.Credentials: every page could act as its visitor.')
    }
    if (origin !== '*' && !(URL.canParse(origin) && new URL(origin).origin === origin)) {
      mistakes.push(`Cors.Origins must hold origins such as https://example.com, not ${JSON.stringify(origin)}.`)
    }
  }
}

function readBasePath(text: string, mistakes: string[]): string {
  const path = parseBasePath(text)
  if (path === undefined) mistakes.push(`Http.BasePath must be a path such as /recollect, not ${JSON.stringify(text)}.`)
  else if (isOwnPath(path)) {
    mistakes.push(
      `Http.BasePath must not be ${path}, as the server has paths that begin so itself. Let the proxy strip it and send it in X-Forwarded-Prefix.`,
    )
  }
  return path ?? ''
}

/** A host without a port: a name, an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:\*|[a-z\d_.-]+|\[[a-f\d:.]+\])$/i

function checkHosts(hosts: readonly string[], mistakes: string[]): void {
  for (const host of hosts.filter((one) => !HOST.test(one))) {
    mistakes.push(`Http.Hosts must hold host names without a port such as data.example, not ${JSON.stringify(host)}.`)
  }
}

function checkProxies(entries: readonly string[], mistakes: string[]): void {
  try {
    new TrustedProxies(entries)
  } catch (error) {
    mistakes.push(`Limits.TrustedProxies: ${(error as Error).message}.`)
  }
}

/** A schema, or the path of one. */
function readSchema(
  setting: string,
  schema: JsonValue,
  where: string,
  { absolute, readText }: SettingsContext,
  mistakes: string[],
): JsonValue | undefined {
  if (typeof schema !== 'string') {
    if (isObject(schema) || typeof schema === 'boolean') return schema
    mistakes.push(`The ${where}${setting} must be a JSON Schema or the path of one.`)
    return undefined
  }
  const path = absolute(schema)
  const text = readText(path)
  if (text !== undefined) return parseObject(path, text, mistakes)
  mistakes.push(`The ${where}${setting} names ${path}, which does not exist.`)
  return undefined
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}
