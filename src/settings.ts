import { TrustedProxies } from './access/addresses.ts'
import { isObject, type JsonValue } from './json/value.ts'
import type { WriteSettings } from './projections/data-file/write-budget.ts'
import { type AuthenticationSettings, parseAuthentication } from './settings/authentication.ts'
import { type CollectionSettings, KEY_NAMES, KEYS, type KeyName, SCHEMAS, type ValueOf } from './settings/keys.ts'
import { environmentSource, fileSource, flagSource, parseObject, type Source } from './settings/sources.ts'
import { type Address, DEFAULT_URL, parseUrls } from './settings/urls.ts'

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
  readonly dataFile: WriteSettings
  readonly api: {
    readonly upsertOnPut: boolean
    readonly clientIdsOnPost: boolean
    /** JSON Schemas by collection. */
    readonly schemas: Readonly<Record<string, JsonValue>>
  }
  readonly authentication: AuthenticationSettings
  readonly cors: {
    /** Undefined: the pages of this machine. */
    readonly origins: readonly string[] | undefined
    readonly credentials: boolean
  }
  /** Of pages; empty for none. */
  readonly contentSecurityPolicy: string
  /** Names that the server is reached by. */
  readonly hosts: readonly string[]
  /** By name. */
  readonly collections: Readonly<Record<string, CollectionSettings>>
  readonly limits: {
    readonly bodyBytes: number
    readonly headerBytes: number
    readonly headerSeconds: number
    readonly requestSeconds: number
    readonly stallSeconds: number
    readonly queryBytes: number
    readonly queryParameters: number
    readonly pageSize: number
    readonly indexBytes: number
    readonly scanSeconds: number
    readonly patchOperations: number
    /** 0: by the limit of open files. */
    readonly connections: number
    readonly connectionsPerAddress: number
    readonly socketsPerAddress: number
    readonly streamsPerAddress: number
    readonly subscriptionItems: number
    readonly subscriptionsPerSocket: number
    readonly failuresPerMinute: number
    readonly waitSeconds: number
    readonly trustedProxies: readonly string[]
  }
  readonly segmentBytes: number
  /** Seconds after which a full segment is compressed. */
  readonly compressAfter: number | 'off'
  /** The directory of the store that is built from the journal. */
  readonly store: string
  /** When the store is compacted, in minutes since midnight; undefined: never. */
  readonly compactAt: { readonly from: number; readonly until: number } | undefined
  /** The journal is in a stream; undefined: it is in the directory. */
  readonly cluster: ClusterSettings | undefined
  readonly logLevel: string
}

export interface ClusterSettings {
  readonly servers: readonly string[]
  readonly stream: string
  readonly replicas: number
  /** The path of a credentials file. */
  readonly credentials: string | undefined
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

export const DEFAULT_FILE = 'data/datastore.json'

/** Where a data file's journal is, unless it is named. */
export function journalOf(file: string): string {
  return `${file.replace(/\.json$/i, '')}.journal`
}

export type Invocation =
  | { readonly type: 'serve'; readonly settings: Settings }
  | { readonly type: 'help' }
  | { readonly type: 'version' }

/** Flag, then environment, then configuration file, then default. Throws BadSettings with every mistake; touches nothing. */
export function readSettings(surroundings: Surroundings): Invocation {
  const mistakes: string[] = []
  const flags = flagSource(surroundings.argv, mistakes)
  if (mistakes.length === 0 && flags.switches.has('help')) return { type: 'help' }
  if (mistakes.length === 0 && flags.switches.has('version')) return { type: 'version' }
  const { absolute } = surroundings
  const values = new Map<KeyName, unknown>()
  const schemas = new Map<string, JsonValue>()
  for (const source of [
    configuration(surroundings, flags.named.get('settings'), mistakes),
    environmentSource(surroundings.env, mistakes),
    flags,
  ]) {
    for (const [name, value] of source.entries) {
      const read = KEYS[name].read(value, source.isText)
      if (read !== undefined) values.set(name, read)
      else mistakes.push(wrongValue(name, value, source))
    }
    for (const [collection, schema] of source.schemas) {
      const read = readSchema(collection, schema, source, surroundings, mistakes)
      if (read !== undefined) schemas.set(collection, read)
    }
  }
  const get = <Name extends KeyName>(name: Name) => (values.get(name) ?? KEYS[name].otherwise) as ValueOf<Name>
  const urls = parseUrls(flags.named.get('urls') ?? DEFAULT_URL, mistakes)
  const authentication = parseAuthentication(
    {
      enabled: get('Authentication.Enabled'),
      types: get('Authentication.AuthenticationType') ?? [],
      users: get('Authentication.Users'),
      apiKey: get('Authentication.ApiKey'),
      apiKeys: get('Authentication.ApiKeys'),
      secret: get('Authentication.Token.Secret'),
      expiresInSeconds: get('Authentication.Token.ExpiresInSeconds'),
    },
    mistakes,
  )
  const cors = { origins: get('Cors.Origins'), credentials: get('Cors.Credentials') }
  checkOrigins(cors, mistakes)
  const dataFile: WriteSettings = { write: get('DataFile.Write'), maxDelaySeconds: get('DataFile.MaxDelay') }
  if (dataFile.write !== 'auto' && dataFile.maxDelaySeconds !== undefined)
    mistakes.push(`DataFile.MaxDelay needs DataFile.Write to be auto, not ${dataFile.write}.`)
  const hosts = get('Http.Hosts') ?? []
  checkHosts(hosts, mistakes)
  const trustedProxies = get('Limits.TrustedProxies') ?? []
  checkProxies(trustedProxies, mistakes)
  const cluster =
    get('Journal.Type') === 'jetstream'
      ? clusterOf(
          get('Journal.Servers') ?? [],
          get('Journal.Stream'),
          get('Journal.Replicas'),
          get('Journal.Credentials'),
          absolute,
          mistakes,
        )
      : undefined
  if (mistakes.length > 0) throw new BadSettings(mistakes)

  const named = flags.named.get('file')
  const file = absolute(named ?? DEFAULT_FILE)
  const journal = absolute(flags.named.get('journal') ?? journalOf(file))
  return {
    type: 'serve',
    settings: deepFreeze({
      file,
      isSample: named === undefined,
      journal,
      store: `${journal}/store`,
      compactAt: get('Store.CompactAt'),
      acceptJournal: flags.switches.has('accept-journal'),
      urls,
      common: { eagerDataReload: get('Common.EagerDataReload') },
      dataFile,
      api: {
        upsertOnPut: get('Api.UpsertOnPut'),
        clientIdsOnPost: get('Api.ClientIdsOnPost'),
        schemas: Object.fromEntries(schemas),
      },
      authentication,
      cors,
      contentSecurityPolicy: get('Http.ContentSecurityPolicy'),
      hosts,
      collections: get('Collections') ?? {},
      limits: {
        bodyBytes: get('Limits.BodyBytes'),
        headerBytes: get('Limits.HeaderBytes'),
        headerSeconds: get('Limits.HeaderSeconds'),
        requestSeconds: get('Limits.RequestSeconds'),
        stallSeconds: get('Limits.StallSeconds'),
        queryBytes: get('Limits.QueryBytes'),
        queryParameters: get('Limits.QueryParameters'),
        pageSize: get('Limits.PageSize'),
        indexBytes: get('Limits.IndexBytes'),
        scanSeconds: get('Limits.ScanSeconds'),
        patchOperations: get('Limits.PatchOperations'),
        connections: get('Limits.Connections'),
        connectionsPerAddress: get('Limits.ConnectionsPerAddress'),
        socketsPerAddress: get('Limits.SocketsPerAddress'),
        streamsPerAddress: get('Limits.StreamsPerAddress'),
        subscriptionItems: get('Limits.SubscriptionItems'),
        subscriptionsPerSocket: get('Limits.SubscriptionsPerSocket'),
        failuresPerMinute: get('Limits.FailuresPerMinute'),
        waitSeconds: get('Limits.WaitSeconds'),
        trustedProxies,
      },
      segmentBytes: get('Journal.SegmentBytes'),
      compressAfter: get('Journal.Compress'),
      cluster,
      logLevel: get('Log.Level'),
    }),
  }
}

/** What a NATS server takes as the name of a stream and of a subject. */
const STREAM_NAME = /^[\w-]{1,64}$/
const SERVER = /^((nats|tls):\/\/)?[^/\s]+$/

/** Reads where a stream is. */
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

/** The named configuration file, else the one in the working directory, else the packaged one. */
function configuration(surroundings: Surroundings, named: string | undefined, mistakes: string[]): Source {
  const { absolute, readText, packagedSettings } = surroundings
  const own = absolute(named ?? 'appsettings.json')
  const text = readText(own)
  if (text !== undefined) return fileSource(own, text, mistakes)
  if (named !== undefined) mistakes.push(`The settings file ${own} does not exist.`)
  return fileSource(packagedSettings, readText(packagedSettings) ?? '{}', mistakes)
}

function wrongValue(name: KeyName, value: JsonValue, { where }: Source): string {
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
  if (text !== undefined) return parseObject(path, text, mistakes)
  mistakes.push(`The ${where}${SCHEMAS}.${collection} names ${path}, which does not exist.`)
  return undefined
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}

export function helpText(): string {
  const keys = KEY_NAMES.map((name) => {
    const { type, about, otherwise } = KEYS[name]
    const stated =
      typeof otherwise === 'object' || otherwise === undefined || name === 'Http.ContentSecurityPolicy'
        ? ''
        : ` (${otherwise})`
    return `${`  --${name} <${type}>`.padEnd(50)} ${about}${stated}`
  })
  return `Serves the collections of a JSON file over REST and remembers every change.

Usage: recollect [flags]
       recollect verify [--file <path>] [--journal <path>] [--json] [--store]
       recollect compact [--file <path>] [--journal <path>]
       recollect replay --to <position|time> --out <file> [--file <path>] [--journal <path>]
       recollect replay --from <position|time> [--speed <1 to 1000>] [flags]
       recollect backup --out <directory> [--file <path>] [--journal <path>]
       recollect migrate --from <directory or nats://…> --to <the other> [--stream <name>] [--replicas <n>]
                         [--credentials <path>]
       recollect hash-password < <file with the password>

  --file <path>                       the JSON data file; created when missing (${DEFAULT_FILE})
  --urls <url>[;<url>]                listening addresses; the hosts * and + mean every interface (${DEFAULT_URL})
  --journal <path>                    the journal's directory (<file without .json>.journal)
  --settings <path>                   the configuration file (appsettings.json)
  --accept-journal                    go on with a journal that does not fit the data file
  --help, --version

Settings, also in the configuration file and as environment variables (Section__Key):

${keys.join('\n')}
  --Api.Schemas.<collection> <path>                a JSON Schema that the collection's items must satisfy
`
}
