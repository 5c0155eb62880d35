import { CONTENT_SECURITY_POLICY } from '../http/headers.ts'
import { type Path, parsePath, splitList } from '../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../json/value.ts'
import type { WriteSettings } from '../projections/data-file/write-budget.ts'

/** A setting: what it is for, what it is when nobody says, and how its value is read. */
export interface Key<Value> {
  /** As --help shows it. */
  readonly type: string
  readonly otherwise: Value
  readonly about: string
  /** What a right value is, for the message about a wrong one. */
  readonly expects: string
  /** The value must not be shown. */
  readonly isSecret?: true
  /** Undefined for a wrong value. `isText` says that it came from a flag or the environment, where all is text. */
  readonly read: (value: JsonValue, isText: boolean) => Value | undefined
}

function boolean(about: string): Key<boolean> {
  return {
    type: 'boolean',
    otherwise: false,
    about,
    expects: 'true or false',
    read: (value, isText) => {
      const read = isText && (value === 'true' || value === 'false') ? value === 'true' : value
      return typeof read === 'boolean' ? read : undefined
    },
  }
}

function integer<Otherwise extends number | undefined>(
  otherwise: Otherwise,
  least: number,
  about: string,
  most = Number.MAX_SAFE_INTEGER,
): Key<number | Otherwise> {
  return {
    type: 'integer',
    otherwise,
    about,
    expects: most < Number.MAX_SAFE_INTEGER ? `an integer from ${least} to ${most}` : `an integer of at least ${least}`,
    read: (value, isText) => {
      const read = isText && typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
      return typeof read === 'number' && Number.isSafeInteger(read) && read >= least && read <= most ? read : undefined
    },
  }
}

function choice<Choice extends string>(otherwise: Choice, choices: readonly Choice[], about: string): Key<Choice> {
  return {
    type: choices.join('|'),
    otherwise,
    about,
    expects: `one of ${choices.join(', ')}`,
    read: (value) => choices.find((one) => one === value),
  }
}

/** An array of texts, or texts separated by commas. */
function texts(otherwise: readonly string[] | undefined, about: string): Key<readonly string[] | undefined> {
  return {
    type: 'list',
    otherwise,
    about,
    expects: 'a list of texts',
    read: (value) => {
      const list = typeof value === 'string' ? value.split(',').map((piece) => piece.trim()) : value
      return isArray(list) && list.every((one) => typeof one === 'string' && one !== '')
        ? (list as string[])
        : undefined
    },
  }
}

function text(otherwise: string, about: string): Key<string> {
  return {
    type: 'text',
    otherwise,
    about,
    expects: 'text in one line',
    read: (value) => (typeof value === 'string' && !/[\r\n]/.test(value) ? value : undefined),
  }
}

function secret(about: string): Key<string | undefined> {
  return {
    type: 'text',
    otherwise: undefined,
    about,
    expects: 'text',
    isSecret: true,
    read: (value) => (typeof value === 'string' && value !== '' ? value : undefined),
  }
}

/** An array of objects; as text, the JSON of one. */
function objects(about: string): Key<readonly JsonValue[]> {
  return {
    type: 'json',
    otherwise: [],
    about,
    expects: 'an array of objects',
    isSecret: true,
    read: (value, isText) => {
      const list = isText ? parsed(String(value)) : value
      return isArray(list) && list.every(isObject) ? list : undefined
    },
  }
}

/** Seconds; `off` for never. */
function secondsOrOff(otherwise: number, about: string): Key<number | 'off'> {
  return {
    type: 'seconds|off',
    otherwise,
    about,
    expects: 'a number of seconds, or off',
    read: (value, isText) => (value === 'off' ? value : integer(otherwise, 0, about).read(value, isText)),
  }
}

/** Hours of the day, from and until which minute; over midnight where the end is before the beginning. */
function hours(about: string): Key<{ readonly from: number; readonly until: number } | undefined> {
  return {
    type: 'hours',
    otherwise: undefined,
    about,
    expects: 'hours such as 03:00-05:00',
    read: (value) => {
      const [, ...numbers] = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)$/.exec(String(value)) ?? []
      const [fromHour = 0, fromMinute = 0, untilHour = 0, untilMinute = 0] = numbers.map(Number)
      const [from, until] = [60 * fromHour + fromMinute, 60 * untilHour + untilMinute]
      return from === until || until > MINUTES_A_DAY ? undefined : { from, until }
    },
  }
}

/** The indexes that collections are to have: `{"<collection>": {"Indexes": ["<field>,<field>"]}}`. */
function collections(about: string): Key<Readonly<Record<string, CollectionSettings>> | undefined> {
  return {
    type: 'json',
    otherwise: undefined,
    about,
    expects:
      'an object of {"Indexes": ["<field>,<field>"]} by collection, with at most four fields each and 16 indexes',
    read: (value, isText) => {
      const all = isText ? parsed(String(value)) : value
      if (!isObject(all)) return undefined
      const read = Object.entries(all).map(([name, one]) => [name, collectionSettings(one as JsonValue)] as const)
      return read.every(([, one]) => one) ? (Object.fromEntries(read) as Record<string, CollectionSettings>) : undefined
    },
  }
}

/** What is set for one collection. */
export interface CollectionSettings {
  /** The fields of each index. */
  readonly indexes: readonly (readonly Path[])[]
}

const MOST_INDEXES = 16
const MOST_FIELDS = 4

function collectionSettings(value: JsonValue): CollectionSettings | undefined {
  if (!isObject(value) || Object.keys(value).some((name) => name !== 'Indexes')) return undefined
  const { Indexes: indexes = [] } = value
  if (!isArray(indexes) || indexes.length > MOST_INDEXES) return undefined
  const fields = indexes.map((one) => (typeof one === 'string' ? splitList(one) : []))
  if (!fields.every(({ length }) => length > 0 && length <= MOST_FIELDS)) return undefined
  return { indexes: fields.map((list) => list.map(parsePath)) }
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return undefined
  }
}

const MINUTES_A_DAY = 24 * 60
const SECONDS_A_WEEK = 7 * 24 * 60 * 60

export const KEYS = {
  'Common.EagerDataReload': boolean('take in edits of the data file as soon as it changes'),
  'DataFile.Write': choice<WriteSettings['write']>(
    'auto',
    ['auto', 'stop', 'never'],
    'when the data file is written: behind the journal, only at a clean stop, or only by POST /admin/snapshot',
  ),
  'DataFile.MaxDelay': integer(
    undefined,
    1,
    'seconds after which a data file that is behind is written, whatever it costs; when not given, in proportion to what changed',
    SECONDS_A_WEEK,
  ),
  'Api.UpsertOnPut': boolean('PUT creates an item that does not exist'),
  'Api.ClientIdsOnPost': boolean('POST keeps the id that the client sends'),
  'Authentication.Enabled': boolean('only those may in who say who they are'),
  'Authentication.AuthenticationType': texts(['token'], 'token, basic, apikey, or several of them'),
  'Authentication.Users': objects('Username, Password (a hash of recollect hash-password) and Role of each'),
  'Authentication.ApiKey': secret('an API key with the role admin'),
  'Authentication.ApiKeys': objects('Name, Key and Role of each'),
  'Authentication.Token.Secret': secret('signs the tokens, at least 32 bytes; made and kept when there is none'),
  'Authentication.Token.ExpiresInSeconds': integer(3600, 1, 'seconds that a token is valid'),
  'Cors.Origins': texts(undefined, 'whose pages may call; when not given, those of this machine'),
  'Cors.Credentials': boolean('browsers may send the credentials that they hold themselves'),
  'Http.ContentSecurityPolicy': text(CONTENT_SECURITY_POLICY, 'what pages may load; empty for no policy'),
  'Http.Hosts': texts(
    [],
    'host names by which the server is reached where authentication is off, beside those of this machine; * for all',
  ),
  'Limits.BodyBytes': integer(1024 * 1024, 1, 'bytes of a request body, and of an item without its id'),
  'Limits.HeaderBytes': integer(16 * 1024, 1024, 'bytes of all headers of a request'),
  'Limits.HeaderSeconds': integer(20, 1, 'seconds that the headers of a request may take'),
  'Limits.RequestSeconds': integer(60, 1, 'seconds that a whole request may take'),
  'Limits.StallSeconds': integer(
    30,
    1,
    'seconds after which a client that reads nothing of its response is disconnected',
  ),
  'Limits.QueryBytes': integer(8 * 1024, 1, 'bytes of a query string'),
  'Limits.QueryParameters': integer(1000, 1, 'parameters of a query'),
  'Limits.PageSize': integer(10_000, 1, 'items of a page'),
  'Limits.IndexBytes': integer(
    0,
    0,
    'bytes that the indexes of queries may take together in the store; 0: half of what the items take',
  ),
  Collections: collections('the indexes that a collection is to have, whatever is asked for'),
  'Limits.ScanSeconds': integer(30, 1, 'seconds that a query without a fitting index may take of who is no admin'),
  'Limits.PatchOperations': integer(1000, 1, 'operations of a JSON Patch'),
  'Limits.Connections': integer(
    0,
    0,
    'open connections; 0: as many as the limit of open files (ulimit -n) has room for',
  ),
  'Limits.ConnectionsPerAddress': integer(
    512,
    1,
    'open connections of one address, but not of this machine or of a trusted proxy',
  ),
  'Limits.SocketsPerAddress': integer(256, 1, 'open sockets of one address'),
  'Limits.StreamsPerAddress': integer(64, 1, 'open streams of events (/events) of one address'),
  'Limits.SubscriptionItems': integer(10_000, 1, 'items that a subscription may begin with'),
  'Limits.SubscriptionsPerSocket': integer(100, 1, 'subscriptions of one socket'),
  'Limits.FailuresPerMinute': integer(20, 1, 'wrong credentials of one address in a minute'),
  'Limits.TrustedProxies': texts([], 'addresses and networks whose X-Forwarded-For counts'),
  'Log.Level': choice(
    'info',
    ['fatal', 'error', 'warn', 'info', 'debug', 'silent'],
    'what is logged; debug has a line a request',
  ),
  'Journal.Type': choice(
    'file',
    ['file', 'jetstream'],
    'where the journal is: on disk, or in NATS JetStream for several nodes',
  ),
  'Journal.Servers': texts([], 'the URLs of the NATS servers'),
  'Journal.Stream': text('recollect', 'the name of the stream'),
  'Journal.Replicas': integer(0, 0, 'copies of the stream; 0: three where there are three servers, else one'),
  'Journal.Credentials': text('', 'the path of a NATS credentials file'),
  'Limits.WaitSeconds': integer(5, 0, 'seconds that Wait-For-Position waits at most'),
  'Journal.SegmentBytes': integer(64 * 1024 * 1024, 1024, 'bytes of a segment, after which a new one is begun'),
  'Journal.Compress': secondsOrOff(
    60,
    'seconds after which a segment that is full is compressed; off: segments stay plain text',
  ),
  'Store.CompactAt': hours(
    'hours of the day in local time, such as 03:00-05:00, in which a store that has grown is compacted; when not given, none',
  ),
} as const satisfies Readonly<Record<string, Key<unknown>>>

export type KeyName = keyof typeof KEYS
export type ValueOf<Name extends KeyName> = (typeof KEYS)[Name]['otherwise']
export const KEY_NAMES = Object.keys(KEYS) as KeyName[]

/** JSON Schemas, one a collection: the one setting whose keys are not known in advance. */
export const SCHEMAS = 'Api.Schemas'
export const SECTIONS = [...new Set(KEY_NAMES.map((name) => name.split('.')[0] as string))]

export function isKey(name: string): name is KeyName {
  return Object.hasOwn(KEYS, name)
}

/** Whether the name stands for several keys, as `Authentication.Token` does. */
export function isGroup(name: string): boolean {
  return KEY_NAMES.some((key) => key.startsWith(`${name}.`))
}

export function knownKeys(section: string): string {
  const names = KEY_NAMES.filter((name) => name.startsWith(`${section}.`))
  return `there are ${[...names, ...(section === 'Api' ? [`${SCHEMAS}.<collection>`] : [])].join(', ')}`
}
